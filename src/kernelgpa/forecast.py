"""What a fit would take, before it is begun.

Counted are the matrices that are alive at the same time, in numbers of eight bytes, with n clouds that each see s of m
landmarks, d dimensions and q features a cloud:

    exact                  n s^2 for the clouds, s^2 for the one at work, 2 m^2 for the total and its factor
    thin, dense total      (n + 1) s q for the clouds, 2 m^2
    thin, Woodbury         (n + 1) s q, and 2 (n q)^2 for the products of all features, from 2000 landmarks at a time
    thin, iterated         (n + 1) s q, and 12 m q for the form that stands in and what finds it
    sparse                 3.5 n s f with f entries a row of a factor, about 0.65 s^(1/3) times the neighbours

each with 8 n m d for the clouds side by side.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path

from .errors import InvalidSetting
from .forms import MOST_DENSE, MOST_FEATURES, ROWS, SMALL
from .kernels import sparse_pays

WORD = 8
MOST = 10**12  # clouds, landmarks, ...: more is a mistake
UNKNOWN = 1 << 62  # bytes, where the system does not tell
CONTAINER = (  # limit and use, by the second and by the first version of control groups
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
PROGRAM = 2.5e8  # bytes of the interpreter and its libraries, and what is too small to count
EXACT = "exact kernel warps: one factorisation a cloud"
DENSE = "few features a cloud, dense total"
WOODBURY = "few features a cloud, total by Woodbury"
SPARSE = "exact kernel warps: one sparse factorisation a cloud, total by conjugate gradients and LOBPCG"
ITERATED = "few features a cloud, total by conjugate gradients and LOBPCG"


@dataclass(frozen=True)
class Forecast:
    """Peak memory of a fit, the path that would run, and what this machine has left."""

    path: str
    memory: int  # bytes
    available: int  # bytes

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

    inducing : features a cloud: inducing points of KernelGPA, control_points^d of TPSGPA, 0 for AffineGPA; None for
        exact kernel warps.
    seen : the share of the landmarks that a cloud sees.
    neighbours : landmarks within the reach of one, for a kernel of compact support; None for any other.

    >>> forecast(10, 2000).path
    'exact kernel warps: one factorisation a cloud'
    >>> round(forecast(10, 20_000).memory / 1e9)
    42
    >>> forecast(6, 100_000, inducing=400).path
    'few features a cloud, total by Woodbury'
    """
    whole = [one for one in (n, m, d, inducing) if one is not None]
    shares = [one for one in (seen, neighbours) if one is not None]
    if not all(isinstance(one, Integral) for one in whole) or not all(isinstance(one, Real) for one in shares):
        raise InvalidSetting(
            f"forecast of {n!r}, {m!r}, {d!r}, {inducing!r}, {seen!r}, {neighbours!r}; expected whole numbers, a share "
            "and a number of neighbours"
        )
    n, m, d, inducing = int(n), int(m), int(d), None if inducing is None else int(inducing)  # NumPy's overflow
    counts = [n, m, *([] if inducing is None else [inducing + 1])]
    near = 1.0 if neighbours is None else float(neighbours)
    if min(counts) < 1 or max(counts) > MOST or d not in (2, 3) or not 0 < seen <= 1 or not 0 <= near <= MOST:
        raise InvalidSetting(
            f"forecast of {n} clouds, {m} landmarks, dimension {d}, inducing {inducing}, seen {seen}, neighbours "
            f"{neighbours}; expected positive numbers up to {MOST:.0e}, dimension 2 or 3 and a share"
        )
    s = seen * m
    together = 8 * n * m * d
    if inducing is None and neighbours is not None and sparse_pays(neighbours, s):
        path, numbers = SPARSE, n * s * (1.5 * neighbours + 3.5 * min(0.65 * s ** (1 / 3) * neighbours, s))
    elif inducing is None:
        path, numbers = EXACT, n * s**2 + s**2 + 2 * m**2
    else:
        width = min(inducing, s) + d + 1
        features = n * width
        path, rest = ITERATED, 12.0 * m * width
        if m <= SMALL or (2 * features >= m and m <= MOST_DENSE):
            path, rest = DENSE, 2.0 * m**2
        elif features <= MOST_FEATURES:
            path, rest = WOODBURY, 2.0 * features**2 + min(m, ROWS) * features
        numbers = (n + 1) * s * width + rest
    return Forecast(path, int(WORD * (numbers + together) + PROGRAM), available_memory())


def available_memory() -> int:
    """Bytes that a process may still take without harm: what the system has free, or a container leaves."""
    return min(_free_memory(), _left_in_container())


def _free_memory() -> int:
    status = Path("/proc/meminfo")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    try:  # systems that tell only how much there is in all
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN


def _left_in_container() -> int:
    for limit, used in CONTAINER:
        try:
            return int(Path(limit).read_text()) - int(Path(used).read_text())
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return UNKNOWN
