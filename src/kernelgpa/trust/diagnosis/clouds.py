"""Whole clouds that are wrong: mirror images, left and right exchanged, another unit, the same cloud twice."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from ...estimators.problem.sizes import of_another_size, relative_sizes
from ...gauge.rotations import nearest_reflection, nearest_rotation
from ...observations.repeats import equal_clouds
from ...typing import Array, BoolArray, IndexArray
from .evidence import Evidence
from .finding import CheckNotPossible, Finding, FittedRegistration, named

UNITS = {10.0: "mm and cm", 100.0: "cm and m", 1000.0: "mm and m", 25.4: "mm and inches", 2.54: "cm and inches"}
UNIT_MARGIN = 1.3  # specimens of one unit differ in size by about this factor
COPY = 1e-9  # of the size of a cloud: clouds that differ by less are the same
LEAST_PAIRS = 3  # of left and right landmarks
MOST_SYMMETRIC = 400  # landmarks for which pairs of left and right are searched
SYMMETRIC_DISTANCE = 0.25  # largest distance of a symmetric map from its mirror image, as a share of its size
DECISIVE = 10.0  # least ratio of squared distances for which exchanging left and right is a repair
THICK = {2: 0.04, 3: 0.25}  # least ratio of the last two singular values: thinner bodies are their own mirror images
REFINEMENTS = 5  # of the plane of symmetry


def mirror_images(evidence: Evidence) -> list[Finding]:
    """Clouds left out as mirror images, and clouds in which left and right are exchanged."""
    gpa = evidence.gpa
    observations = gpa.observations_
    exchanged = [repair for repair in _left_right(gpa) if repair.after < repair.reflected]  # a body is not symmetric
    findings = [_exchanged_sides(evidence, repair) for repair in exchanged]
    explained = {observations.names[repair.cloud] for repair in exchanged}
    others = [name for name in gpa.mirrored_ if name not in explained]
    if others:
        rows = [t for t in gpa.registration_.problem.mirrored if observations.names[t] not in explained]
        kept = len(gpa.registration_.problem.left_out) == 0
        effect = "were kept in the map" if kept else "had to be left out of the map"
        found = f"{named('cloud', others)} would fit the others only if reflected, and {effect}"
        action = "negate one coordinate of all their points, or drop these clouds"
        severity = max(0.1, evidence.gain(_rows(evidence, rows)))
        findings.append(Finding("mirror images", severity, found, action))
    return findings


def _exchanged_sides(evidence: Evidence, repair: Repair) -> Finding:
    gpa = evidence.gpa
    observations = gpa.observations_
    pairs = [f"{observations.landmarks[i]!r} and {observations.landmarks[j]!r}" for i, j in repair.pairs[:3]]
    name = observations.names[repair.cloud]
    effect = ", and it was left out of the map" if repair.cloud in gpa.registration_.problem.left_out else ""
    found = (
        f"in cloud {name!r}, exchanging {len(repair.pairs)} pairs of landmarks ({', '.join(pairs)}, ...) lowers "
        f"the distance from the map after a rigid motion from {repair.before:.3g} to {repair.after:.3g} (root mean "
        f"square, in the unit of the data){effect}"
    )
    action = f"exchange the left and right landmarks of cloud {name!r}, or negate one of its coordinates"
    return Finding("left and right exchanged", max(0.1, evidence.gain(_rows(evidence, [repair.cloud]))), found, action)


def left_right_search_possible(evidence: Evidence) -> list[Finding]:
    """Nothing more than :func:`mirror_images` finds, but whether that function could search for left and right."""
    if len(evidence.gpa.map_) > MOST_SYMMETRIC:
        reason = f"pairs of left and right landmarks are searched among up to {MOST_SYMMETRIC} landmarks"
        raise CheckNotPossible(reason, "register some of the landmarks to have this check")
    return []


class Repair(NamedTuple):
    """A cloud that fits the map once its left and right landmarks are exchanged."""

    cloud: int
    pairs: list[tuple[int, int]]
    before: float  # root mean square distance from the map after a rigid motion
    after: float
    reflected: float  # the same after the best reflection, without the exchange


def _left_right(gpa: FittedRegistration) -> list[Repair]:
    partner = _symmetry(gpa.map_)
    if partner is None:
        return []
    repairs = []
    for t, points in enumerate(gpa.observations_.points):
        before, ratio = _rigid_distance(points, gpa.map_)
        after, solid = _rigid_distance(points[partner], gpa.map_)
        pairs = [(j, k) for j, k in enumerate(partner.tolist()) if j < k and np.isfinite(points[[j, k], 0]).any()]
        decisive = DECISIVE * after**2 < before**2 and before > COPY * float(gpa.scales_[0])
        if decisive and min(ratio, solid) >= THICK[points.shape[1]] and len(pairs) >= LEAST_PAIRS:
            repairs.append(Repair(t, pairs, before, after, _rigid_distance(points, gpa.map_, reflected=True)[0]))
    return repairs if 2 * len(repairs) < len(gpa.observations_.clouds) else []


def _symmetry(positions: Array) -> IndexArray | None:  # (m, d) -> (m,)
    """For each landmark its partner on the other side of a symmetric map; None if the map is not symmetric."""
    known = np.flatnonzero(np.isfinite(positions[:, 0]))
    if not 2 * LEAST_PAIRS <= len(known) <= MOST_SYMMETRIC:
        return None
    centred = positions[known] - positions[known].mean(axis=0)
    size = float(np.sqrt(np.mean(np.sum(centred**2, axis=1))))
    best, partner = SYMMETRIC_DISTANCE * size, None
    for normal in np.linalg.svd(centred, full_matrices=False)[2]:
        reflection = np.eye(len(normal)) - 2 * np.outer(normal, normal)
        for _ in range(REFINEMENTS):
            order = linear_sum_assignment(cdist(centred, centred @ reflection, "sqeuclidean"))[1]
            reflection = nearest_reflection(centred[order].T @ centred)
        distance = float(np.sqrt(np.mean(np.sum((centred - centred[order] @ reflection) ** 2, axis=1))))
        is_pairing = np.all(order[order] == np.arange(len(order)))
        if distance < best and is_pairing and np.sum(order != np.arange(len(order))) >= 2 * LEAST_PAIRS:
            best, partner = distance, np.arange(len(positions))
            partner[known] = known[order]
    return partner


def _rigid_distance(points: Array, positions: Array, reflected: bool = False) -> tuple[float, float]:  # (m, d), (m, d)
    """The root mean square distance after the best rigid motion, and the ratio of the last two singular values.

    With ``reflected`` the motion contains a reflection.
    """
    both = np.isfinite(points[:, 0]) & np.isfinite(positions[:, 0])
    if both.sum() <= points.shape[1]:
        return np.inf, 0.0
    source, target = (one[both] - one[both].mean(axis=0) for one in (points, positions))
    cross = source.T @ target
    nearest = nearest_reflection(cross) if reflected else nearest_rotation(cross)
    distance = float(np.sqrt(np.mean(np.sum((source @ nearest - target) ** 2, axis=1))))
    s = np.linalg.svd(cross, compute_uv=False)
    return distance, float(s[-1] / max(s[-2], np.finfo(np.float64).tiny))


def another_unit(evidence: Evidence) -> list[Finding]:
    """Clouds of another size than the others, by medians, which wrong matches change little."""
    gpa, findings = evidence.gpa, []
    ratios = relative_sizes(gpa.observations_, gpa.map_)
    for t in np.flatnonzero(of_another_size(ratios)):
        name, ratio = gpa.observations_.names[t], float(ratios[t])
        units = [
            text for unit, text in UNITS.items() if abs(np.log(max(ratio, 1 / ratio) / unit)) < np.log(UNIT_MARGIN)
        ]
        found = f"cloud {name!r} is {ratio:.3g} times as large as the others are on its landmarks"
        found += f", which is about the ratio of {units[0]}" if units else ""
        action = f"check the unit of cloud {name!r}" + ("" if gpa._sizes_differ else ", or use RigidGPA(scaling=True)")
        severity = evidence.gain(_rows(evidence, [int(t)]))  # small if the cloud is: its residuals are in its own unit
        findings.append(Finding("another unit", severity if gpa._sizes_differ else max(0.1, severity), found, action))
    return findings


def wrong_clouds(gpa: FittedRegistration) -> BoolArray:  # (n,)
    """Clouds that are wrong as a whole, which explains the residuals of their observations."""
    wrong = of_another_size(relative_sizes(gpa.observations_, gpa.map_))
    wrong[gpa.registration_.problem.mirrored] = True
    wrong[[repair.cloud for repair in _left_right(gpa)]] = True
    return wrong


def same_cloud_twice(evidence: Evidence) -> list[Finding]:
    """Clouds with the same coordinates, and rigid copies of each other in data whose other clouds are not."""
    observations = evidence.gpa.observations_
    pairs = [*equal_clouds(observations.points), *_moved_copies(observations.points, observations.visible)]
    groups = _grouped(pairs)
    repeated = sum(map(len, groups))
    if not groups or 2 * repeated > len(observations.clouds):  # then the scene is rigid and without noise
        return []
    listed = [" and ".join(repr(observations.names[t]) for t in sorted(group)) for group in sorted(groups, key=min)]
    found = f"{repeated} clouds are copies of others, moved or not, such as {', '.join(listed[:3])}"
    action = "keep one cloud of each, because the second copy of a cloud counts as independent evidence"
    return [Finding("same cloud twice", repeated / len(observations.clouds), found, action)]


def _grouped(pairs: Iterable[tuple[int, int]]) -> list[set[int]]:
    """The connected components of pairs."""
    groups: list[set[int]] = []
    for pair in pairs:
        joined = [group for group in groups if group.intersection(pair)]
        groups = [group for group in groups if group not in joined] + [set(pair).union(*joined)]
    return groups


def _moved_copies(points: Array, visible: BoolArray) -> list[tuple[int, int]]:
    """Pairs of clouds with the same landmarks and the same size that a rigid motion takes onto each other."""
    centred = np.where(visible[:, :, None], points - np.nanmean(points, axis=1, keepdims=True), 0.0)
    sizes = np.sqrt(np.sum(centred**2, axis=(1, 2)))
    order = np.argsort(sizes, kind="stable")
    near = [(t, u) for t, u in pairwise(order.tolist()) if sizes[u] - sizes[t] <= COPY * sizes[u]]
    pairs = [(min(t, u), max(t, u)) for t, u in near if np.array_equal(visible[t], visible[u])]
    widths = {t: float(np.nanmax(np.ptp(points[t][visible[t]], axis=0))) for t, _ in pairs}
    return [(t, u) for t, u in pairs if _rigid_distance(points[t], points[u])[0] <= COPY * widths[t]]


def odd_sizes(evidence: Evidence) -> list[Finding]:
    """Size factors far from those of the others: beyond a factor of 1.6 and five standard deviations."""
    gpa = evidence.gpa
    if not gpa._sizes_differ:
        return []
    factors = gpa.size_factors_[gpa.registration_.problem.participating]
    logs = np.log(np.maximum(factors, np.finfo(np.float64).tiny)) - np.log(np.median(factors))
    limit = max(np.log(1.6), 5 * 1.4826 * float(np.median(np.abs(logs))))
    odd = gpa.registration_.problem.participating[np.abs(logs) > limit]
    if not len(odd):
        return []
    names = [gpa.observations_.names[t] for t in odd]
    values = ", ".join(f"{gpa.size_factors_[t]:.3g}" for t in odd[:3])
    found = f"{named('cloud', names)} have size factors such as {values}; the median of all is {np.median(factors):.3g}"
    action = "check the unit and the landmarks of these clouds, or use robust='tukey'"
    return [Finding("unusual size factors", max(0.1, evidence.gain(_rows(evidence, odd))), found, action)]


def _rows(evidence: Evidence, clouds: IndexArray | list[int]) -> BoolArray:  # (n, m)
    """All observations of some clouds."""
    mask = np.zeros(evidence.gpa.observations_.visible.shape, dtype=bool)
    mask[np.asarray(clouds, dtype=np.intp)] = True
    return mask
