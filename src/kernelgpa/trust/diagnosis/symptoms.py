"""Maps that collapse, warps that fold, settings beyond their range: what remains if no cause was found."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from ...gauge.scales import D_MODES
from ...observations.arrays import finite_rows
from ...observations.geometry import frame_of
from ...spectrum.eigenpairs import Uniqueness
from ...typing import Name
from ...warps.automatic import evenly_spaced
from ...warps.inverse import returning
from .evidence import Evidence
from .finding import Finding, FittedRegistration

COLLAPSED_STRETCH = 0.5  # the median stretch of space below which, or above whose inverse, a map has collapsed
SMALL_GAP = 0.1  # relative gap between eigenvalues d and d + 1 below which the paper's map is unreliable
NARROWEST_BANDWIDTH, WIDEST_BANDWIDTH = 0.02, 10.0  # beyond these a kernel is useless
MOST_ROUND_TRIPS = 2000  # landmarks that are taken into the map and back
NEGLIGIBLE_SHARE = 0.01  # of a cloud's landmarks
COARSE_SHARE = 0.1  # share of the map's size above which the error of inducing points is reported
EXTRAPOLATION = 3.0  # multiple of the median distance between neighbouring landmarks from which points are far away


def small_gap(evidence: Evidence) -> list[Finding]:
    """The other modes of the map do not single out d eigenvectors."""
    gpa = evidence.gpa
    if not gpa._deforms or gpa.modes not in D_MODES or gpa.spectrum_.gap > SMALL_GAP:
        return []
    spectrum = gpa.spectrum_
    severity = 0.8 if spectrum.uniqueness is Uniqueness.NO_GAP else 0.4
    found = (
        f"eigenvalue {spectrum.dimension} is {1 - spectrum.gap:.1%} of the next, so that noise decides which "
        f"eigenvectors span the map of modes={gpa.modes!r}"
    )
    action = "use modes='auto'"
    return [Finding("no spectral gap", severity, found, action)]


def collapsed_map(evidence: Evidence) -> list[Finding]:
    """Warps that flatten space, onto a map that is no mean shape.

    The mean of a sheet that bends to both sides is flat, however thick the clouds are: only directions count in which
    the rigid map is no sheet.  Strong bending foreshortens space too, but its map stays between the clouds.
    """
    gpa = evidence.gpa
    rigid, _ = evidence.rigid_map
    rank = frame_of(rigid[np.isfinite(rigid[:, 0])]).reliable_rank
    clouds = zip(gpa.warps_, gpa.observations_.clouds, gpa.size_factors_, strict=True)
    stretches = [
        np.linalg.svd(warp.sensor_jacobian(cloud.points), compute_uv=False)[:, :rank] / factor
        for warp, cloud, factor in clouds
    ]
    medians = np.median(np.concatenate(stretches), axis=0)
    if min(medians.min(), 1 / medians.max()) > COLLAPSED_STRETCH or _lies_between_the_clouds(evidence):
        return []
    found = (
        f"in the median over all observations the warps scale lengths by {medians.min():.2g} in one direction and by "
        f"{medians.max():.2g} in another, and the map differs from the mean shape by more than the clouds do"
    )
    action = _stiffer(gpa) + ("" if gpa.modes == "auto" else ", or use modes='auto'")
    return [Finding("collapsed map", 1.0, found, action)]


def _lies_between_the_clouds(evidence: Evidence) -> bool:
    """Whether the map differs from the map of rigid registration by less than the clouds do.

    With a the distance of the clouds from the rigid map, which is their mean, and b that of the fitted map from it, the
    clouds have the squared distance a^2 + b^2 from the fitted map: b < a if it is below 2 a^2.  Medians are compared,
    which wrong matches change little.
    """
    problem = evidence.gpa.registration_.problem
    own = np.linalg.norm(evidence.displacements, axis=2)
    mean = evidence.rigid_map[1] * (1 - 1 / np.maximum(problem.counts, 1))  # left out -> distance from the mean
    both = np.isfinite(own) & np.isfinite(mean)
    return bool(np.median(own[both]) ** 2 < 2 * np.median(mean[both]) ** 2) if both.any() else False


def _stiffer(gpa: FittedRegistration) -> str:
    """How to make the warps stiffer, by the settings that the estimator has."""
    settings = gpa.registration_.settings
    chosen = gpa.automatic_.settings.get("smoothing") if gpa.automatic_ else None
    if chosen is not None:
        return f"give a larger smoothing than the chosen {chosen:g}"
    if "smoothing" not in settings:
        return "use RigidGPA"
    return "raise smoothing" + (" or lower bandwidth" if "bandwidth" in settings else "")


def folded_warps(evidence: Evidence) -> list[Finding]:
    """Which share of their own landmarks the warps and their inverses do not take back to where they were."""
    gpa = evidence.gpa
    tried, mask = dict[Name, tuple[int, int]](), np.zeros(gpa.observations_.visible.shape, dtype=bool)
    most = max(1, MOST_ROUND_TRIPS // len(gpa.warps_))
    for t, (cloud, warp) in enumerate(zip(gpa.observations_.clouds, gpa.warps_, strict=True)):
        rows = evenly_spaced(np.arange(len(cloud.seen)), most)
        lost = ~returning(warp, cloud.points, rows)
        mask[t, cloud.seen[rows[lost]]] = True
        tried[cloud.name] = int(lost.sum()), len(rows)
    shares = {name: lost / count for name, (lost, count) in tried.items()}
    worst = max(shares, key=lambda name: shares[name])
    if shares[worst] < NEGLIGIBLE_SHARE:
        return []
    found = (
        f"inverse_transform does not take {shares[worst]:.0%} of the landmarks of cloud {worst!r} back to where they "
        f"were ({tried[worst][0]} of {tried[worst][1]} tried; {mask.sum() / sum(n for _, n in tried.values()):.1%} of "
        "those of all clouds), because the warps fold there"
    )
    action = "use predict instead of inverse_transform, which has no unique answer there"
    action += "" if gpa.automatic_ else f", or {_stiffer(gpa)}"
    return [Finding("folded warps", evidence.gain(mask), found, action)]


def unusual_bandwidth(evidence: Evidence) -> list[Finding]:
    gpa = evidence.gpa
    bandwidth = gpa.registration_.settings.get("bandwidth")
    if bandwidth is None or NARROWEST_BANDWIDTH <= bandwidth <= WIDEST_BANDWIDTH:
        return []
    too_wide = bandwidth > WIDEST_BANDWIDTH
    effect = "wide that the warps are nearly affine" if too_wide else "narrow that each landmark is warped alone"
    found = f"bandwidth={bandwidth:g} makes the kernel so {effect}"
    action = "use 0.1 to 1.5: bandwidth is a multiple of the mean distance between points of a cloud, not a length"
    return [Finding("unusual bandwidth", 0.5, found, action)]


def few_inducing_points(evidence: Evidence) -> list[Finding]:
    gpa = evidence.gpa
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


def far_points(gpa: FittedRegistration, points: npt.ArrayLike, cloud: Name) -> list[Finding]:
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
        f"times the median distance between neighbouring landmarks ({spacing:.3g} in the unit of the data)"
    )
    action = "add landmarks there, because the warp extrapolates and only its affine part is reliable"
    return [Finding("points far from the landmarks", min(0.9, 0.3 + float(far.mean())), found, action)]
