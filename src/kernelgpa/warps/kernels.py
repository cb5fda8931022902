"""Kernels: parameters only, never points.

A radial kernel is a function phi of  r = |x - y| / sigma  together with phi'(r) / r, from which

    k(x, y) = phi(r),     d k(x, y) / d x = (phi'(r) / r) (x - y) / sigma^2.

``against`` states the theory: 0 when K is positive definite outright, 2 when it is so only on
weights that annihilate affine functions (the thin-plate splines).  A kernel that is 0 from some r on says so by
``reach``; where few points are that near, its matrices are sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Protocol

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from .._numerics.allocation import allocate
from .._numerics.sparse import count_within, distances_within
from .._numerics.threads import parallel_map
from ..errors import InvalidSetting
from ..observations.arrays import finite_rows
from ..typing import Array

SPREAD = 1_000_000  # kernel values from which they are worth all cores
ROWS = 512  # points at a time whose kernel values stay in the cache
SPARSE_FROM = 2000  # centres from which sparse matrices may pay
SPARSE_SHARE = 0.015  # of the centres near a point, up to which they do


class Kernel(Protocol):
    """What a warp asks of a kernel."""

    @property
    def against(self) -> int: ...
    def value(self, r: Array) -> Array: ...
    def slope(self, r: Array) -> Array:
        """phi'(r) / r; 0 at r = 0 where the limit does not exist."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """exp(-r^2 / 2)"""

    against: ClassVar[int] = 0

    def fill(self, squares: Array) -> None:
        """Squared distances over sigma^2 turned into values, in place."""
        squares *= -0.5
        np.exp(squares, out=squares)

    def value(self, r: Array) -> Array:
        return np.exp(-0.5 * r**2)

    def slope(self, r: Array) -> Array:
        return -np.exp(-0.5 * r**2)


@dataclass(frozen=True)
class Laplacian:
    """exp(-r); it has a kink, so the gradient at a landmark is taken as 0."""

    against: ClassVar[int] = 0

    def value(self, r: Array) -> Array:
        return np.exp(-r)

    def slope(self, r: Array) -> Array:
        return -np.divide(np.exp(-r), r, out=np.zeros_like(r), where=r > 0)


@dataclass(frozen=True)
class Matern32:
    """(1 + a) exp(-a) with a = sqrt(3) r"""

    against: ClassVar[int] = 0

    def value(self, r: Array) -> Array:
        a = np.sqrt(3.0) * r
        return (1 + a) * np.exp(-a)

    def slope(self, r: Array) -> Array:
        return -3 * np.exp(-np.sqrt(3.0) * r)


@dataclass(frozen=True)
class Matern52:
    """(1 + a + a^2 / 3) exp(-a) with a = sqrt(5) r"""

    against: ClassVar[int] = 0

    def value(self, r: Array) -> Array:
        a = np.sqrt(5.0) * r
        return (1 + a + a**2 / 3) * np.exp(-a)

    def slope(self, r: Array) -> Array:
        a = np.sqrt(5.0) * r
        return -5 / 3 * (1 + a) * np.exp(-a)


@dataclass(frozen=True)
class Wendland:
    """(1 - r)^4 (1 + 4 r) for r < 1 and 0 beyond: twice differentiable, support of radius sigma."""

    against: ClassVar[int] = 0
    reach: ClassVar[float] = 1.0

    def value(self, r: Array) -> Array:
        r = np.minimum(r, 1)
        return (1 - r) ** 4 * (1 + 4 * r)

    def slope(self, r: Array) -> Array:
        return -20 * np.maximum(1 - r, 0) ** 3


@dataclass(frozen=True)
class ThinPlate:
    """The thin-plate spline: -r in 3D, r^2 log r^2 in 2D."""

    dimension: int
    against: ClassVar[int] = 2

    def value(self, r: Array) -> Array:
        if self.dimension == 3:
            return -r
        square = r**2
        return square * np.log(square, out=np.zeros_like(r), where=square > 0)

    def slope(self, r: Array) -> Array:
        if self.dimension == 3:
            return -np.divide(1.0, r, out=np.zeros_like(r), where=r > 0)
        square = r**2
        return 2 * np.log(square, out=np.full_like(r, -1.0), where=square > 0) + 2


