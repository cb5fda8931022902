"""Whether another model suits the data better, by leave-one-out errors in closed form.

The errors of rigid motions and of affine maps are taken against the map of rigid registration, that of the present
model from its backward warps, and that of a shape model from a learned covariance.  Only observations count that all
of them predict, by the shares of their weights.
"""

from __future__ import annotations

import numpy as np

from ...estimators.prediction.backward import backward_targets
from ...typing import Array
from ...warps import AffineFamily
from ...warps.automatic import pooled
from ...warps.leave_out import leave_one_out
from .evidence import Evidence
from .finding import CheckNotPossible, Finding
from .learned_shape import LEAST_CLOUDS, MOST_COORDINATES

SIMPLER = 0.8  # a simpler model suits better if its error is below this share
SHAPE_MODEL, SHAPE_MODEL_OF_RIGID = 0.7, 0.2  # so does a shape model; a rigid map is not meant to predict deformation
SHAPE_MODEL_KIND = "a shape model suits better"
MOST_OBSERVATIONS = 20_000  # of the comparison with simpler models


def simpler_model(evidence: Evidence) -> list[Finding]:
    """Rigid or affine warps predict the left-out observations better than the present warps do."""
    gpa = evidence.gpa
    if not gpa._deforms:
        return []
    errors = {"rigid": evidence.rigid_map[1], "affine": _affine_lengths(evidence)}
    present = evidence.residuals
    ratios = {name: _mean(evidence, one, present) / _mean(evidence, present, one) for name, one in errors.items()}
    best = min(ratios, key=lambda name: ratios[name])
    if not ratios[best] < SIMPLER or _mean(evidence, present, errors[best]) <= evidence.rounding:
        return []
    listed = ", ".join(f"{name} {_mean(evidence, one, present):.3g}" for name, one in errors.items())
    found = (
        f"mean leave-one-out error in the unit of the data: {listed}, present warps "
        f"{_mean(evidence, present, errors[best]):.3g}"
    )
    action = f"use {'RigidGPA' if best == 'rigid' else 'AffineGPA'}, or a shape model (kernelgpa.ShapeModel)"
    return [Finding("a simpler model suits better", 1 - ratios[best], found, action)]


def shape_model(evidence: Evidence) -> list[Finding]:
    """A learned covariance predicts the left-out observations much better: articulated or repeated motion."""
    learned = evidence.learned_residuals
    if learned is None:
        if len(evidence.gpa.observations_.clouds) < LEAST_CLOUDS:  # then no covariance can be learned
            return []
        reason = f"a covariance is learned from up to {MOST_COORDINATES} coordinates of a cloud"
        raise CheckNotPossible(reason, "register some of the landmarks to have this check")
    present = evidence.residuals
    error, learned_error = _mean(evidence, present, learned), _mean(evidence, learned, present)
    if (
        not learned_error < (SHAPE_MODEL if evidence.gpa._deforms else SHAPE_MODEL_OF_RIGID) * error
        or error <= evidence.rounding
    ):
        return []
    found = (
        f"the mean leave-one-out error is {error:.3g} in the unit of the data by the present warps, and "
        f"{learned_error:.3g} by a covariance learned from the other clouds; the landmarks move together in a way that "
        "a smooth function of space does not describe, as in articulated motion"
    )
    action = "use a shape model (kernelgpa.ShapeModel) to predict landmarks"
    return [Finding(SHAPE_MODEL_KIND, 1 - learned_error / error, found, action)]


def _mean(evidence: Evidence, lengths: Array, other: Array) -> float:  # (n, m), (n, m)
    """The mean over the observations that both predict, each length limited to a multiple of the median."""
    known = np.isfinite(lengths) & np.isfinite(other) & (evidence.shares > 0)
    if not known.any():
        return np.nan
    return pooled(lengths[known], evidence.shares[known])


def _affine_lengths(evidence: Evidence) -> Array:  # (n, m)
    problem = evidence.gpa.registration_.problem
    positions, _ = evidence.rigid_map
    targets = backward_targets(problem, positions, evidence.gpa.weights_)
    lengths = np.full(problem.shape, np.nan)
    step = max(1, round(sum(len(one.positions) for one in targets) / MOST_OBSERVATIONS))
    for t in problem.participating[::step]:
        cloud = targets[t].cloud
        reduced = AffineFamily().prepare(cloud).reduce(0.0, cloud.weights)
        left_out = np.linalg.norm(leave_one_out(reduced, targets[t].positions), axis=1)
        lengths[t, cloud.seen] = left_out / (1 - 1 / problem.counts[cloud.seen])
    return lengths
