"""Radial kernels.  A kernel holds parameters and never points.

With r = |x - y| / sigma, a kernel is a function phi(r) together with phi'(r) / r, because

    k(x, y) = phi(r),     d k(x, y) / d x = (phi'(r) / r) (x - y) / sigma^2.

``KERNELS`` at the end of the classes lists the kernels that have a name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from ..errors import InvalidSetting
from ..observations.arrays import is_real
from ..typing import Array

VANISHING = 1e-12  # a kernel of compact support must be smaller than this outside of its support

Evaluation = Callable[[Array, Array], Array]


class Kernel(ABC):
    """A positive definite function of r = distance / sigma.  Derive from it to add a kernel.

    Because r does not depend on the coordinates of a cloud, neither does the kernel matrix (Propositions 3 and 4 of the
    paper).

    Attributes
    ----------
    order : int
        0 if the kernel matrix is positive definite; 2 if it is so only for weights that annihilate affine functions
        (conditionally positive definite of order 2, such as the thin-plate splines).
    support : float
        The kernel is 0 for r >= support.  A small support makes kernel matrices sparse.
    """

    order: ClassVar[int] = 0
    support: ClassVar[float] = np.inf

    @abstractmethod
    def value(self, r: Array) -> Array:
        """phi(r), of the same shape as r"""

    @abstractmethod
    def derivative_over_r(self, r: Array) -> Array:
        """phi'(r) / r, and 0 at r = 0 if the limit does not exist"""

    def replace_squares(self, squares: Array) -> None:
        """Overwrite r^2 by phi(r)."""
        squares[:] = self.value(np.sqrt(squares, out=squares))

    def evaluation(self, centres: Array) -> Evaluation:  # (s, d), divided by sigma
        """A function of points (k, d), divided by sigma, and a buffer (k, s) that returns phi between them, (k, s)."""
        return lambda points, buffer: self.value(cdist(points, centres, out=buffer))


@dataclass(frozen=True)
class Gaussian(Kernel):
    """exp(-r^2 / 2)"""

    def value(self, r: Array) -> Array:
        return np.exp(-0.5 * r**2)

    def derivative_over_r(self, r: Array) -> Array:
        return -np.exp(-0.5 * r**2)

    def replace_squares(self, squares: Array) -> None:
        squares *= -0.5
        np.exp(squares, out=squares)

    def evaluation(self, centres: Array) -> Evaluation:
        """The exponents come from one matrix product:  -|x - z|^2 / 2 = [x, |x|^2, 1] [z, -1/2, -|z|^2 / 2]'."""
        right = np.vstack([centres.T, np.full(len(centres), -0.5), -0.5 * np.einsum("sd,sd->s", centres, centres)])

        def values(points: Array, buffer: Array) -> Array:
            left = np.column_stack([points, np.einsum("kd,kd->k", points, points), np.ones(len(points))])
            np.matmul(left, right, out=buffer)
            return np.exp(buffer, out=buffer)

        return values


@dataclass(frozen=True)
class Laplacian(Kernel):
    """exp(-r).  It has a kink at 0, therefore its gradient at a landmark is taken as 0."""

    def value(self, r: Array) -> Array:
        return np.exp(-r)

    def derivative_over_r(self, r: Array) -> Array:
        return -np.divide(np.exp(-r), r, out=np.zeros_like(r), where=r > 0)


@dataclass(frozen=True)
class Matern32(Kernel):
    """(1 + a) exp(-a) with a = sqrt(3) r"""

    def value(self, r: Array) -> Array:
        a = np.sqrt(3.0) * r
        return (1 + a) * np.exp(-a)

    def derivative_over_r(self, r: Array) -> Array:
        return -3 * np.exp(-np.sqrt(3.0) * r)


@dataclass(frozen=True)
class Matern52(Kernel):
    """(1 + a + a^2 / 3) exp(-a) with a = sqrt(5) r"""

    def value(self, r: Array) -> Array:
        a = np.sqrt(5.0) * r
        return (1 + a + a**2 / 3) * np.exp(-a)

    def derivative_over_r(self, r: Array) -> Array:
        a = np.sqrt(5.0) * r
        return -5 / 3 * (1 + a) * np.exp(-a)


@dataclass(frozen=True)
class Wendland(Kernel):
    """(1 - r)^4 (1 + 4 r) for r < 1 and 0 beyond: twice differentiable, of compact support."""

    support: ClassVar[float] = 1.0

    def value(self, r: Array) -> Array:
        r = np.minimum(r, 1)
        return (1 - r) ** 4 * (1 + 4 * r)

    def derivative_over_r(self, r: Array) -> Array:
        return -20 * np.maximum(1 - r, 0) ** 3


