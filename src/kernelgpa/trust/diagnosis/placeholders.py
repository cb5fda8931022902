"""Coordinates that stand for "not seen": the same ones in several observations, far from everything else."""

from __future__ import annotations

import numpy as np

from ...observations.repeats import far_away, repeated_positions
from ...typing import BoolArray
from .evidence import Evidence
from .finding import CheckNotPossible, Finding, named

EXAMPLES = 3  # placeholders that are reported one by one


def placeholder_coordinates(evidence: Evidence) -> list[Finding]:
    findings = []
    observations = evidence.gpa.observations_
    groups = placeholder_groups(evidence)
    for group in groups[:EXAMPLES]:
        clouds, landmarks = np.nonzero(group)
        value = observations.points[clouds[0], landmarks[0]]
        names = [observations.landmarks[j] for j in np.unique(landmarks)]
        found = (
            f"{len(clouds)} observations have the same coordinates ({', '.join(f'{x:g}' for x in value)}), far from "
            f"where the others predict them: {named('landmark', names)}"
            f" in {named('cloud', [observations.names[t] for t in np.unique(clouds)])}"
        )
        code = ",".join(f"{x:.17g}" for x in value)
        action = f"the coordinates probably mean 'not seen': give NaN, or missing={code} (with the signs of the files)"
        findings.append(Finding("placeholder coordinates", evidence.gain(group), found, action))
    return findings


def placeholder_groups(evidence: Evidence) -> list[BoolArray]:  # (n, m) each
    """For each set of coordinates that occurs more than once, and only far away, the observations that have it."""
    points = evidence.gpa.observations_.points
    repeated = repeated_positions(points)
    if not repeated:
        return []
    odd, masks = far_away(points) | _suspicious(evidence), []
    for _, clouds, landmarks in repeated:
        if odd[clouds, landmarks].all():
            mask = np.zeros(odd.shape, dtype=bool)
            mask[clouds, landmarks] = True
            masks.append(mask)
    names = evidence.gpa.observations_.names

    def order(mask: BoolArray) -> tuple[int, str]:
        """Largest first, and equal ones by the names of their clouds: no decision depends on the frame."""
        return -int(mask.sum()), min(str(names[t]) for t in np.flatnonzero(mask.any(axis=1)))

    return sorted(masks, key=order)


def _suspicious(evidence: Evidence) -> BoolArray:
    try:
        return evidence.suspicious
    except CheckNotPossible:
        return np.zeros(evidence.gpa.observations_.visible.shape, dtype=bool)