@dataclass(frozen=True)
class Radial:
    """A kernel from any positive definite function of r, with its derivative if known.

    Without a derivative, central differences give the gradient to about ten digits.
    """

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array] | None = None
    against: ClassVar[int] = 0

    def value(self, r: Array) -> Array:
        try:
            values = np.asarray(self.function(r))
        except Exception as error:  # a function that somebody brought may raise anything
            raise InvalidSetting(
                f"kernel: the function fails on an array of {r.size} distances ({type(error).__name__}: {error}); "
                "correct it, or use a kernel by name"
            ) from error
        if values.dtype.kind not in "fiub":
            raise InvalidSetting(f"kernel: the function returns values of type {values.dtype}; expected real numbers")
        values = values.astype(np.float64, copy=False)
        if values.shape != r.shape:
            raise InvalidSetting(
                f"kernel: the function returns shape {values.shape} for an array of shape {r.shape}; "
                "it must return one value for each entry"
            )
        return values

    def slope(self, r: Array) -> Array:
        step = np.finfo(np.float64).eps ** (1 / 3)
        if self.derivative is not None:
            rise = np.asarray(self.derivative(r), dtype=np.float64)
        else:
            # |.| because a radial function continues evenly to negative r
            rise = (self.value(r + step) - self.value(np.abs(r - step))) / (2 * step)
        return np.divide(rise, r, out=np.zeros_like(r), where=r > 0)


KERNELS: dict[str, Kernel] = {
    "gaussian": Gaussian(),
    "laplacian": Laplacian(),
    "matern32": Matern32(),
    "matern52": Matern52(),
    "wendland": Wendland(),
}


def as_kernel(kernel: str | Kernel | Callable[[Array], Array]) -> Kernel:
    """A kernel by name, a kernel object, or any positive definite function of r = distance / sigma."""
    if isinstance(kernel, str):
        if kernel not in KERNELS:
            raise InvalidSetting(
                f"kernel {kernel!r} is unknown; use one of {', '.join(KERNELS)}, or a function of "
                "distance / sigma that is positive definite"
            )
        return KERNELS[kernel]
    if isinstance(kernel, type):
        raise InvalidSetting(f"kernel is the class {kernel.__name__}; give an instance, {kernel.__name__}()")
    if hasattr(kernel, "value") and hasattr(kernel, "slope") and hasattr(kernel, "against"):
        _require_reach(kernel)
        return kernel
    if callable(kernel):
        _require_function_of_distance(kernel)
        return Radial(kernel)
    raise InvalidSetting(f"kernel is {kernel!r}; expected a name, a kernel or a function of distance / sigma")


def _require_reach(kernel: Kernel) -> None:
    """A kernel that says where it ends must be 0 from there on."""
    reach = getattr(kernel, "reach", np.inf)
    known = isinstance(reach, Real) and float(reach) > 0
    beyond = np.array([1.0, 1.2, 2.0, 5.0]) * reach if known and np.isfinite(reach) else np.zeros(0)
    if not known or np.any(np.abs(kernel.value(beyond)) > 1e-12):
        raise InvalidSetting(
            f"kernel: its reach is {reach} and it is not 0 from there on; correct reach or leave it out"
        )


def _require_function_of_distance(function: Callable[[Array], Array]) -> None:
    """One value for each entry of an array of distances, whatever the other entries are."""
    probe = np.array([[0.0, 0.5], [1.0, 2.0]])
    try:
        whole, part = np.asarray(function(probe)), np.asarray(function(probe[:1]))
    except Exception as error:  # whatever a stranger's function raises, the remedy is the same
        raise InvalidSetting(
            f"kernel: the function fails on an array of distances ({error}); it must take an array of "
            "distance / sigma and return one value for each entry"
        ) from error
    if whole.shape != probe.shape or not np.array_equal(whole[:1], part, equal_nan=True):
        raise InvalidSetting(
            f"kernel: for an array of shape {probe.shape} the function returns shape {whole.shape}; it must return one "
            "value for each entry of an array of distance / sigma, whatever the others are"
        )
    if whole.dtype.kind not in "fiub":
        raise InvalidSetting(f"kernel: the function returns values of type {whole.dtype}; expected real numbers")
    if not np.isfinite(whole).all():
        raise InvalidSetting(f"kernel: at distance / sigma = {probe[~np.isfinite(whole)][0]} its value is not finite")


