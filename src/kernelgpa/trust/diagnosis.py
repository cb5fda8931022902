"""What may be wrong with a registration, worst first.

Each check looks at one thing that a fitted registration can be asked and says nothing when all is well.
A finding tells what was found, how bad it is (0 to 1), and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from ..estimators.robust import spread
from ..gauge.initial import weakest_cut
from ..observations.arrays import finite_rows
from ..observations.geometry import frame_of
from ..spectrum.eigenpairs import Uniqueness
from ..typing import Array, Name
from ..warps.inverse import oriented

FEW_TIES = 2.0  # times the landmarks that an affine map needs: fewer shared ones tie a cloud weakly
THIN_TIES = 0.02  # shared landmarks thinner than this share of the cloud tie it weakly
SHRUNK = 0.5  # a cloud squeezed below this, or stretched above its inverse, by its warp
SUSPICIOUS = 8.0  # spreads of the good residuals
HARMLESS = 2.0  # times the median distance that rigid motions leave, as in robust fitting
HEEDED = 0.1  # of its weight: an observation that a robust fit left less was set aside
NARROWEST, WIDEST = 0.02, 10.0  # bandwidths beyond which a kernel does nothing
TINY = float(np.finfo(np.float64).tiny)
COARSE = 0.1  # of the map's size: warps that inducing points may miss by more are coarse
OUTSIDE = 3.0  # times the usual distance between neighbouring landmarks


@dataclass(frozen=True)
class Finding:
    """One thing that may be wrong."""

    kind: str
    severity: float  # 0 to 1
    found: str
    action: str

    def __str__(self) -> str:
        return f"{self.kind} (severity {self.severity:.0%}): {self.found}; {self.action}"


@dataclass(frozen=True)
class SuspiciousObservation:
    """An observation that does not fit what the rest of its cloud and the other clouds say."""

    cloud: Name
    landmark: Name
    residual: float  # leave-one-out, in the map
    weight: float  # as it was used, against the weight given


def suspicious_observations(gpa: Any, count: int | None = None) -> list[SuspiciousObservation]:
    """Observations by leave-one-out residual, the most suspicious first."""
    residuals = gpa.residuals_
    order = np.argsort(-np.nan_to_num(residuals, nan=-1.0), axis=None)[: int(np.sum(~np.isnan(residuals)))][:count]
    given = gpa.observations_.weights
    listed = []
    for t, j in zip(*np.unravel_index(order, residuals.shape), strict=True):
        share = float(gpa.weights_[t, j] / given[t, j])
        listed.append(
            SuspiciousObservation(
                gpa.observations_.names[t], gpa.observations_.landmarks[j], float(residuals[t, j]), share
            )
        )
    return listed


def suspicious_landmarks(gpa: Any) -> list[tuple[Name, float]]:
    """Landmarks by their median leave-one-out residual over the clouds, the most suspicious first."""
    seen = np.flatnonzero(~np.isnan(gpa.residuals_).all(axis=0))
    medians = np.nanmedian(gpa.residuals_[:, seen], axis=0)
    order = np.argsort(-medians, kind="stable")
    return [(gpa.observations_.landmarks[seen[i]], float(medians[i])) for i in order]


def diagnose(gpa: Any, points: npt.ArrayLike | None = None, cloud: Name | None = None) -> list[Finding]:
    """Everything that may be wrong, worst first; ``points`` of a ``cloud`` are checked for lying outside."""
    findings = [finding for check in CHECKS for finding in check(gpa)]
    if points is not None and cloud is not None:
        findings += _outside(gpa, points, cloud)
    return sorted(findings, key=lambda finding: -finding.severity)


def _mirrored(gpa: Any) -> list[Finding]:
    if not gpa.mirrored_:
        return []
    return [
        Finding(
            "mirrored clouds",
            0.9,
            f"clouds {gpa.mirrored_} fit only as mirror images and were left out",
            "negate or swap coordinates there, or drop them",
        )
    ]


def _seen_once(gpa: Any) -> list[Finding]:
    counts = gpa.observations_.counts
    once, never = int(np.sum(counts == 1)), int(np.sum(counts == 0))
    if not once + never:
        return []
    share = (once + never) / len(counts)
    return [
        Finding(
            "landmarks seen once or never",
            0.2 + 0.3 * share,
            f"{once} seen by one cloud, {never} by none",
            "they have no say in the map; do not rely on their places",
        )
    ]


def _weakly_tied(gpa: Any) -> list[Finding]:
    observations = gpa.observations_
    shared = observations.counts >= 2
    needed, findings = observations.dimension + 1, []
    for one in observations.clouds:
        common = one.points[shared[one.seen]]
        thickness = _thickness(common, one.frame.rank) / max(_thickness(one.points, one.frame.rank), TINY)
        if len(common) < FEW_TIES * needed or thickness < THIN_TIES:
            findings.append(
                Finding(
                    "weakly tied",
                    0.6,
                    f"cloud {one.name!r} hangs on {len(common)} shared landmarks that span "
                    f"{thickness:.0%} of its thickness",
                    "give it more landmarks in common with the others",
                )
            )
    return findings


def _torn(gpa: Any) -> list[Finding]:
    if not gpa.problem_.weakly_connected:
        return []
    spectrum = gpa.problem_.initial.spectrum
    first, second = [[core.names[t] for t in group] for core in [gpa.problem_.core] for group in weakest_cut(core)]
    return [
        Finding(
            "weakly tied groups",
            0.7,
            f"clouds {_few(first)} and clouds {_few(second)} share landmarks that fix an affine map between them "
            f"hardly better than noise and deformation blur it (eigenvalue {spectrum.dimension} of the affine "
            f"registration is {1 - spectrum.gap:.0%} of the next)",
            "give them more landmarks in common that do not lie in one plane; modes='paper' is not to be trusted here",
        )
    ]


def _coarse(gpa: Any) -> list[Finding]:
    errors = getattr(gpa, "inducing_errors_", np.zeros(0))
    size = float(np.sqrt(np.nanmean(np.nanvar(gpa.map_, axis=0)) * gpa.map_.shape[1]))
    coarse = np.flatnonzero(errors > COARSE * size)
    if not len(coarse):
        return []
    worst = int(np.argmax(errors))
    return [
        Finding(
            "few inducing points",
            0.3 + 0.3 * min(1.0, float(errors[worst]) / size),
            f"in {len(coarse)} clouds the warps may miss what exact ones follow; in the worst, "
            f"{gpa.observations_.names[worst]!r}, by up to {errors[worst] / size:.0%} of the map's size",
            "raise inducing or bandwidth",
        )
    ]


def _few(names: list[Name]) -> str:
    return ", ".join(repr(name) for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _thickness(points: Array, rank: int) -> float:
    """Spread along the thinnest of the ``rank`` widest directions; 0 where the points span fewer."""
    frame = frame_of(points)
    return float(frame.spread[rank - 1]) if frame.rank >= rank else 0.0


def _no_gap(gpa: Any) -> list[Finding]:
    spectrum = gpa.spectrum_
    if not gpa.bends or spectrum.gap > 0.1:
        return []
    severity = 0.8 if spectrum.uniqueness is Uniqueness.NO_GAP else 0.4
    return [
        Finding(
            "no spectral gap",
            severity,
            f"eigenvalue {spectrum.dimension} is {1 - spectrum.gap:.1%} of the next",
            "raise smoothing or lower bandwidth; modes='paper' is not to be trusted here",
        )
    ]


def _collapsed(gpa: Any) -> list[Finding]:
    rank = int(np.sum(gpa.scales_ > 1e-8 * gpa.scales_[0]))
    factors = getattr(gpa, "size_factors_", np.ones(len(gpa.warps_)))
    stretch = [
        np.linalg.svd(warp.sensor_jacobian(one.points), compute_uv=False)[:, :rank] / factor
        for warp, one, factor in zip(gpa.warps_, gpa.observations_.clouds, factors, strict=True)
    ]
    middle = np.median(np.concatenate(stretch), axis=0)
    worst = float(min(middle.min(), 1 / middle.max()))
    if worst > SHRUNK:
        return []
    return [
        Finding(
            "collapsed map",
            1.0,
            f"the warps squeeze the clouds to {middle.min():.0%} in one direction and {middle.max():.0%} in another",
            "raise smoothing or lower bandwidth"
            + ("" if gpa.get_params().get("modes") == "auto" else ", use modes='auto'"),
        )
    ]


def _folded(gpa: Any) -> list[Finding]:
    if not gpa.bends:
        return []
    folded: dict[Name, int] = {}
    for one, warp in zip(gpa.observations_.clouds, gpa.warps_, strict=True):
        if one.frame.reliable_rank == gpa.observations_.dimension:  # across a sheet turning over means nothing
            count = int(np.sum(oriented(warp, one.points) <= 0))
            if count:
                folded[one.name] = count
    if not folded:
        return []
    worst = max(folded, key=lambda name: folded[name])
    share = sum(folded.values()) / sum(len(one.seen) for one in gpa.observations_.clouds)
    return [
        Finding(
            "folds",
            0.5 + 0.5 * share,
            f"the warps of {len(folded)} clouds turn space over, at {sum(folded.values())} landmarks in all; "
            f"worst is cloud {worst!r} with {folded[worst]}",
            "raise smoothing, or look for wrong matches there",
        )
    ]


def _suspicious(gpa: Any) -> list[Finding]:
    if not gpa.bends:
        return []
    if np.isnan(gpa.standardised_residuals_).all():  # clouds with no more landmarks than their warps need
        return []
    usual = spread(gpa.standardised_residuals_, gpa.observations_.dimension)
    # what lies no farther off than the clouds deform does no harm that deformation does not do
    harmless = HARMLESS * float(np.nanmedian(_rigid_distances(gpa)))
    thinnest = min(one.frame.thinness for one in gpa.observations_.clouds)  # across it rounding is amplified
    rounding = max(1e-9, 100 * np.finfo(np.float64).eps / thinnest)
    cut = max(SUSPICIOUS * usual, harmless, rounding * gpa.scales_[0])
    count = int(np.sum(np.nan_to_num(gpa.standardised_residuals_) > cut))
    if not count:
        return []
    first = suspicious_observations(gpa, 1)[0]
    share = count / int(np.sum(~np.isnan(gpa.residuals_)))
    return [
        Finding(
            "suspicious observations",
            min(0.95, 0.3 + 5 * share),
            f"{count} observations lie more than {cut:.3g} from where the others put them, "
            f"first cloud {first.cloud!r}, landmark {first.landmark!r} "
            f"({first.residual:.3g} off)",
            "see suspicious_observations() and mend the matches"
            + ("" if gpa.robust else ", or use robust='geman-mcclure'"),
        )
    ]


def _rigid_distances(gpa: Any) -> Array:  # (n, m), NaN where unseen
    posed = np.einsum("tij,tmj->tmi", gpa.rotations_, gpa.observations_.points) + gpa.translations_[:, None]
    return np.linalg.norm(posed - gpa.map_, axis=2)


def _lonely(gpa: Any) -> list[Finding]:
    """Landmarks that a robust fit left to a single observation."""
    if getattr(gpa, "robust", None) is None:
        return []
    given = gpa.observations_.weights
    factors = np.divide(gpa.weights_, given, out=np.zeros_like(given), where=given > 0)
    heeded = np.sum(factors[:, gpa.shared_landmarks_] > HEEDED, axis=0)
    lonely = gpa.shared_landmarks_[heeded < 2]
    if not len(lonely):
        return []
    names = [gpa.observations_.landmarks[j] for j in lonely]
    return [
        Finding(
            "landmarks left to one cloud",
            0.75,
            f"of the observations of landmarks {_few(names)} all but one or so were taken for wrong matches",
            "do not rely on their places in the map: a single observation cannot be checked",
        )
    ]


def _idle_kernel(gpa: Any) -> list[Finding]:
    bandwidth = getattr(gpa, "bandwidth", None)
    if bandwidth is None or NARROWEST <= bandwidth <= WIDEST:
        return []
    effect = (
        "so wide that the warps are nearly affine" if bandwidth > WIDEST else "so narrow that landmarks stand alone"
    )
    return [
        Finding(
            "unusual bandwidth",
            0.5,
            f"bandwidth {bandwidth:g} makes kernels {effect}",
            "it is a multiple of the mean distance between the points of a cloud, not a length; 0.1 to 1.5 is usual",
        )
    ]


def _outside(gpa: Any, points: npt.ArrayLike, cloud: Name) -> list[Finding]:
    own = gpa.observations_.clouds[gpa.observations_.cloud_index(cloud)].points
    tree = KDTree(own)
    usual = float(np.median(tree.query(own, k=2)[0][:, 1]))
    array = gpa.warps_[gpa.observations_.cloud_index(cloud)].checked(points)
    known = finite_rows(array)
    far = tree.query(array[known])[0] > OUTSIDE * usual
    if not far.any():
        return []
    return [
        Finding(
            "points far outside",
            min(0.9, 0.3 + float(far.mean())),
            f"{far.sum()} of {known.sum()} points "
            f"of cloud {cloud!r} lie more than {OUTSIDE:g} times the usual distance from its landmarks",
            "warps are guesses there; rely on the affine part only, or add landmarks",
        )
    ]


CHECKS: list[Callable[[Any], list[Finding]]] = [
    _collapsed,
    _mirrored,
    _no_gap,
    _torn,
    _weakly_tied,
    _folded,
    _suspicious,
    _lonely,
    _seen_once,
    _idle_kernel,
    _coarse,
]
