"""What a fit would take, before it is begun.

Counted are the matrices that are alive at the same time, in numbers of eight bytes, with n clouds that each see s of m
landmarks, d dimensions and q features a cloud:

    exact                  n s^2 for the clouds, s^2 for the one at work, 3 m^2 for the total, its factor and work space
    thin, dense total      (n + 1) s q for the clouds, 2.5 m^2
    thin, Woodbury         (n + 1) s q, and 2.5 (n q)^2 for the products of all features, from 2000 landmarks at a time
    thin, iterated         (n + 1) s q, and 16 m q for the form that stands in and what finds it
    sparse                 3.5 n s f with f entries a row of a factor, about 0.65 s^(1/3) times the neighbours

each with 8 n m d for the clouds side by side.  The counts are upper bounds of what was measured.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path

from ..errors import InvalidSetting
from ..warps.kernels import sparse_pays
from .low_rank import FEATURE_ROWS
from .operator import LIMITS

WORD = 8
MOST = 10**12  # clouds, landmarks, ...: more is a mistake
UNKNOWN = 1 << 62  # bytes, where the system does not tell
PROGRAM = 2.5e8  # bytes of the interpreter and its libraries, and what is too small to count
THREAD = 80_000_000  # bytes of addresses that a thread reserves and hardly uses: its stack and its heap
EXACT = "exact kernel warps: one factorisation a cloud"
DENSE = "few features a cloud, dense total"
WOODBURY = "few features a cloud, total by Woodbury"
SPARSE = "exact kernel warps: one sparse factorisation a cloud, total by conjugate gradients and LOBPCG"
ITERATED = "few features a cloud, total by conjugate gradients and LOBPCG"


@dataclass(frozen=True)
class ControlGroups:
    """Where one version of Linux control groups keeps its figures."""

    mount: str
    controller: str  # as /proc/self/cgroup names it
    limits: tuple[str, ...]
    used: str
    reclaimable: str  # of the memory in use, which the system takes back when it is needed


CONTROL_GROUPS = (
    ControlGroups("sys/fs/cgroup", "", ("memory.max", "memory.high"), "memory.current", "inactive_file"),
    ControlGroups("sys/fs/cgroup/unified", "", ("memory.max", "memory.high"), "memory.current", "inactive_file"),
    ControlGroups(
        "sys/fs/cgroup/memory", "memory", ("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"
    ),
)


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
    45
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
    stacked = 8 * n * m * d
    if inducing is None and neighbours is not None and sparse_pays(neighbours, s):
        path, numbers = SPARSE, n * s * (1.5 * neighbours + 3.5 * min(0.65 * s ** (1 / 3) * neighbours, s))
    elif inducing is None:
        path, numbers = EXACT, n * s**2 + s**2 + 3 * m**2
    else:
        width = min(inducing, s) + d + 1
        features = n * width
        path, rest = ITERATED, 16.0 * m * width
        if LIMITS.prefers_dense(m, features):
            path, rest = DENSE, 2.5 * m**2
        elif features <= LIMITS.woodbury:
            path, rest = WOODBURY, 2.5 * features**2 + min(m, FEATURE_ROWS) * features
        numbers = (n + 1) * s * width + rest
    return Forecast(path, int(WORD * (numbers + stacked) + PROGRAM), available_memory())


def available_memory() -> int:
    """Bytes that this process may still take without harm.

    The least of what the system has free, what every control group of the process leaves (its own and those above it,
    as containers and job schedulers set them), and what the limits of the process leave (``ulimit -v``).
    """
    return max(0, min(_free_memory(), _left_in_groups(), _left_of_limits()))


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


def _left_in_groups(root: Path = Path("/")) -> int:
    """What the control groups of this process leave, each and every group above it."""
    left = UNKNOWN
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for groups in CONTROL_GROUPS:
            if groups.controller in controllers.split(","):
                mount = root / groups.mount
                own = mount / path.lstrip("/")
                folders = [one for one in (own, *own.parents) if one.is_relative_to(mount)]
                left = min(left, *(_left_in_group(groups, folder) for folder in {mount, *folders}))
    return left


def _left_in_group(groups: ControlGroups, folder: Path) -> int:
    limits = [int(text) for name in groups.limits if (text := _text(folder / name).strip()).isdigit()]
    used = _text(folder / groups.used).strip()
    if not limits or not used.isdigit():  # no such group, or one without a limit
        return UNKNOWN
    figures = dict(line.split(maxsplit=1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
    return min(limits) - int(used) + int(figures.get(groups.reclaimable, 0))


def _left_of_limits() -> int:
    """What the limits of this process leave, on its addresses and on its data."""
    try:
        import resource
    except ImportError:  # Windows has none
        return UNKNOWN
    pages = [int(one) for one in _text(Path("/proc/self/statm")).split()] or [0] * 7
    left = UNKNOWN
    threads = THREAD * ((os.cpu_count() or 1) - 1)
    for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            left = min(left, most - used * resource.getpagesize() - threads)
    return left


def _text(path: Path) -> str:
    """What a file of the system says; nothing if there is none."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