def gram(
    kernel: Kernel,
    x: Array,  # (k, d)
    centres: Array,  # (s, d)
    sigma: float,
) -> Array:  # (k, s)
    squares = allocate(len(x), len(centres))
    u, z = x / sigma, centres / sigma

    def fill(rows: slice) -> None:
        cdist(u[rows], z, "sqeuclidean", out=squares[rows])
        _turn_into_values(kernel, squares[rows])

    step = ROWS if squares.size > SPREAD else max(len(x), 1)
    parallel_map(fill, [slice(first, first + step) for first in range(0, len(x), step)])
    return squares


def _turn_into_values(kernel: Kernel, squares: Array) -> None:
    """r^2 to phi(r), in place."""
    if isinstance(kernel, Gaussian):
        kernel.fill(squares)
    else:
        squares[:] = kernel.value(np.sqrt(squares, out=squares))


def neighbours(kernel: Kernel, centres: Array, sigma: float) -> float | None:
    """Centres within the kernel's reach of one, where they are so few that sparse matrices pay; else None."""
    reach = getattr(kernel, "reach", np.inf)
    if len(centres) < SPARSE_FROM or not np.isfinite(reach):
        return None
    count = count_within(centres, reach * sigma)
    return count if sparse_pays(count, len(centres)) else None


def sparse_pays(neighbours: float, points: float) -> bool:
    """Whether a kernel matrix with so many entries a row is better kept sparse."""
    return points >= SPARSE_FROM and neighbours <= SPARSE_SHARE * points


def sparse_gram(kernel: Kernel, x: Array, centres: Array, sigma: float) -> csr_array:  # (k, s)
    """The kernel matrix of a kernel with a reach."""
    K = distances_within(x / sigma, centres / sigma, kernel.reach)  # type: ignore[attr-defined]
    K.data = kernel.value(K.data)
    return K


def gram_sum(
    kernel: Kernel,
    x: Array,  # (k, d)
    centres: Array,  # (s, d)
    sigma: float,
    weights: Array,  # (s, c)
    sparse: bool = False,  # whether few centres are within the kernel's reach of a point
) -> Array:  # (k, c), gram(x) @ weights
    """Sums of kernels at many points, a few rows at a time so that they stay in the cache.

    For the Gaussian  -|x - z|^2 / 2  comes from one matrix product,  [x, |x|^2, 1] [z, -1/2, -|z|^2 / 2]'.
    """
    if sparse:
        return _nan_where(x, sparse_gram(kernel, x, centres, sigma) @ weights)
    total = np.empty((len(x), weights.shape[1]))
    buffer = np.empty((min(ROWS, len(x)), len(centres)))
    u, z = x / sigma, centres / sigma
    if isinstance(kernel, Gaussian):
        left = np.column_stack([u, np.einsum("kd,kd->k", u, u), np.ones(len(u))])
        right = np.vstack([z.T, np.full(len(z), -0.5), -0.5 * np.einsum("sd,sd->s", z, z)])
    for first in range(0, len(x), ROWS):
        rows = slice(first, first + ROWS)
        values = buffer[: len(u[rows])]
        if isinstance(kernel, Gaussian):
            np.matmul(left[rows], right, out=values)
            np.exp(values, out=values)
        else:
            values = kernel.value(cdist(u[rows], z))
        np.matmul(values, weights, out=total[rows])
    return total


def gram_gradient(
    kernel: Kernel,
    x: Array,  # (k, d)
    centres: Array,  # (s, d)
    sigma: float,
    weights: Array,  # (s, c)
    sparse: bool = False,
) -> Array:  # (k, c, d), the gradient of gram(x) @ weights
    if sparse:
        return _sparse_gradient(kernel, x, centres, sigma, weights)
    slope = kernel.slope(cdist(x / sigma, centres / sigma)) / sigma**2
    # differences first: slope grows like 1 / r at a kink, and x - z carries the digits
    return np.stack([(slope * (x[:, j, None] - centres[None, :, j])) @ weights for j in range(x.shape[1])], axis=-1)


def _sparse_gradient(kernel: Kernel, x: Array, centres: Array, sigma: float, weights: Array) -> Array:
    slope = distances_within(x / sigma, centres / sigma, kernel.reach).tocoo()  # type: ignore[attr-defined]
    values, (rows, columns) = kernel.slope(slope.data) / sigma**2, slope.coords
    apart = x[rows] - centres[columns]
    parts = [csr_array((values * apart[:, j], (rows, columns)), slope.shape) @ weights for j in range(x.shape[1])]
    return _nan_where(x, np.stack(parts, axis=-1))


def _nan_where(x: Array, values: Array) -> Array:
    values[~finite_rows(x)] = np.nan
    return values
