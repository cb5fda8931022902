"""Screening before a fit: which clouds participate, and warnings about data that look wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import DegenerateCloud, InvalidObservations, WeaklyConnected, warn
from ...gauge.mirror import find_mirror_images, is_mirror_image
from ...gauge.rigid import rigid_registration
from ...observations import Cloud, Observations
from ...observations.identifiers import abbreviated
from ...observations.repeats import coincident_points
from ...typing import IndexArray, Name
from .problem import Problem, problem_of
from .sizes import of_another_size, relative_sizes

MOST_LISTED = 10  # names in a warning


@dataclass(frozen=True)
class MirrorImages:
    """Indices of the clouds of the other handedness: sure ones, and those that nothing can confirm."""

    mirrored: IndexArray
    doubtful: IndexArray


def screen(observations: Observations, sizes_differ: bool = False, mirrored: str = "leave-out") -> Problem:
    """The problem of the clouds that can be registered together, with warnings about what looks wrong.

    With ``sizes_differ`` clouds of any size are expected.  ``mirrored`` decides whether clouds that are mirror images
    of the others are left out of the map ("leave-out"), take part in it ("keep"), or are refused ("error").
    """
    everyone = np.arange(len(observations.clouds))
    problem = problem_of(observations, everyone)
    candidates = find_mirror_images(problem.initial.spectrum, problem.restricted.stacked)
    found = _judged(candidates, problem)
    if len(found.mirrored):
        problem = _with_mirror_images(problem, found.mirrored, mirrored)
    if len(found.doubtful):
        warn(_doubtful_message([observations.names[t] for t in found.doubtful]))
    messages = _line_messages(problem) + _unshared_messages(problem) + _coincidence_messages(observations)
    for message in messages if sizes_differ else messages + _size_messages(problem):
        warn(message)
    return problem


def _judged(candidates: IndexArray, problem: Problem) -> MirrorImages:
    """The candidates that are mirror images of the rigid map of the others, too, and those that nothing can confirm.

    Affine maps bring frames of an articulated body closer to each other's mirror images than rigid motions do.  What
    the rigid map refutes is no mirror image.  A cloud is doubtful if it is one of two, if groups of clouds are weakly
    connected, if the others are not connected without it, or if it shares too few landmarks with them to be placed.
    """
    none = candidates[:0]
    if not len(candidates) or problem.weakly_connected:  # then the affine registration does not determine the groups
        return MirrorImages(none, candidates)
    if len(problem.observations.clouds) == 2:  # none of them is right
        first, second = problem.restricted.clouds  # which saw all shared landmarks
        return MirrorImages(none, candidates if is_mirror_image(first, second.points) else none)
    return _confirmed(candidates, none, problem)


def _confirmed(candidates: IndexArray, doubtful: IndexArray, problem: Problem) -> MirrorImages:
    sure = _with_a_place(candidates, problem.observations)
    undecided, refuted = np.setdiff1d(candidates, sure), sure[:0]
    if len(sure):
        try:
            others = problem_of(problem.observations, np.setdiff1d(problem.participating, sure))
            rigid = rigid_registration(others.participants, others.initial.gauge.rotations).gauge.map
            clouds = others.restricted.clouds
            refuted = sure[[not is_mirror_image(clouds[t], rigid[clouds[t].seen]) for t in sure]]
        except (DegenerateCloud, WeaklyConnected):
            undecided = candidates
    remaining, doubtful = np.setdiff1d(candidates, [*undecided, *refuted]), np.union1d(doubtful, undecided)
    if len(remaining) == len(candidates):
        return MirrorImages(remaining, doubtful)
    return _confirmed(remaining, doubtful, problem)  # the rest participate, which changes the map of the others


def _with_a_place(mirrored: IndexArray, observations: Observations) -> IndexArray:
    """The clouds that share enough landmarks with a map of all other clouds to have a pose and a warp."""
    others = np.setdiff1d(np.arange(len(observations.clouds)), mirrored)
    shared = observations.select(np.flatnonzero(observations.at(others).counts >= 2))
    return mirrored[[_can_be_placed(shared.clouds[t]) for t in mirrored]]


def _can_be_placed(cloud: Cloud) -> bool:
    """Whether a cloud has more points than dimensions, and not all in one position."""
    return len(cloud.seen) > cloud.points.shape[1] and cloud.frame.rank > 0


def _with_mirror_images(problem: Problem, found: IndexArray, mirrored: str) -> Problem:
    """The problem with the clouds that are mirror images left out, kept or refused."""
    observations = problem.observations
    names = [observations.names[t] for t in found]
    image = f"{_listed('cloud', names)} {'a mirror image' if len(names) == 1 else 'mirror images'} of the others"
    if mirrored == "error":
        raise InvalidObservations(
            f"{image}; negate one coordinate there, or use mirrored='leave-out' or mirrored='keep'"
        )
    if mirrored == "keep":
        warn(f"{image}, and kept in the map. If the handedness of the data differs there, negate one coordinate")
        return replace(problem, mirrored=found)
    warn(f"{image} and left out of the map. If the handedness of the data differs there, negate one coordinate")
    return problem_of(observations, np.setdiff1d(np.arange(len(observations.clouds)), found), found)


def _doubtful_message(names: Sequence[Name]) -> str:
    return (
        f"{_listed('cloud', names)} kept in the map, but would fit better as a mirror image, which the "
        "other clouds share too little with each other to confirm; check the handedness"
    )


def _line_messages(problem: Problem) -> list[str]:
    names = [problem.observations.names[t] for t in problem.on_lines]
    if not names:
        return []
    return [
        f"{_listed('cloud', names)} connected with the others by landmarks on one line only, and the turn about this "
        "line is arbitrary; add shared landmarks off the line"
    ]


def _unshared_messages(problem: Problem) -> list[str]:
    names = problem.observations.landmarks
    never = [names[j] for j in np.flatnonzero(problem.counts == 0)]
    once = [names[j] for j in np.flatnonzero(problem.counts == 1)]
    messages = []
    if never:
        messages.append(f"{_listed('landmark', never)} seen by no participating cloud and NaN in the map")
    if once:
        messages.append(
            f"{_listed('landmark', once)} seen by one cloud only; the position comes from that cloud's warp "
            "and does not influence the map"
        )
    return messages


def _coincidence_messages(observations: Observations) -> list[str]:
    """Unseen points that were written as zeros or as -9999 all coincide."""
    found = [(cloud, points) for cloud in observations.clouds if len(points := coincident_points(cloud))]
    if not found:
        return []
    cloud, points = min(found, key=lambda one: (-len(one[1]), str(one[0].name)))  # whatever the order of the clouds
    first = f"cloud {cloud.name!r}: {len(points)} landmarks have the same position, {cloud.points[points[0]]}"
    others = f", and so have landmarks of {len(found) - 1} other clouds" if len(found) > 1 else ""
    return [f"{first}{others}; if they were not seen, give NaN"]


def _size_messages(problem: Problem) -> list[str]:
    """Clouds that are probably given in another unit than the others."""
    participants = problem.participants
    ratios = relative_sizes(participants, problem.initial.gauge.map)
    return [
        f"cloud {participants.names[t]!r} is {ratios[t]:.3g} times as large as the others are on its landmarks; check "
        "its unit"
        for t in np.flatnonzero(of_another_size(ratios))
    ]


def _listed(what: str, names: Sequence[Name]) -> str:
    shown = abbreviated(names, MOST_LISTED)
    return f"{what} {shown} is" if len(names) == 1 else f"{what}s {shown} are"
