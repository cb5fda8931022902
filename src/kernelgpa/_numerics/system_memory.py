"""The memory that the system can still give to this process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

UNKNOWN = 1 << 62  # bytes, if the system gives no figure
THREAD_ADDRESSES = 80_000_000  # bytes of addresses that a thread reserves for its stack and heap, most of them unused


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


def available_memory() -> int:
    """Bytes that this process may still allocate.

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
    try:  # systems that report the total only
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
    threads = THREAD_ADDRESSES * ((os.cpu_count() or 1) - 1)
    for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            left = min(left, most - used * resource.getpagesize() - threads)
    return left


def _text(path: Path) -> str:
    """The contents of a file of the system; empty if there is none."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
