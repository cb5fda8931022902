"""Screening before a fit: which clouds participate, and warnings about data that look wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...errors import DegenerateCloud, InvalidObservations, warn
from ...gauge.mirror import MirrorImages, find_mirror_images, is_mirror_image
from ...gauge.rigid import rigid_registration
from ...observations import Cloud, Observations
from ...observations.geometry import RESOLUTION_MARGIN
from ...typing import Array, IndexArray, Name
from .participants import Problem, problem_of

COINCIDENT = 4  # landmarks of one cloud at exactly the same position that are too many for chance
SIZE_RATIO = 3.0  # a cloud this many times larger or smaller than the others probably has another unit


def screen(observations: Observations, sizes_differ: bool = False, mirrored: str = "leave-out") -> Problem:
    """The problem of the clouds that can be registered together, with warnings about what looks wrong.

    With ``sizes_differ`` clouds of any size are expected.  ``mirrored`` says whether clouds that are mirror images of
    the others are left out of the map ("leave-out"), take part in it ("keep"), or are refused ("error").
    """
    everyone = np.arange(len(observations.clouds))
    problem = problem_of(observations, everyone)
    found = find_mirror_images(problem.initial.spectrum, problem.restricted)
    too_few = len(everyone) - len(found.mirrored) < 2  # of two clouds, none is right
    if problem.weakly_connected or too_few:  # the affine registration does not determine the handedness of the groups
        found = MirrorImages(found.mirrored[:0], np.union1d(found.mirrored, found.doubtful))
    found = _confirmed(found, problem)
    if len(found.mirrored):
        problem = _with_mirror_images(problem, found.mirrored, mirrored)
    if len(found.doubtful):
        warn(_doubtful_message([observations.names[t] for t in found.doubtful]))
    messages = _unshared_messages(problem) + _coincidence_messages(observations)
    for message in messages if sizes_differ else messages + _size_messages(problem):
        warn(message)
    return problem


def _confirmed(found: MirrorImages, problem: Problem) -> MirrorImages:
    """Only those that are mirror images of the rigid map of the others, too; the rest are doubtful.

    Affine maps bring frames of an articulated body closer to each other's mirror images than rigid motions do.
    """
    if not len(found.mirrored):
        return found
    try:
        others = problem_of(problem.observations, np.setdiff1d(problem.participating, found.mirrored))
    except DegenerateCloud:  # one shares too few landmarks with the others; leaving it out raises this error again
        return found
    rigid = rigid_registration(others.participants, others.initial.gauge.rotations).gauge.map
    clouds = others.restricted.clouds
    sure = np.array([is_mirror_image(clouds[t], rigid[clouds[t].seen]) for t in found.mirrored])
    return MirrorImages(found.mirrored[sure], np.union1d(found.doubtful, found.mirrored[~sure]))


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
        f"{_listed('cloud', names)} kept in the map, but would fit better as a mirror image. Sheets and weakly "
        "connected clouds do; check the handedness otherwise"
    )


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
    messages = []
    for cloud in observations.clouds:
        points = _coincident_points(cloud)
        if len(points):
            messages.append(
                f"cloud {cloud.name!r}: {len(points)} landmarks have the same position, {cloud.points[points[0]]}; if "
                "they were not seen, give NaN"
            )
    return messages


def _coincident_points(cloud: Cloud) -> IndexArray:
    """The largest set of COINCIDENT or more points that coincide, up to the rounding of a rotation of the data."""
    tolerance = RESOLUTION_MARGIN * cloud.points.shape[1] * cloud.resolution
    first = np.sort(cloud.points[:, 0])
    if not np.any(first[COINCIDENT - 1 :] - first[: len(first) - COINCIDENT + 1] <= tolerance):  # the usual case
        return np.zeros(0, dtype=np.intp)
    sets = [np.arange(len(cloud.points))]
    for coordinate in cloud.points.T:
        orders = [some[np.argsort(coordinate[some], kind="stable")] for some in sets]
        runs = [run for order in orders for run in _runs(order, coordinate[order], tolerance)]
        sets = [run for run in runs if len(run) >= COINCIDENT]
    return np.sort(max(sets, key=len)) if sets else np.zeros(0, dtype=np.intp)


def _runs(order: IndexArray, ascending: Array, tolerance: float) -> list[IndexArray]:
    """Consecutive items in runs, none of which extends further than the tolerance."""
    starts = [0]
    for i, value in enumerate(ascending.tolist()):
        if value - ascending[starts[-1]] > tolerance:
            starts.append(i)
    return np.split(order, starts[1:])


def _size_messages(problem: Problem) -> list[str]:
    """Clouds that are probably given in another unit than the others."""
    clouds, stacked, M = problem.participants.clouds, problem.participants.stacked, problem.initial.gauge.map
    means = (stacked.weights.T @ M) / stacked.total_weights[:, None]
    map_squares = stacked.weights.T @ np.sum(M**2, axis=1) - stacked.total_weights * np.sum(means**2, axis=1)
    own_squares = np.trace(stacked.moments, axis1=1, axis2=2)
    ratios = np.sqrt(own_squares / np.maximum(map_squares, np.finfo(np.float64).tiny))
    return [
        f"cloud {cloud.name!r} is {ratio:.3g} times as large as the others are on its landmarks; check its unit"
        for cloud, ratio in zip(clouds, ratios / np.median(ratios), strict=True)
        if not 1 / SIZE_RATIO < ratio < SIZE_RATIO
    ]


def _listed(what: str, names: Sequence[Name]) -> str:
    shown = ", ".join(repr(name) for name in names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"{what} {shown} is" if len(names) == 1 else f"{what}s {shown} are"