@dataclass(frozen=True)
class ThinPlate(Kernel):
    """The thin-plate spline: -r in 3D, r^2 log r^2 in 2D.

    Attributes
    ----------
    dimension : int
        2 or 3.
    """

    dimension: int
    order: ClassVar[int] = 2

    def value(self, r: Array) -> Array:
        if self.dimension == 3:
            return -r
        square = r**2
        return square * np.log(square, out=np.zeros_like(r), where=square > 0)

    def derivative_over_r(self, r: Array) -> Array:
        if self.dimension == 3:
            return -np.divide(1.0, r, out=np.zeros_like(r), where=r > 0)
        square = r**2
        return 2 * np.log(square, out=np.full_like(r, -1.0), where=square > 0) + 2


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A kernel from any positive definite function of r, with its derivative if that is known.

    Without a derivative, central differences give the gradient to about ten digits.

    Attributes
    ----------
    function, derivative : callable, callable or None
        phi and phi', functions of an array of distances divided by sigma.
    """

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array] | None = None

    def value(self, r: Array) -> Array:
        try:
            values = np.asarray(self.function(r))
        except Exception as error:  # a user's function may raise anything
            raise InvalidSetting(
                f"kernel: the function fails on an array of {r.size} distances ({type(error).__name__}: {error}); "
                "correct it, or use a kernel by name"
            ) from error
        _require_real(values)
        if values.shape != r.shape:
            raise InvalidSetting(
                f"kernel: the function returns shape {values.shape} for an array of shape {r.shape}; "
                "it must return one value for each entry"
            )
        return values.astype(np.float64, copy=False)

    def derivative_over_r(self, r: Array) -> Array:
        if self.derivative is not None:
            derivative = np.asarray(self.derivative(r), dtype=np.float64)
        else:
            step = np.finfo(np.float64).eps ** (1 / 3)
            # the absolute value, because a radial function is even
            derivative = (self.value(r + step) - self.value(np.abs(r - step))) / (2 * step)
        return np.divide(derivative, r, out=np.zeros_like(r), where=r > 0)


KERNELS: dict[str, Kernel] = {
    "gaussian": Gaussian(),
    "laplacian": Laplacian(),
    "matern32": Matern32(),
    "matern52": Matern52(),
    "wendland": Wendland(),
}


def as_kernel(kernel: str | Kernel | Callable[[Array], Array]) -> Kernel:
    """A kernel given by its name, as an instance of ``Kernel``, or as a positive definite function of r."""
    if isinstance(kernel, str):
        if kernel not in KERNELS:
            raise InvalidSetting(
                f"kernel {kernel!r} is unknown; use one of {', '.join(KERNELS)}, or a function of "
                "distance / sigma that is positive definite"
            )
        return KERNELS[kernel]
    if isinstance(kernel, type):
        raise InvalidSetting(f"kernel is the class {kernel.__name__}; give an instance, {kernel.__name__}()")
    if isinstance(kernel, Kernel):
        _require_support(kernel)
        return kernel
    if callable(kernel):
        _require_function_of_distance(kernel)
        return FunctionKernel(kernel)
    raise InvalidSetting(
        f"kernel is {kernel!r}; expected a name, a kernel derived from {Kernel.__module__}.Kernel, or a function of "
        "distance / sigma"
    )


def _require_support(kernel: Kernel) -> None:
    """A kernel of compact support must be 0 from there on."""
    support = kernel.support
    valid = isinstance(support, Real) and float(support) > 0
    outside = np.array([1.0, 1.2, 2.0, 5.0]) * support if valid and np.isfinite(support) else np.zeros(0)
    if not valid or np.any(np.abs(kernel.value(outside)) > VANISHING):
        raise InvalidSetting(
            f"kernel: its support is {support}, and it is not 0 from there on; correct the support or leave it out"
        )


def _require_function_of_distance(function: Callable[[Array], Array]) -> None:
    """The function must return one real, finite value for each distance, whatever the other distances are."""
    probe = np.array([[0.0, 0.5], [1.0, 2.0]])
    try:
        values, first_row = np.asarray(function(probe)), np.asarray(function(probe[:1]))
    except Exception as error:  # a user's function may raise anything; the remedy is the same
        raise InvalidSetting(
            f"kernel: the function fails on an array of distances ({error}); it must take an array of "
            "distance / sigma and return one value for each entry"
        ) from error
    if values.shape != probe.shape or not np.array_equal(values[:1], first_row, equal_nan=True):
        raise InvalidSetting(
            f"kernel: for an array of shape {probe.shape} the function returns shape {values.shape}; it must return "
            "one value for each entry of an array of distance / sigma, whatever the other entries are"
        )
    _require_real(values)
    if not np.isfinite(values).all():
        raise InvalidSetting(f"kernel: at distance / sigma = {probe[~np.isfinite(values)][0]} its value is not finite")


def _require_real(values: Array) -> None:
    if not is_real(values):
        raise InvalidSetting(f"kernel: the function returns values of type {values.dtype}; expected real numbers")
