"""Clouds and landmarks that share too little with the others."""

from __future__ import annotations

import numpy as np

from ...gauge.initial import weakest_cut
from ...gauge.scales import D_MODES
from ...observations import Observations
from ...observations.cloud import Cloud
from ...observations.geometry import frame_of
from ...typing import Array, BoolArray
from .evidence import Evidence
from .finding import Finding, named

FEW_SHARED = 2.0  # a cloud with fewer shared landmarks than this multiple of d + 1 is weakly connected
THIN_SHARED = 0.02  # so is a cloud if its shared landmarks are thinner than this share of its thickness


def rarely_seen_landmarks(evidence: Evidence) -> list[Finding]:
    """Landmarks that at most one participating cloud saw, with their names."""
    gpa = evidence.gpa
    counts, names = gpa.registration_.problem.counts, gpa.observations_.landmarks
    found = [
        f"landmarks seen by {clouds}: {np.count_nonzero(counts == count)} of {len(counts)} "
        f"({named('landmark', [names[j] for j in np.flatnonzero(counts == count)])})"
        for count, clouds in ((1, "one cloud"), (0, "no cloud"))
        if np.any(counts == count)
    ]
    if not found:
        return []
    action = "do not rely on their positions, because they do not take part in the fit"
    severity = 0.2 + 0.3 * np.count_nonzero(counts < 2) / len(counts)
    return [Finding("landmarks seen once or never", severity, ", ".join(found), action)]


def undetermined_turns(evidence: Evidence) -> list[Finding]:
    """Clouds in 3D that share landmarks on one line only."""
    gpa = evidence.gpa
    on_lines = gpa.registration_.problem.on_lines
    if not len(on_lines):
        return []
    clouds = named("cloud", [gpa.observations_.names[t] for t in on_lines])
    found = f"the landmarks that {clouds} share with other clouds lie on one line, and the turn about it is arbitrary"
    action = "add shared landmarks off the line, and do not rely on the rotations or on other points of these clouds"
    return [Finding("undetermined turn", 0.7, found, action)]


def weakly_connected_clouds(evidence: Evidence) -> list[Finding]:
    """One finding for all clouds that share few landmarks with others, or landmarks nearly in one plane."""
    gpa = evidence.gpa
    observations, on_lines = gpa.observations_, gpa.registration_.problem.on_lines
    few, thickness = _few_shared(observations), {}
    shared = observations.counts >= 2
    for t, cloud in enumerate(observations.clouds):
        spanned = _relative_thickness(cloud.points[shared[cloud.seen]], cloud)
        if t not in on_lines and (few[t] or spanned < THIN_SHARED):
            thickness[t] = spanned
    if not thickness:
        return []
    numbers = observations.visible[:, shared].sum(axis=1)
    worst = min(thickness, key=lambda t: (numbers[t], thickness[t]))
    found = (
        f"cloud {observations.names[worst]!r} shares {numbers[worst]} landmarks with other clouds, and these span "
        f"{thickness[worst]:.0%} of its thickness"
    )
    if len(thickness) > 1:
        names = named("cloud", [observations.names[t] for t in thickness])
        found = f"{names} share few landmarks with other clouds, or landmarks nearly in one plane: {found}"
    action = "add landmarks that are shared with other clouds and that do not lie in one plane"
    return [Finding("weakly connected cloud", 0.6, found, action)]


def _few_shared(observations: Observations) -> BoolArray:  # (n,)
    """Whether each cloud shares few landmarks, and less than half of its own or of what is usual.

    A cloud of a set with few landmarks that shares all of them is as well connected as it can be.
    """
    shared = observations.visible[:, observations.counts >= 2].sum(axis=1)
    possible = np.maximum(observations.visible.sum(axis=1), np.median(shared))
    return np.asarray((shared < FEW_SHARED * (observations.dimension + 1)) & (2 * shared < possible))


def _relative_thickness(points: Array, cloud: Cloud) -> float:
    """Return the spread of the points along their thinnest axis as a share of that of the cloud.

    A cloud of rank r has r axes.  Points that span fewer have the thickness 0.
    """
    rank = cloud.frame.rank
    some, whole = (frame_of(these) for these in (points, cloud.points))
    thickness, of_cloud = (float(f.spread[rank - 1]) if f.rank >= rank else 0.0 for f in (some, whole))
    return thickness / max(of_cloud, float(np.finfo(np.float64).tiny))


def weakly_connected_groups(evidence: Evidence) -> list[Finding]:
    gpa = evidence.gpa
    if not gpa.registration_.problem.weakly_connected:
        return []
    core, spectrum = gpa.registration_.problem.participants, gpa.registration_.problem.initial.spectrum
    first, second = ([core.names[t] for t in group] for group in weakest_cut(core))
    found = (
        f"{named('cloud', first)} and {named('cloud', second)} share landmarks that barely determine an affine map "
        f"between them (eigenvalue {spectrum.dimension} of the affine registration is {1 - spectrum.gap:.0%} of the "
        "next)"
    )
    action = "add shared landmarks that do not lie in one plane"
    action += ", and use modes='auto'" if gpa._deforms and gpa.modes in D_MODES else ""
    return [Finding("weakly connected groups", 0.7, found, action)]
