"""Many clouds on many machines, by Dask (the extra ``distributed``).

The clouds are read on the workers, in batches.  One worker brings their points together, finds what takes part and
where to begin; then every batch is reduced where it lies, and the sums of the batches' forms are added in a tree:

    sources -> batches of clouds -> scene -> forms of batches -> sums of two, of four, ... -> map and poses -> warps

Neither the clouds nor the sums pass through the client.  Whatever a lost worker held is computed again by the
others; every step is a plain function of the one before, so the result is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .deformable import DeformableGPA
from .errors import InvalidObservations, InvalidSetting
from .forms import DenseForm, accumulate
from .frames import Array
from .names import Name
from .observations import Observations
from .registration import Solution, results
from .scene import Scene, open_scene
from .threads import blas_threads_for
from .warps import ReducedCloud, Warp

BATCH = 50  # clouds that are read and reduced by one task

Source = Callable[[], tuple[npt.ArrayLike, Iterable[Name]]] | tuple[npt.ArrayLike, Iterable[Name]]


@dataclass(frozen=True)
class DistributedFit:
    """A registration whose warps stay on the workers."""

    map_: Array  # (m, d)
    scales_: Array  # (d,)
    eigenvalues_: Array  # (d + 1,)
    landmarks_: tuple[Name, ...]  # in the order of map_
    _client: Any
    _fitted: Any  # future of everything but the warps
    _warps: Sequence[Any]  # futures, one a batch

    def poses(self) -> tuple[Array, Array]:
        """rotations_ (n, d, d) and translations_ (n, d)."""
        rotations, translations = self._client.submit(_poses, self._fitted, pure=False).result()
        return rotations, translations

    def transform(self, points: npt.ArrayLike, cloud: int) -> Array:  # (k, d) -> (k, d)
        """Points of the cloud at an index, taken into the map by the worker that holds its warp."""
        count = self._client.submit(_count, self._fitted, pure=False).result()
        if not 0 <= cloud < count:
            raise InvalidSetting(f"cloud is {cloud!r}; there are {count}, numbered from 0")
        batch = self._warps[cloud // BATCH]
        return np.asarray(self._client.submit(_transformed, batch, cloud % BATCH, points, pure=False).result())


def fit(
    estimator: DeformableGPA,
    client: Any,  # distributed.Client
    sources: Sequence[Source],
) -> DistributedFit:
    """Register clouds on the workers of a Dask client.

    sources : for each cloud a function without arguments that reads it on a worker and returns (points, ids), such as
        ``functools.partial(read, path)``; or such a pair itself.

    Batches of 50 clouds are read and reduced side by side.  Robust fitting is not for this path.
    """
    if not isinstance(estimator, DeformableGPA) or estimator.robust is not None:
        raise InvalidSetting("distributed.fit takes AffineGPA, TPSGPA or KernelGPA with robust=None")
    estimator.check_settings()
    if not isinstance(sources, Sequence) or len(sources) < 2:
        raise InvalidObservations(
            "sources: expected a list with a function or a (points, ids) pair for each of 2 clouds or more"
        )
    parts = [list(sources[first : first + BATCH]) for first in range(0, len(sources), BATCH)]
    read = [client.submit(_read, part, pure=False) for part in parts]
    scene = client.submit(_scene, read, pure=False)
    sums = [client.submit(_form, estimator, scene, b, pure=False) for b in range(len(parts))]
    while len(sums) > 1:
        pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
        sums = [client.submit(_added, *pair, pure=False) if len(pair) == 2 else pair[0] for pair in pairs]
    solution = client.submit(_solved, estimator, scene, sums[0], pure=False)
    warps = [client.submit(_warps, estimator, scene, solution, b, pure=False) for b in range(len(parts))]
    fitted = client.submit(_fitted, scene, solution, warps, pure=False)
    places, scales, values, landmarks = client.submit(_told, fitted, pure=False).result()
    return DistributedFit(places, scales, values, landmarks, client, fitted, warps)


# -- what runs on the workers --


def _read(sources: Sequence[Source]) -> list[tuple[Any, Any]]:
    return [source() if callable(source) else source for source in sources]


def _scene(batches: Sequence[list[tuple[Any, Any]]]) -> Scene:
    observations = Observations.from_clouds([pair for batch in batches for pair in batch])
    with blas_threads_for(len(observations.landmarks)):
        return open_scene(observations)


def _reduced(estimator: DeformableGPA, scene: Scene, batch: int) -> list[ReducedCloud]:
    family = estimator.family()
    clouds = scene.restricted.clouds[batch * BATCH : (batch + 1) * BATCH]
    return [family.prepare(cloud).reduce(family.smoothing, cloud.weights) for cloud in clouds]


def _form(estimator: DeformableGPA, scene: Scene, batch: int) -> Array:  # (m, m)
    """The sum over the clouds of a batch that take part."""
    with blas_threads_for(len(scene.landmarks)):
        reduced = _reduced(estimator, scene, batch)
        part = [one for t, one in enumerate(reduced, start=batch * BATCH) if t in set(scene.part.tolist())]
        form = accumulate(part, len(scene.landmarks))
        return form.matrix if isinstance(form, DenseForm) else form.apply(np.eye(len(scene.landmarks)))


def _added(first: Array, second: Array) -> Array:
    return first + second


def _solved(estimator: DeformableGPA, scene: Scene, total: Array) -> Solution:
    with blas_threads_for(len(scene.landmarks)):
        return estimator.solve(scene.core, DenseForm(total), scene.start.gauge.rotations)


def _warps(estimator: DeformableGPA, scene: Scene, solution: Solution, batch: int) -> list[Warp]:
    with blas_threads_for(len(scene.landmarks)):
        places = solution.gauge.map
        return [one.fits([places[one.seen]])[0] for one in _reduced(estimator, scene, batch)]


def _fitted(scene: Scene, solution: Solution, warps: Sequence[list[Warp]]) -> dict[str, Any]:
    everything = results(scene, solution, [warp for batch in warps for warp in batch])
    kept = ("map_", "scales_", "eigenvalues_", "rotations_", "translations_")
    return {**{name: everything[name] for name in kept}, "landmarks": scene.observations.landmarks}


def _told(fitted: dict[str, Any]) -> tuple[Any, ...]:
    return fitted["map_"], fitted["scales_"], fitted["eigenvalues_"], fitted["landmarks"]


def _poses(fitted: dict[str, Any]) -> tuple[Array, Array]:
    return fitted["rotations_"], fitted["translations_"]


def _count(fitted: dict[str, Any]) -> int:
    return len(fitted["rotations_"])


def _transformed(warps: list[Warp], index: int, points: npt.ArrayLike) -> Array:
    return warps[index](points)
