"""Wrong matches: landmarks of one cloud that are exchanged, and single observations far from where others predict them.

The suspicious observations B of a cloud are predicted from its other observations (theory, eq. 17).  If each lies near
the prediction of another one, their names are permuted; the best permutation is a linear assignment.  A cycle of two is
an exchanged pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from ...errors import NumericalFailure
from ...estimators.prediction.motion_residuals import moved_without
from ...observations.cloud import Cloud
from ...typing import Array, BoolArray, IndexArray
from ...warps.leave_out import leave_out
from .clouds import wrong_clouds
from .evidence import Evidence
from .finding import CheckNotPossible, Finding, FittedRegistration, named
from .outliers import enough_to_judge
from .placeholders import placeholder_groups
from .suspicious import INLIER_SHARE, weight_shares

WRONG_MATCHES = "possible wrong matches"
REPAIRED = 0.4  # an exchange repairs an observation if it leaves no more than this share of its distance
CONSPICUOUS = 3.0  # medians of the residuals of a cloud, which its wrong matches may have displaced as a whole
NEGLIGIBLE = 0.01  # share of the leave-one-out error, and of rejected observations, below which none are reported
MOST_SUSPICIOUS = 0.5  # share of a cloud's observations up to which the others can predict them


class Permutation(NamedTuple):
    """Landmarks of one cloud whose names are permuted; two of them: an exchanged pair."""

    cloud: int
    landmarks: IndexArray  # (b,) in the order of the cycle
    before: Array  # (b,) distances from where the others predict them
    after: Array  # (b,) the same with the names put right


def wrong_matches(evidence: Evidence) -> list[Finding]:
    """Exchanged landmarks first, then what they do not explain."""
    remaining = evidence.suspicious.copy()
    if remaining.any():
        remaining[wrong_clouds(evidence.gpa)] = False
    for group in placeholder_groups(evidence):
        remaining &= ~group
        if evidence.judge.evidence.gpa.robust_ is None:  # they displaced their clouds, and their landmarks in the map
            remaining[np.flatnonzero(group.any(axis=1))] = False
            remaining[:, np.flatnonzero(group.any(axis=0))] = False
    if remaining.any():
        remaining &= ~evidence.judge.scattered(_usual_motion(evidence.judge.evidence))
    permutations = _permutations(evidence, remaining) if remaining.any() else []
    findings = _exchanged(evidence, permutations)
    for one in permutations:
        remaining[one.cloud, one.landmarks] = False
    return findings + _unexplained(evidence, remaining)


def unjudged_observations(evidence: Evidence) -> list[Finding]:
    """Nothing more than :func:`wrong_matches` finds, but whether that function judged all observations."""
    if not evidence.needs_judge:
        return []
    judge, gpa = evidence.judge, evidence.gpa
    judged = judge.evidence.gpa.observations_.visible.sum()
    total = gpa.observations_.select(gpa.shared_landmarks_).visible.sum()
    if judged < total:
        reason = f"{judged} of {total} observations were judged, half of them those with the largest residuals"
        raise CheckNotPossible(reason, "register some of the clouds and landmarks to have all of them judged")
    few = judge.clouds[~enough_to_judge(judge.evidence.residuals, gpa.observations_.dimension)]
    if len(few):
        names = named("cloud", [gpa.observations_.names[t] for t in few])
        reason = f"{names} saw too few landmarks to tell which of them is wrong"
        raise CheckNotPossible(reason, f"give these clouds {gpa.observations_.dimension + 3} landmarks or more")
    return []


def _usual_motion(evidence: Evidence) -> BoolArray:  # (n, m)
    """Observations that lie where a covariance learned from the other clouds predicts them."""
    learned = evidence.learned_residuals
    if learned is None:
        return np.zeros(evidence.residuals.shape, dtype=bool)
    return np.asarray(np.nan_to_num(learned, nan=np.inf) < evidence.limits)


def _permutations(evidence: Evidence, suspicious: BoolArray) -> list[Permutation]:
    judge = evidence.judge
    several = [(i, int(t)) for i, t in enumerate(judge.clouds) if suspicious[t].sum() >= 2]
    masks = suspicious[judge.clouds]
    return [one._replace(cloud=t) for i, t in several for one in _permuted(judge.evidence, i, masks)]


def _permuted(evidence: Evidence, t: int, suspicious: BoolArray) -> list[Permutation]:
    """Cycles of landmarks of cloud t that fit once their names are put right."""
    gpa = evidence.gpa
    problem = gpa.registration_.problem
    cloud = problem.restricted.clouds[t]
    landmarks = problem.landmarks[cloud.seen]
    lengths = evidence.residuals[t, landmarks]
    rows = np.flatnonzero(suspicious[t, landmarks] & (lengths > CONSPICUOUS * np.nanmedian(lengths)))
    if not 2 <= len(rows) <= MOST_SUSPICIOUS * len(landmarks):
        return []
    try:
        predicted = _predicted_without(gpa, t, rows)
    except NumericalFailure:
        return []
    distances = cdist(cloud.points[rows], predicted)
    partner = linear_sum_assignment(distances**2)[1]
    before, after = np.diag(distances), distances[np.arange(len(rows)), partner]
    cycles = [cycle for cycle in _cycles(partner) if len(cycle) > 1]
    repaired = [cycle for cycle in cycles if np.all(after[cycle] < REPAIRED * before[cycle])]
    return [Permutation(t, landmarks[rows[cycle]], before[cycle], after[cycle]) for cycle in repaired]


def _predicted_without(gpa: FittedRegistration, t: int, rows: IndexArray) -> Array:  # (b, d)
    """Where the other observations of cloud t and the map predict those in the given rows, in the cloud's frame."""
    problem = gpa.registration_.problem
    cloud, reduced = problem.restricted.clouds[t], gpa._backward().warps[t].uncertainty
    if reduced is not None:
        left_out = leave_out(reduced, rows)
        return left_out.predict(cloud.points[left_out.kept])
    positions = gpa.map_[problem.landmarks[cloud.seen]]
    weights = gpa.weights_[t, problem.landmarks[cloud.seen]]
    mapped = Cloud(cloud.name, np.arange(len(positions)), positions, weights)
    return moved_without(mapped, cloud.points, np.isin(np.arange(len(positions)), rows), gpa._sizes_differ)


