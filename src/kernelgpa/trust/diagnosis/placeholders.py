"""Coordinates that stand for "not seen": the same ones in several observations.

They lie far from everything else, or several landmarks of one cloud have them and other clouds have them too, as zeros
inside centred clouds.
"""

from __future__ import annotations

import numpy as np

from ...observations.repeats import coincident_points, far_away, repeated_positions
from ...typing import BoolArray
from .evidence import Evidence
from .finding import CheckNotPossible, Finding, named

EXAMPLES = 3  # placeholders that are reported one by one


def placeholder_coordinates(evidence: Evidence) -> list[Finding]:
    findings = []
    observations = evidence.gpa.observations_
    groups, coincident = placeholder_groups(evidence), _coincident(evidence)
    for group in groups[:EXAMPLES]:
        clouds, landmarks = np.nonzero(group)
        value = observations.points[clouds[0], landmarks[0]]
        names = [observations.landmarks[j] for j in np.unique(landmarks)]
        several = (coincident & group).any()
        where = "several of them in one cloud" if several else "far from where the others predict them"
        found = (
            f"{len(clouds)} observations have the same coordinates ({', '.join(f'{x:g}' for x in value)}), {where}: "
            f"{named('landmark', names)}"
            f" in {named('cloud', [observations.names[t] for t in np.unique(clouds)])}"
        )
        code = ",".join(f"{x:.17g}" for x in value)
        action = f"the coordinates probably mean 'not seen': give NaN, or missing={code} (with the signs of the files)"
        gain = evidence.gain(group)
        severity = max(0.1, gain) if several else gain  # landmarks that are zero in many clouds leave no residuals
        findings.append(Finding("placeholder coordinates", severity, found, action))
    return findings


def placeholder_groups(evidence: Evidence) -> list[BoolArray]:  # (n, m) each
    """For each set of coordinates that stands for "not seen", the observations that have it."""
    points = evidence.gpa.observations_.points
    repeated = repeated_positions(points)
    if not repeated:
        return []
    odd, masks, coincident = far_away(points) | _suspicious(evidence), [], _coincident(evidence)
    for _, clouds, landmarks in repeated:
        several = coincident[clouds, landmarks].any() and len(np.unique(clouds)) > 1
        if several or odd[clouds, landmarks].all():
            mask = np.zeros(odd.shape, dtype=bool)
            mask[clouds, landmarks] = True
            masks.append(mask)
    names = evidence.gpa.observations_.names

    def order(mask: BoolArray) -> tuple[int, str]:
        """Largest first, and equal ones by the names of their clouds: no decision depends on the frame."""
        return -int(mask.sum()), min(str(names[t]) for t in np.flatnonzero(mask.any(axis=1)))

    return sorted(masks, key=order)


def _coincident(evidence: Evidence) -> BoolArray:  # (n, m)
    """Observations whose coordinates several other landmarks of their cloud have."""
    observations = evidence.gpa.observations_
    mask = np.zeros(observations.visible.shape, dtype=bool)
    for t, cloud in enumerate(observations.clouds):
        mask[t, cloud.seen[coincident_points(cloud)]] = True
    return mask


def _suspicious(evidence: Evidence) -> BoolArray:
    try:
        return evidence.suspicious
    except CheckNotPossible:
        return np.zeros(evidence.gpa.observations_.visible.shape, dtype=bool)
