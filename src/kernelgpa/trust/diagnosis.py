"""What may be wrong with a fitted registration.

Each check looks at one property of a registration and returns findings, or none if all is well.  A finding states what
was found, how severe it is (0 to 1), and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree
from scipy.stats import chi

from ..gauge.initial import weakest_cut
from ..observations.arrays import finite_rows
from ..observations.cloud import Cloud
from ..observations.collection import Observations
from ..observations.geometry import frame_of
from ..spectrum.eigenpairs import Spectrum, Uniqueness
from ..typing import Array, IndexArray, Name
from ..warps import Warp
from ..warps.inverse import relative_determinant

if TYPE_CHECKING:  # estimators import this module
    from ..estimators.registration import Registration

INLIER_SHARE = 0.1  # a robust fit rejected an observation if it kept no more than this share of its weight
FEW_SHARED = 2.0  # a cloud with fewer shared landmarks than this multiple of d + 1 is weakly connected
THIN_SHARED = 0.02  # so is a cloud if its shared landmarks are thinner than this share of its thickness
COLLAPSED = 0.5  # the median stretch of space below which, or above whose inverse, a map has collapsed
SMALL_GAP = 0.1  # relative gap between eigenvalues d and d + 1 below which the paper's map is unreliable
OUTLIER_SPREADS = 8.0  # standard deviations from which a residual is suspicious
OUTLIER_RIGID_DISTANCES = 2.0  # and the multiple of the median rigid distance that it must exceed, as in robust fits
NARROWEST_BANDWIDTH, WIDEST_BANDWIDTH = 0.02, 10.0  # beyond these a kernel is useless
COARSE_SHARE = 0.1  # share of the map's size that the error of inducing points may reach
EXTRAPOLATION = 3.0  # multiple of the median distance between neighbouring landmarks from which points are far away
LISTED = 4  # names in a message


class FittedRegistration(Protocol):
    """What the checks read of a fitted estimator: n clouds, m landmarks, d dimensions."""

    _deforms: bool  # whether the warps are more than rigid motions and similarities
    modes: str | int
    robust_: str | None  # the loss that was used
    observations_: Observations
    registration_: Registration
    map_: Array  # (m, d)
    scales_: Array  # (d,)
    rotations_: Array  # (n, d, d)
    translations_: Array  # (n, d)
    size_factors_: Array  # (n,)
    warps_: list[Warp]
    mirrored_: list[Name]
    spectrum_: Spectrum
    shared_landmarks_: IndexArray  # landmarks that the map was solved from
    weights_: Array  # (n, m) of the last solve
    residuals_: Array  # (n, m) leave-one-out, in the map
    scaled_residuals_: Array  # (n, m)
    inducing_errors_: Array  # (n,)

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Finding:
    """One thing that may be wrong.

    Attributes
    ----------
    kind : str
        What kind of problem it is, in a few words.
    severity : float
        From 0 (good to know) to 1 (the result is useless).
    found : str
        What was found, with numbers.
    action : str
        What to do about it.
    """

    kind: str
    severity: float
    found: str
    action: str

    def __str__(self) -> str:
        return f"{self.kind} (severity {self.severity:.2g} of 1): {self.found}; {self.action}"


@dataclass(frozen=True)
class SuspiciousObservation:
    """An observation that may be a wrong match.

    Attributes
    ----------
    cloud, landmark : hashable
        Names of the cloud and of the landmark.
    residual : float
        Length of the leave-one-out residual in the map: the distance of the observation from where the rest of its
        cloud and the map predict it.
    weight : float
        Weight in the fit as a share of the weight given; less than 1 if a robust fit down-weighted it.
    """

    cloud: Name
    landmark: Name
    residual: float
    weight: float


def weight_shares(gpa: FittedRegistration) -> Array:  # (n, m)
    """Return the weights of the last solve as shares of the weights given; NaN where unseen."""
    given = gpa.observations_.weights
    return np.divide(gpa.weights_, given, out=np.full_like(given, np.nan), where=given > 0)


def suspicious_observations(gpa: FittedRegistration, count: int | None = None) -> list[SuspiciousObservation]:
    """Return observations by the length of their leave-one-out residuals, longest first."""
    residuals, shares, observations = gpa.residuals_, weight_shares(gpa), gpa.observations_
    known = int(np.sum(~np.isnan(residuals)))
    order = np.argsort(-np.nan_to_num(residuals, nan=-1.0), axis=None)[:known][:count]
    return [
        SuspiciousObservation(
            observations.names[t], observations.landmarks[j], float(residuals[t, j]), float(shares[t, j])
        )
        for t, j in zip(*np.unravel_index(order, residuals.shape), strict=True)
    ]


def suspicious_landmarks(gpa: FittedRegistration) -> list[tuple[Name, float]]:
    """Return landmarks and the medians of their leave-one-out residuals over the clouds, largest first."""
    known = np.flatnonzero(~np.isnan(gpa.residuals_).all(axis=0))
    medians = np.nanmedian(gpa.residuals_[:, known], axis=0)
    order = np.argsort(-medians, kind="stable")
    return [(gpa.observations_.landmarks[known[i]], float(medians[i])) for i in order]


def diagnose(
    gpa: FittedRegistration,
    points: npt.ArrayLike | None = None,  # (k, d)
    cloud: Name | None = None,
) -> list[Finding]:
    """Return everything that may be wrong, most severe first.

    If ``points`` of a ``cloud`` are given, a finding tells whether they lie too far from its landmarks to be warped.
    """
    findings = [finding for check in CHECKS for finding in check(gpa)]
    if points is not None and cloud is not None:
        findings += _far_points(gpa, points, cloud)
    return sorted(findings, key=lambda finding: -finding.severity)


# -- the clouds and landmarks --


def _mirror_images(gpa: FittedRegistration) -> list[Finding]:
    if not gpa.mirrored_:
        return []
    found = (
        f"{_named('cloud', gpa.mirrored_)} would fit the others only if reflected, and had to be left out of the map"
    )
    return [Finding("mirror images", 0.9, found, "negate one coordinate of all their points, or drop these clouds")]


def _rarely_seen_landmarks(gpa: FittedRegistration) -> list[Finding]:
    counts = gpa.observations_.counts
    once, never = int(np.sum(counts == 1)), int(np.sum(counts == 0))
    if not once + never:
        return []
    found = f"landmarks seen by one cloud: {once} of {len(counts)}, by no cloud: {never} of {len(counts)}"
    action = "do not rely on their positions, because they do not take part in the fit"
    return [Finding("landmarks seen once or never", 0.2 + 0.3 * (once + never) / len(counts), found, action)]


def _weakly_connected_clouds(gpa: FittedRegistration) -> list[Finding]:
    observations = gpa.observations_
    shared = observations.counts >= 2
    action = "add landmarks that this cloud shares with others and that do not lie in one plane"
    findings = []
    for cloud in observations.clouds:
        common = cloud.points[shared[cloud.seen]]
        thickness = _relative_thickness(common, cloud)
        if len(common) < FEW_SHARED * (observations.dimension + 1) or thickness < THIN_SHARED:
            found = (
                f"cloud {cloud.name!r} shares {len(common)} landmarks with other clouds, and these span "
                f"{thickness:.0%} of its thickness"
            )
            findings.append(Finding("weakly connected cloud", 0.6, found, action))
    return findings


def _relative_thickness(points: Array, cloud: Cloud) -> float:
    """Return the spread of the points along their thinnest axis as a share of that of the cloud.

    A cloud of rank r has r axes.  Points that span fewer have the thickness 0.
    """
    rank = cloud.frame.rank
    some, whole = (frame_of(these) for these in (points, cloud.points))
    thickness, of_cloud = (float(f.spread[rank - 1]) if f.rank >= rank else 0.0 for f in (some, whole))
    return thickness / max(of_cloud, float(np.finfo(np.float64).tiny))


def _weakly_connected_groups(gpa: FittedRegistration) -> list[Finding]:
    if not gpa.registration_.problem.weakly_connected:
        return []
    core, spectrum = gpa.registration_.problem.participants, gpa.registration_.problem.initial.spectrum
    first, second = ([core.names[t] for t in group] for group in weakest_cut(core))
    found = (
        f"{_named('cloud', first)} and {_named('cloud', second)} share landmarks that barely determine an affine map "
        f"between them (eigenvalue {spectrum.dimension} of the affine registration is {1 - spectrum.gap:.0%} of the "
        "next)"
    )
    action = "add shared landmarks that do not lie in one plane, and do not use modes='paper'"
    return [Finding("weakly connected groups", 0.7, found, action)]


# -- the map and the warps --


def _small_gap(gpa: FittedRegistration) -> list[Finding]:
    if not gpa._deforms or gpa.spectrum_.gap > SMALL_GAP:
        return []
    spectrum = gpa.spectrum_
    severity = 0.8 if spectrum.uniqueness is Uniqueness.NO_GAP else 0.4
    found = f"eigenvalue {spectrum.dimension} is {1 - spectrum.gap:.1%} of the next"
    action = "raise smoothing or lower bandwidth, and do not use modes='paper'"
    return [Finding("no spectral gap", severity, found, action)]


def _collapsed_map(gpa: FittedRegistration) -> list[Finding]:
    rank = int(np.sum(gpa.scales_ > 1e-8 * gpa.scales_[0]))
    clouds = zip(gpa.warps_, gpa.observations_.clouds, gpa.size_factors_, strict=True)
    stretches = [
        np.linalg.svd(warp.sensor_jacobian(cloud.points), compute_uv=False)[:, :rank] / factor
        for warp, cloud, factor in clouds
    ]
    medians = np.median(np.concatenate(stretches), axis=0)
    if min(medians.min(), 1 / medians.max()) > COLLAPSED:
        return []
    found = (
        f"in the median over all observations the warps scale lengths by {medians.min():.2g} in one direction and by "
        f"{medians.max():.2g} in another"
    )
    action = "raise smoothing or lower bandwidth" + ("" if gpa.modes == "auto" else ", or use modes='auto'")
    return [Finding("collapsed map", 1.0, found, action)]


def _folded_warps(gpa: FittedRegistration) -> list[Finding]:
    if not gpa._deforms:
        return []
    folded: dict[Name, int] = {}
    for cloud, warp in zip(gpa.observations_.clouds, gpa.warps_, strict=True):
        if cloud.frame.reliable_rank == gpa.observations_.dimension:  # across a sheet the orientation has no meaning
            count = int(np.sum(relative_determinant(warp, cloud.points) <= 0))
            if count:
                folded[cloud.name] = count
    if not folded:
        return []
    worst, total = max(folded, key=lambda name: folded[name]), sum(folded.values())
    found = (
        f"the warps of {len(folded)} clouds reverse the orientation of space at {total} landmarks, most often at "
        f"{folded[worst]} landmarks in cloud {worst!r}"
    )
    severity = 0.5 + 0.5 * total / sum(len(cloud.seen) for cloud in gpa.observations_.clouds)
    return [Finding("folded warps", severity, found, "raise smoothing, or look for wrong matches in these clouds")]


def _unusual_bandwidth(gpa: FittedRegistration) -> list[Finding]:
    bandwidth = gpa.registration_.settings.get("bandwidth")
    if bandwidth is None or NARROWEST_BANDWIDTH <= bandwidth <= WIDEST_BANDWIDTH:
        return []
    too_wide = bandwidth > WIDEST_BANDWIDTH
    effect = "wide that the warps are nearly affine" if too_wide else "narrow that each landmark is warped alone"
    found = f"bandwidth={bandwidth:g} makes the kernel so {effect}"
    action = "use 0.1 to 1.5: bandwidth is a multiple of the mean distance between points of a cloud, not a length"
    return [Finding("unusual bandwidth", 0.5, found, action)]


def _few_inducing_points(gpa: FittedRegistration) -> list[Finding]:
    errors = gpa.inducing_errors_
    size = float(np.sqrt(np.nanmean(np.nanvar(gpa.map_, axis=0)) * gpa.map_.shape[1]))
    coarse = int(np.sum(errors > COARSE_SHARE * size))
    if not coarse:
        return []
    worst = int(np.argmax(errors))
    share = float(errors[worst]) / size
    found = (
        f"the warps of {coarse} clouds may differ from exact warps by more than {COARSE_SHARE:.0%} of the map's size, "
        f"that of cloud {gpa.observations_.names[worst]!r} by up to {share:.0%}"
    )
    return [Finding("too few inducing points", 0.3 + 0.3 * min(1.0, share), found, "raise inducing or bandwidth")]


# -- the observations --


def _possible_wrong_matches(gpa: FittedRegistration) -> list[Finding]:
    lengths = gpa.scaled_residuals_
    if np.isnan(lengths).all():  # rigid warps, or no cloud has more landmarks than its warp needs
        return []
    limit = _outlier_limit(gpa)
    count = int(np.sum(np.nan_to_num(lengths) > limit))
    if not count:
        return []
    worst = suspicious_observations(gpa, 1)[0]
    found = (
        f"{count} observations lie more than {limit:.3g} (in the unit of the data) from where the others predict them; "
        f"the farthest is landmark {worst.landmark!r} in cloud {worst.cloud!r}, by {worst.residual:.3g}"
    )
    action = "check the matches that suspicious_observations() lists"
    action += "" if gpa.robust_ else ", or use robust='geman-mcclure'"
    share = count / int(np.sum(~np.isnan(gpa.residuals_)))
    return [Finding("possible wrong matches", min(0.95, 0.3 + 5 * share), found, action)]


def _outlier_limit(gpa: FittedRegistration) -> float:
    """Return the length from which a scaled residual is suspicious.

    It exceeds the noise, the rounding error, and the deformation: an observation that is no farther from the map than
    the clouds deform does no more harm than deformation does.
    """
    noise = float(np.nanmedian(gpa.scaled_residuals_) / chi(gpa.observations_.dimension).median())
    posed = np.einsum("tij,tmj->tmi", gpa.rotations_, gpa.observations_.points) + gpa.translations_[:, None]
    deformation = float(np.nanmedian(np.linalg.norm(posed - gpa.map_, axis=2)))
    thinnest = min(cloud.frame.thinness for cloud in gpa.observations_.clouds)  # its inverse amplifies rounding errors
    rounding = max(1e-9, 100 * np.finfo(np.float64).eps / thinnest) * gpa.scales_[0]
    return float(max(OUTLIER_SPREADS * noise, OUTLIER_RIGID_DISTANCES * deformation, rounding))


def _single_inliers(gpa: FittedRegistration) -> list[Finding]:
    if gpa.robust_ is None:
        return []
    inliers = np.sum(weight_shares(gpa)[:, gpa.shared_landmarks_] > INLIER_SHARE, axis=0)
    single = [gpa.observations_.landmarks[j] for j in gpa.shared_landmarks_[inliers < 2]]
    if not single:
        return []
    found = f"the robust fit rejected all observations, or all but one, of {_named('landmark', single)}"
    action = "do not rely on their positions in the map: a single observation cannot be checked"
    return [Finding("landmarks with fewer than two inliers", 0.75, found, action)]


def _far_points(gpa: FittedRegistration, points: npt.ArrayLike, cloud: Name) -> list[Finding]:
    t = gpa.observations_.cloud_index(cloud)
    landmarks = gpa.observations_.clouds[t].points
    tree = KDTree(landmarks)
    spacing = float(np.median(tree.query(landmarks, k=2)[0][:, 1]))
    array = gpa.warps_[t].checked(points)
    known = finite_rows(array)
    far = tree.query(array[known])[0] > EXTRAPOLATION * spacing
    if not far.any():
        return []
    found = (
        f"{far.sum()} of {known.sum()} points of cloud {cloud!r} lie farther from its landmarks than {EXTRAPOLATION:g} "
        f"times the median distance between neighbouring landmarks ({spacing:.3g})"
    )
    action = "add landmarks there, because the warp extrapolates and only its affine part is reliable"
    return [Finding("points far from the landmarks", min(0.9, 0.3 + float(far.mean())), found, action)]


def _named(what: str, names: Sequence[Name]) -> str:
    """Return for instance "clouds 1, 2, 3, 4 and 5 more"."""
    shown = ", ".join(repr(name) for name in names[:LISTED])
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{what}{'' if len(names) == 1 else 's'} {shown}{more}"


CHECKS: tuple[Callable[[FittedRegistration], list[Finding]], ...] = (
    _collapsed_map,
    _mirror_images,
    _small_gap,
    _weakly_connected_groups,
    _weakly_connected_clouds,
    _folded_warps,
    _possible_wrong_matches,
    _single_inliers,
    _rarely_seen_landmarks,
    _unusual_bandwidth,
    _few_inducing_points,
)