def _cycles(partner: IndexArray) -> list[IndexArray]:
    cycles, done = [], set()
    for start in range(len(partner)):
        cycle: list[int] = []
        at = start
        while at not in done:
            done.add(at)
            cycle.append(at)
            at = int(partner[at])
        if cycle:
            cycles.append(np.array(cycle))
    return cycles


def _exchanged(evidence: Evidence, permutations: list[Permutation]) -> list[Finding]:
    if not permutations:
        return []
    observations = evidence.gpa.observations_
    mask = np.zeros(evidence.suspicious.shape, dtype=bool)
    for one in permutations:
        mask[one.cloud, one.landmarks] = True
    permutations = sorted(permutations, key=lambda one: -float(one.before.max()))
    first = permutations[0]
    names = [observations.landmarks[j] for j in first.landmarks]
    what = " and ".join(repr(name) for name in names) if len(names) == 2 else ", ".join(map(repr, names[:5]))
    found = (
        f"landmarks {what} in cloud {observations.names[first.cloud]!r} are exchanged: they lie "
        f"{_lengths(first.before)} from where the others predict them, and {_lengths(first.after)} if they are "
        "exchanged back (in the unit of the data)"
    )
    if len(permutations) > 1:
        clouds = len({one.cloud for one in permutations})
        before, after = (np.concatenate([getattr(one, name) for one in permutations]) for name in ("before", "after"))
        found += (
            f"; in all, {int(mask.sum())} observations of {clouds} clouds are exchanged among themselves, with a "
            f"median distance of {np.median(before):.3g} before and {np.median(after):.3g} after"
        )
    action = "exchange them back" + _robust_advice(evidence.gpa)
    return [Finding("exchanged landmarks", evidence.gain(mask), found, action)]


def _lengths(values: Array) -> str:
    return " and ".join(f"{value:.3g}" for value in values) if len(values) == 2 else f"up to {values.max():.3g}"


def _robust_advice(gpa: FittedRegistration) -> str:
    return "" if gpa.robust_ else ", or use robust='tukey'"


def _unexplained(evidence: Evidence, wrong: BoolArray) -> list[Finding]:
    count, severity = int(wrong.sum()), evidence.gain(wrong)
    rejected = int(np.sum(wrong & (evidence.shares <= INLIER_SHARE)))
    if not count or max(severity, rejected / int(np.sum(np.isfinite(evidence.residuals)))) < NEGLIGIBLE:
        return []
    observations, judge = evidence.gpa.observations_, evidence.judge
    residuals, median = judge.scattered(judge.evidence.residuals), float(np.nanmedian(judge.evidence.residuals))
    t, j = np.unravel_index(np.argmax(np.where(wrong, residuals, -1.0)), wrong.shape)
    verb = "observation lies" if count == 1 else "observations lie"
    found = (
        f"{count} {verb} farther from where the others predict them than noise and deformation explain; the farthest "
        f"is landmark {observations.landmarks[j]!r} in cloud {observations.names[t]!r}, by {residuals[t, j]:.3g}, "
        f"where the median of all observations is {median:.3g} (in the unit of the data)"
    )
    if evidence.gpa.robust_:
        found += f"; the robust fit rejected {rejected} of them"
    action = "check the matches that suspicious_observations() lists" + _robust_advice(evidence.gpa)
    return [Finding(WRONG_MATCHES, severity, found, action)]


def single_inliers(evidence: Evidence) -> list[Finding]:
    gpa = evidence.gpa
    if gpa.robust_ is None:
        return []
    inliers = np.sum(weight_shares(gpa)[:, gpa.shared_landmarks_] > INLIER_SHARE, axis=0)
    single = [gpa.observations_.landmarks[j] for j in gpa.shared_landmarks_[inliers < 2]]
    if not single:
        return []
    found = f"the robust fit rejected all observations, or all but one, of {named('landmark', single)}"
    action = "do not rely on their positions in the map: a single observation cannot be checked"
    return [Finding("landmarks with fewer than two inliers", 0.75, found, action)]
