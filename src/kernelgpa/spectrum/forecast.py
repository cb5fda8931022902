"""The peak memory of a fit, before it starts.

Counted are the matrices that exist at the same time, in numbers of eight bytes, with n clouds that each see s of m
landmarks, d dimensions and q features per cloud:

    exact                   n s^2 for the clouds, s^2 for the current one, 3 m^2 for the total and its factor
    low-rank, dense total   (n + 1) s q for the clouds, 2.5 m^2
    low-rank, Woodbury      (n + 1) s q, and 2.5 (n q)^2 for the products of all features, 2000 landmarks at a time
    low-rank, iterative     (n + 1) s q, and 16 m q for the approximate operator and the search for it
    sparse                  3.5 n s f with f entries per row of a factor, about 0.65 s^(1/3) times the neighbours

each with 8 n m d for the stacked clouds.  The counts are upper bounds of what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

from .._numerics.system_memory import available_memory
from ..errors import InvalidSetting
from ..warps.gram import SparseLimits
from .low_rank import FEATURE_ROWS
from .operator import LIMITS

WORD = 8  # bytes of a number
MOST_ITEMS = 10**12  # more clouds or landmarks than this are a mistake
PROGRAM = 2.5e8  # bytes of the interpreter and its libraries, and of everything too small to count
EXACT = "exact kernel warps: one factorisation per cloud"
DENSE = "few features per cloud, dense total"
WOODBURY = "few features per cloud, total by the Woodbury identity"
SPARSE = "exact kernel warps: one sparse factorisation per cloud, total by conjugate gradients and LOBPCG"
ITERATIVE = "few features per cloud, total by conjugate gradients and LOBPCG"


@dataclass(frozen=True)
class Forecast:
    """Peak memory of a fit, the path that would run, and what this machine has left.

    Attributes
    ----------
    path : str
        The algorithm that would run.
    memory, available : int
        Bytes that the fit needs, and bytes that are free.
    fits : bool
        Whether there is enough memory.

    Examples
    --------
    >>> print(Forecast("exact kernel warps", memory=2_000_000_000, available=8_000_000_000))
    2.00 GB of 8.00 GB free; exact kernel warps
    """

    path: str
    memory: int
    available: int

    @property
    def fits(self) -> bool:
        return self.memory <= self.available

    def __str__(self) -> str:
        return f"{self.memory / 1e9:.2f} GB of {self.available / 1e9:.2f} GB free; {self.path}"


def forecast(
    n: int,
    m: int,
    d: int = 3,
    inducing: int | None = None,
    seen: float = 1.0,
    neighbours: float | None = None,
) -> Forecast:
    """Peak memory of a fit of n clouds and m landmarks in d dimensions, and the path that would run.

    Parameters
    ----------
    n, m, d : int
        The numbers of clouds, landmarks and dimensions.
    inducing : int, optional
        Features per cloud: inducing points of KernelGPA, control_points^d of TPSGPA, 0 for AffineGPA; None for exact
        kernel warps.
    seen : float
        The share of the landmarks that a cloud sees.
    neighbours : float, optional
        Landmarks within the support of the kernel around one, if the kernel has compact support; otherwise None.

    Examples
    --------
    >>> forecast(10, 2000).path
    'exact kernel warps: one factorisation per cloud'
    >>> round(forecast(10, 20_000).memory / 1e9)
    45
    >>> forecast(6, 100_000, inducing=400).path
    'few features per cloud, total by the Woodbury identity'
    """
    n, m, d, inducing = _checked(n, m, d, inducing, seen, neighbours)
    s = seen * m
    stacked = 8 * n * m * d
    if inducing is None and neighbours is not None and SparseLimits().pays(neighbours, s):
        path, numbers = SPARSE, n * s * (1.5 * neighbours + 3.5 * min(0.65 * s ** (1 / 3) * neighbours, s))
    elif inducing is None:
        path, numbers = EXACT, n * s**2 + s**2 + 3 * m**2
    else:
        width = min(inducing, s) + d + 1
        features = n * width
        path, rest = ITERATIVE, 16.0 * m * width
        if LIMITS.prefers_dense(m, features):
            path, rest = DENSE, 2.5 * m**2
        elif features <= LIMITS.woodbury:
            path, rest = WOODBURY, 2.5 * features**2 + min(m, FEATURE_ROWS) * features
        numbers = (n + 1) * s * width + rest
    return Forecast(path, int(WORD * (numbers + stacked) + PROGRAM), available_memory())


def _checked(
    n: int, m: int, d: int, inducing: int | None, seen: float, neighbours: float | None
) -> tuple[int, int, int, int | None]:
    """The whole numbers as Python has them, which do not overflow."""
    whole = [one for one in (n, m, d, inducing) if one is not None]
    shares = [one for one in (seen, neighbours) if one is not None]
    if not all(isinstance(one, Integral) for one in whole) or not all(isinstance(one, Real) for one in shares):
        raise InvalidSetting(
            f"forecast of {n!r}, {m!r}, {d!r}, {inducing!r}, {seen!r}, {neighbours!r}; expected whole numbers, a share "
            "and a number of neighbours"
        )
    counts = [int(one) for one in (n, m, 1 if inducing is None else inducing + 1)]
    within = 1.0 if neighbours is None else float(neighbours)
    possible = min(counts) >= 1 and max(counts) <= MOST_ITEMS and 0 <= within <= MOST_ITEMS
    if not possible or d not in (2, 3) or not 0 < seen <= 1:
        raise InvalidSetting(
            f"forecast of {n} clouds, {m} landmarks, dimension {d}, inducing {inducing}, seen {seen}, neighbours "
            f"{neighbours}; expected positive numbers up to {MOST_ITEMS:.0e}, dimension 2 or 3 and a share"
        )
    return counts[0], counts[1], int(d), None if inducing is None else int(inducing)
