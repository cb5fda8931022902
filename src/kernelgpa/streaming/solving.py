"""From the running sum of a stream to a map in its own frame: that of a batch fit to the same clouds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import cast

import numpy as np
from sklearn.base import clone

from .._numerics.threads import limit_threads, one_blas_thread
from ..errors import KernelGPAError, NumericalFailure, TooLarge
from ..estimators.automatic import with_first_choice
from ..estimators.base import GPA
from ..estimators.deformable import DeformableGPA, require_landmarks
from ..estimators.problem.screening import screen
from ..estimators.registration import padded
from ..gauge.initial import Start
from ..gauge.poses import pose_onto
from ..observations.connectivity import connected_groups, require_connected
from ..observations.stacked import StackedClouds
from ..spectrum.dense import DenseCost
from ..spectrum.eigenpairs import Metric, Spectrum, bottom_eigenvalues
from ..typing import Array, IndexArray
from ..warps import AffineFamily, Family
from .running_sum import CloudKey, RunningSum
from .stream_map import ReducedClouds, StreamMap

ENOUGH_CLOUDS = 16  # from which automatic settings change little
DISCONNECTED = 1e-9  # of the largest eigenvalue: a smaller one may mean that the clouds are not connected


def family_of(estimator: GPA) -> Family:
    """The family by which clouds are reduced; affine if the warps are rigid."""
    return cast(DeformableGPA, estimator)._family() if estimator._deforms else AffineFamily()


def with_settings_chosen(estimator: GPA, running: RunningSum, used: GPA) -> GPA:
    """The estimator with numbers for its automatic settings, chosen from the clouds in the sum.

    Many clouds have other best settings than the fewer of the last choice by little: the search starts from those used.
    """
    near = cast(DeformableGPA, used) if len(running.participating) >= ENOUGH_CLOUDS else None
    with limit_threads(1):  # the clouds of a sample are small
        problem = screen(running.observations(), estimator._sizes_differ, estimator.mirrored)
        return with_first_choice(cast(DeformableGPA, estimator), problem, near)


def solve_sum(estimator: GPA, running: RunningSum, rotations: Array, last: StreamMap | None) -> StreamMap:
    """The map of the summed cost, from initial rotations (n, d, d) and, if there is one, the last map."""
    clouds, cost = running.stacked(), running.cost()
    require_landmarks(*clouds.centred.shape[1:])
    lazy = cast(DeformableGPA, estimator).modes == "auto" and running.surely_connected()
    try:
        start = Start(rotations) if last is None else _warm_start(running, rotations, last)
        solution = cast(DeformableGPA, estimator)._solve(clouds, cost, start, with_spectrum=not lazy)
    except (NumericalFailure, np.linalg.LinAlgError) as problem:
        require_connected(running.observations())
        raise NumericalFailure(str(problem)) from problem
    spectrum, gauge = solution.spectrum, solution.gauge
    if spectrum is not None and spectrum.values[0] < DISCONNECTED * spectrum.top:
        require_connected(running.observations())
    eigenvectors = np.zeros((0, 0)) if last is None else last.eigenvectors
    if spectrum is not None and spectrum.subspace is not None:
        eigenvectors = np.zeros((len(running.names), spectrum.subspace.shape[1]))
        eigenvectors[running.landmarks] = spectrum.subspace
    reduced, rows = reduced_clouds(running), running.rows.copy()
    stream_map = StreamMap(
        [running.names[index] for index in running.landmarks],
        gauge.map,
        running.participating,
        gauge.rotations,
        gauge.translations,
        gauge.scales,
        _eigenvalues(reduced, rows, clouds) if spectrum is None else _known(spectrum, running.dimension),
        np.nan if solution.faithful is None else solution.faithful.gamma,
        reduced=reduced,
        rows_of_indices=rows,
        eigenvectors=eigenvectors,
    )
    return _with_unshared_landmarks(stream_map, running)


def refit(estimator: GPA, running: RunningSum) -> StreamMap:
    """The batch fit itself, for estimators whose map does not follow from the summed cost."""
    gpa, keys = clone(estimator).fit(running.observations()), tuple(sorted(running.participating))
    return StreamMap(
        list(gpa.observations_.landmarks),
        gpa.map_,
        keys,
        gpa.rotations_,
        gpa.translations_,
        gpa.scales_,
        lambda: gpa.eigenvalues_,
        warps=dict(zip(keys, gpa.warps_, strict=True)),
    )


def _known(spectrum: Spectrum, d: int) -> Callable[[], Array]:
    values = padded(spectrum.values, d + 1)
    return lambda: values


def _eigenvalues(reduced: ReducedClouds, rows: IndexArray, clouds: StackedClouds) -> Callable[[], Array]:
    """The bottom eigenvalues of the sum of reduced clouds, computed when they are first asked for."""
    (m, d), rank, metric = clouds.centred.shape[1:], clouds.rank, Metric.of_clouds(clouds)

    @cache
    def values() -> Array:  # (d + 1,)
        total = np.zeros((m, m))
        for one, seen in reduced.values():
            total[np.ix_(rows[seen], rows[seen])] += one.cost_matrix()
        with one_blas_thread():
            return padded(bottom_eigenvalues(DenseCost(total), rank, d, metric).values, d + 1)

    return values


def _warm_start(running: RunningSum, rotations: Array, last: StreamMap) -> Start:
    gamma = last.gamma if np.isfinite(last.gamma) else None
    return Start(rotations, _eigenvectors_at(running, last.eigenvectors), gamma)


def _eigenvectors_at(running: RunningSum, eigenvectors: Array) -> Array:  # (m, k)
    """Eigenvectors of the last solve at the landmarks that participate now; zero for a landmark that is new."""
    indices = np.array(running.landmarks)
    known = indices < len(eigenvectors)
    start = np.zeros((len(indices), eigenvectors.shape[1]))
    start[known] = eigenvectors[indices[known]]
    return start


def reduced_clouds(running: RunningSum) -> ReducedClouds:
    """The reduced clouds of this sum, so that warps belong to its map whatever is added or dropped later."""
    return {key: (reduced, part.seen) for key, part, reduced in running.parts()}


def _with_unshared_landmarks(stream_map: StreamMap, running: RunningSum) -> StreamMap:
    """Add the landmarks that a single cloud observed, at the positions to which its warp takes them."""
    if not running.has_unshared_landmarks:
        return stream_map
    names, positions, warps = list(stream_map.landmarks), [stream_map.map], dict(stream_map.warps)
    for key, part, _ in running.parts():
        cloud = running.records[key].cloud
        if len(part.seen) == len(cloud.seen):
            continue
        unshared = ~np.isin(cloud.seen, part.seen)
        warps[key] = stream_map.fit_warp(key)
        positions.append(warps[key](cloud.points[unshared]))
        names += running.index.names_of(cloud.seen[unshared])
    return replace(stream_map, landmarks=names, map=np.concatenate(positions), warps=warps)


def initial_rotations(running: RunningSum, last: StreamMap) -> Array | None:  # (n, d, d)
    """Rotations of the last map; those of new clouds are fitted to it.  None if a cloud shares too little with it."""
    rotations = []
    for key in running.participating:
        if key in last.poses:
            rotations.append(last.poses[key][0])
        else:
            overlap = last.overlap(running.records[key].cloud, running.names)
            if overlap is None:
                return None
            rotations.append(pose_onto(*overlap)[0])
    return np.array(rotations)


def disconnected_from(last: StreamMap, running: RunningSum) -> set[CloudKey]:
    """All participating clouds but those of the connected group that shares most landmarks with the last map."""
    keys = sorted(running.participating)
    groups = [{keys[t] for t in group.members} for group in connected_groups(running.observations())]

    def shared(group: set[CloudKey]) -> int:
        names = {name for key in group for name in running.index.names_of(running.records[key].cloud.seen)}
        return sum(name in last.rows for name in names)

    nearest = max(groups, key=shared)
    return set(keys) - nearest


@contextmanager
def reset_if_interrupted(running: RunningSum) -> Iterator[None]:
    """Reset the sum if an update is cut short, perhaps with half a cloud in it; the next update computes it again."""
    try:
        yield
    except MemoryError as problem:
        running.reset()
        raise TooLarge(
            f"an update of {len(running.records)} clouds and {len(running.names)} landmarks used up the memory; use "
            "fewer landmarks per frame or a smaller window"
        ) from problem
    except KernelGPAError:  # raised between two changes of the sum
        raise
    except BaseException:  # interrupted
        running.reset()
        raise
