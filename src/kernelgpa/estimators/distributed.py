"""Many clouds on many machines, by Dask (the extra ``distributed``).

The clouds are read on the workers, in batches.  One worker collects their points and screens them; then every batch is
reduced where it lies, and the cost matrices of the batches are added in a tree:

    sources -> batches of clouds -> problem -> sums of batches -> sums of two, of four, ... -> map and poses -> warps

Neither the clouds nor the sums pass through the client.  If a worker is lost, the others compute again what it held.
Every step is a plain function of the previous one, therefore the result is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from operator import add, attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.system_memory import available_memory
from .._numerics.threads import limit_threads, one_blas_thread
from ..errors import (
    Disconnected,
    InvalidObservations,
    InvalidSetting,
    KernelGPAError,
    TooLarge,
    recorded_warnings,
    warn,
)
from ..gauge.initial import Start
from ..gauge.scales import D_MODES
from ..observations.collection import Observations
from ..spectrum.dense import DenseCost
from ..spectrum.total import total_cost
from ..typing import Array, Name
from ..warps import ReducedCloud, Warp, smoothing_per_cloud
from .automatic import with_first_choice
from .deformable import WEAKLY_CONNECTED, DeformableGPA
from .problem import Problem
from .problem.screening import screen
from .registration import Solution, all_poses, padded, whole_map
from .settings import is_automatic

BATCH = 50  # clouds that are read and reduced by one task
PATIENCE = 10.0  # seconds without a worker
POLL = 1.0  # seconds between two looks at whether there are workers
CLOSED = "the client or its cluster is closed; make a new Client, and fit again"
SUMS = 4  # matrices of that size alive at one time on a worker
HELD = ("map", "scales", "eigenvalues", "landmarks", "mirrored")  # what the client keeps of the results

Source = Callable[[], tuple[npt.ArrayLike, Iterable[Name]]] | tuple[npt.ArrayLike, Iterable[Name]]


@dataclass(frozen=True)
class DistributedFit:
    """A registration whose warps stay on the workers.

    Attributes
    ----------
    map_ : array (m, d)
        The map.
    scales_ : array (d,)
        Root of the sum of squares of the map along its axes, largest first.
    eigenvalues_ : array (d + 1,)
        Bottom eigenvalues of the summed cost.
    landmarks_ : tuple of length m
        Ids of the landmarks in the order of ``map_``.
    mirrored_ : list of int
        Indices of the clouds that are mirror images of the others.
    """

    map_: Array
    scales_: Array
    eigenvalues_: Array
    landmarks_: tuple[Name, ...]
    mirrored_: list[int]
    _client: Any
    _fitted: Any  # future of everything but the warps
    _warps: Sequence[Any]  # futures, one per batch
    _count: int  # clouds
    _batch: int  # clouds per batch
    _timeout: float = PATIENCE  # seconds without a worker

    def poses(self) -> tuple[Array, Array]:
        """rotations_ (n, d, d) and translations_ (n, d)."""
        rotations, translations = self._result(attrgetter("rotations", "translations"), self._fitted)
        return rotations, translations

    def transform(self, points: npt.ArrayLike, cloud: int) -> Array:  # (k, d) -> (k, d)
        """Points of the cloud at an index, taken into the map by the worker that holds its warp."""
        if not isinstance(cloud, Integral) or isinstance(cloud, bool) or not 0 <= cloud < self._count:
            raise InvalidSetting(f"cloud is {cloud!r}; there are {self._count}, numbered from 0")
        batch, position = divmod(int(cloud), self._batch)
        return np.asarray(self._result(_transformed, self._warps[batch], position, points))

    def _result(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with _connected(self._client):
            return _result(self._client, _submit(self._client, function, *arguments), self._timeout)


def fit(
    estimator: DeformableGPA,
    client: Any,  # distributed.Client
    sources: Sequence[Source],
    timeout: float = PATIENCE,
) -> DistributedFit:
    """Register clouds on the workers of a Dask client.

    Parameters
    ----------
    estimator : AffineGPA, TPSGPA or KernelGPA
        The model, with ``robust=None`` or "auto", which then uses no robust loss.
    client : distributed.Client
        A connection to the cluster.
    sources : sequence
        For each cloud a function without arguments that reads it on a worker and returns (points, ids), such as
        ``functools.partial(read, path)``; or such a pair itself.
    timeout : float, default=10
        Seconds that the cluster may be without a worker, at the start or later, before ``Disconnected`` is raised.

    Returns
    -------
    DistributedFit

    Notes
    -----
    Batches of up to 50 clouds are read and reduced at the same time.  The sums are dense, m x m for m landmarks;
    therefore the function suits many clouds rather than many landmarks.  Automatic settings are chosen against the
    rigid map, and there is no robust fitting.  Warnings of the workers are issued here, too.
    """
    if not isinstance(estimator, DeformableGPA) or not (estimator.robust is None or is_automatic(estimator.robust)):
        raise InvalidSetting("distributed.fit takes AffineGPA, TPSGPA or KernelGPA with robust=None")
    estimator._check_settings()
    if not isinstance(sources, Sequence) or len(sources) < 2:
        raise InvalidObservations(
            "sources: expected a list with a function or a (points, ids) pair for each of 2 clouds or more"
        )
    workers = _require_workers(client, timeout)
    with _connected(client):
        return _fit(estimator, client, sources, workers, timeout)


def _fit(
    estimator: DeformableGPA, client: Any, sources: Sequence[Source], workers: int, timeout: float
) -> DistributedFit:
    batch = min(BATCH, -(-len(sources) // (2 * workers)))  # a few clouds are spread too
    firsts = range(0, len(sources), batch)
    read = [_submit(client, _read, list(sources[first : first + batch]), first) for first in firsts]
    opened = _submit(client, _problem, read, estimator.mirrored)
    problem = _submit(client, attrgetter("value"), opened)
    estimator = _submit(client, _with_numbers, estimator, problem)
    sums = [_submit(client, _sum_of_batch, estimator, problem, first, batch) for first in firsts]
    while len(sums) > 1:
        pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
        sums = [_submit(client, add, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    solved = _submit(client, _solved, estimator, problem, sums[0])
    solution = _submit(client, attrgetter("value"), solved)
    warps = [_submit(client, _warps, estimator, problem, solution, first, batch) for first in firsts]
    fitted = _submit(client, _fitted, problem, solution, warps)
    # the poses of many clouds stay on the worker
    held: tuple[Any, Any, Any, Any, Any] = _result(client, _submit(client, attrgetter(*HELD), fitted), timeout)
    for one in (opened, solved):
        for message in _result(client, _submit(client, attrgetter("messages"), one), timeout):
            warn(message)
    return DistributedFit(*held, client, fitted, warps, len(sources), batch, timeout)


# -- the cluster --


def _require_workers(client: Any, timeout: float) -> int:
    """How many workers there are, once there is one; an error if it is no client, closed, or without workers."""
    try:
        from distributed import Client
    except ImportError:
        raise InvalidSetting("dask.distributed is not installed; pip install 'kernelgpa[distributed]'") from None
    if not isinstance(client, Client):
        raise InvalidSetting(f"client is {client!r}; expected a dask.distributed.Client, such as Client(cluster)")
    if client.asynchronous:
        raise InvalidSetting("client is asynchronous; expected one made with asynchronous=False")
    if not isinstance(timeout, Real) or isinstance(timeout, bool) or not 0 <= timeout < np.inf:
        raise InvalidSetting(f"timeout is {timeout!r}; expected a number of seconds")
    until = time.monotonic() + timeout
    with _connected(client):
        while not (workers := len(client.nthreads())):
            if time.monotonic() >= until:
                raise Disconnected(_without_workers(timeout))
            time.sleep(0.1)
    return workers


def _without_workers(timeout: float) -> str:
    return (
        f"the cluster has had no worker for {timeout:g} s; start workers, for example with cluster.scale(2), or "
        "raise timeout"
    )


def _result(client: Any, future: Any, timeout: float) -> Any:
    """The result of a future; an error once the cluster has been without a worker for the given number of seconds."""
    since = None
    while True:
        try:
            return future.result(timeout=POLL)
        except TimeoutError:
            if future.done():  # the task itself ran out of time
                return future.result()
        if len(client.nthreads()):
            since = None
            continue
        since = since or time.monotonic()
        if time.monotonic() - since > timeout:
            raise Disconnected(_without_workers(timeout))


@contextmanager
def _connected(client: Any) -> Iterator[None]:
    """Turn the many errors of a closed cluster into one error, and those of workers that died into another."""
    try:
        if client.status != "running":
            raise Disconnected(CLOSED)
        yield
    except KernelGPAError:
        raise
    except Exception as error:
        if type(error).__name__ == "KilledWorker":  # of dask.distributed, which is an extra
            raise TooLarge(
                f"workers died repeatedly at the same task, usually because memory ran out ({error}); use fewer "
                "landmarks, or workers with more memory"
            ) from error
        if client.status != "running" or isinstance(error, CancelledError):
            raise Disconnected(CLOSED) from error
        if type(error).__module__.split(".")[0] == "distributed" or isinstance(error, OSError):
            raise Disconnected(
                f"the cluster failed ({type(error).__name__}: {error}); look at the logs of its workers and fit again"
            ) from error
        raise


def _submit(client: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return client.submit(function, *arguments, pure=False)
    except TypeError as error:
        raise InvalidSetting(
            f"a source or the estimator cannot be sent to the workers ({error}); give functions of a module, such as "
            "functools.partial(read, path)"
        ) from error


# -- what runs on the workers --


@dataclass(frozen=True)
class _Recorded:
    """A result, and the warnings on the way to it."""

    value: Any
    messages: list[str]


def _recorded(function: Callable[[], Any]) -> _Recorded:
    with recorded_warnings() as messages:
        value = function()
    return _Recorded(value, messages)


def _read(sources: Sequence[Source], first: int) -> list[tuple[Any, Any]]:
    pairs = []
    for i, source in enumerate(sources, start=first):
        try:
            pair = source() if callable(source) else source
        except Exception as error:  # a user's function may raise anything
            raise InvalidObservations(f"source {i}: it cannot be read ({type(error).__name__}: {error})") from error
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise InvalidObservations(f"source {i}: found {type(pair).__name__}; expected a pair (points, ids)")
        pairs.append((pair[0], pair[1]))
    return pairs


def _problem(batches: Sequence[list[tuple[Any, Any]]], mirrored: str) -> _Recorded:
    observations = Observations.from_clouds([pair for batch in batches for pair in batch])
    m = len(observations.landmarks)
    needed, free = SUMS * 8 * m**2, available_memory()
    if needed > free:
        raise TooLarge(
            f"sums of {m} x {m} take {needed / 1e9:.2f} GB of {free / 1e9:.2f} GB free on a worker; use fewer landmarks"
        )
    with one_blas_thread():
        return _recorded(lambda: screen(observations, mirrored=mirrored))


def _with_numbers(estimator: DeformableGPA, problem: Problem) -> DeformableGPA:
    with one_blas_thread(), limit_threads(1):
        return with_first_choice(estimator, problem)


def _reduced(estimator: DeformableGPA, problem: Problem, first: int, batch: int) -> list[ReducedCloud]:
    family = estimator._family()
    clouds, end = problem.restricted.clouds, first + batch
    smoothing = smoothing_per_cloud(family.smoothing, len(clouds))[first:end]
    pairs = zip(clouds[first:end], smoothing, strict=True)
    return [family.prepare(cloud).reduce(mu, cloud.weights) for cloud, mu in pairs]


def _sum_of_batch(estimator: DeformableGPA, problem: Problem, first: int, batch: int) -> Array:  # (m, m)
    """The sum over the participating clouds of a batch."""
    with one_blas_thread():
        reduced, participating = _reduced(estimator, problem, first, batch), set(problem.participating.tolist())
        part = [one for t, one in enumerate(reduced, start=first) if t in participating]
        return total_cost(part, len(problem.landmarks)).dense_matrix()


def _solved(estimator: DeformableGPA, problem: Problem, total: Array) -> _Recorded:
    def solve() -> Solution:
        if estimator.modes in D_MODES and problem.weakly_connected:
            warn(WEAKLY_CONNECTED)
        found = estimator._solve(problem.participants.stacked, DenseCost(total), Start(problem.initial.gauge.rotations))
        return replace(found, optimum=None)  # its operator holds a factorisation that cannot be sent to other workers

    with one_blas_thread():
        return _recorded(solve)


def _warps(estimator: DeformableGPA, problem: Problem, solution: Solution, first: int, batch: int) -> list[Warp]:
    with one_blas_thread():
        positions = solution.gauge.map
        return [one.fit_all([positions[one.seen]])[0] for one in _reduced(estimator, problem, first, batch)]


class _Fitted(NamedTuple):
    """Everything but the warps."""

    map: Array  # (m, d)
    scales: Array  # (d,)
    eigenvalues: Array  # (d + 1,)
    landmarks: tuple[Name, ...]
    mirrored: list[int]
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)


def _fitted(problem: Problem, solution: Solution, warps: Sequence[list[Warp]]) -> _Fitted:
    spectrum = problem.initial.spectrum if solution.spectrum is None else solution.spectrum
    return _Fitted(
        whole_map(problem, solution.gauge, [warp for batch in warps for warp in batch]),
        solution.gauge.scales,
        padded(spectrum.values, problem.observations.dimension + 1),
        problem.observations.landmarks,
        problem.mirrored.tolist(),
        *all_poses(problem, solution.gauge),
    )


def _transformed(warps: list[Warp], index: int, points: npt.ArrayLike) -> Array:
    return warps[index](points)
