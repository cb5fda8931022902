"""Atomic writes of files and folders: a reader finds the old contents or the new ones, never a part.

Both are written under a temporary name beside the target, which ends in ``.part-`` and the process id, and then moved
in one step of the file system.  Temporary files of a process that was killed are removed by the next write to the same
target.

A folder that must not be moved (the current folder or one above it, a mount point, or a folder whose parent cannot be
written) gets its new files one by one instead.  Each file is written atomically, and after an error the old files are
restored; only a process that is killed during these renames can leave old files beside new ones.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import InvalidSetting

RENAME_EXCHANGE = 2  # flag of renameat2
AT_FDCWD = -100
STALE_AFTER = 600.0  # seconds without a change, after which the temporary files of a dead process are removed
PART = ".part-"


def exchange_paths(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; False if the system cannot do that."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an old C library
        return False
    status = rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    return int(status) == 0


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file in place of what is there."""
    part = path.with_name(f".{path.name}{PART}{os.getpid()}")
    try:
        with part.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    remove_stale(path.parent, path.name)


def write_folder(
    folder: Path, files: Mapping[str, bytes], exchange: Callable[[Path, Path], bool] = exchange_paths
) -> None:
    """Write the files as the only contents of a folder, in place of what is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    within = folder if must_stay(folder) else folder.parent
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}{PART}{os.getpid()}-", dir=within))
    try:
        part.chmod(0o777 & ~_umask())
        for name, data in files.items():
            write_bytes(part / name, data)
        if within == folder:
            _replace_files(part, folder, list(files))
        else:
            _replace_folder(part, folder, exchange)
    finally:
        shutil.rmtree(part, ignore_errors=True)  # the old contents, or new ones that are incomplete
    remove_stale(within, folder.name)


def must_stay(folder: Path) -> bool:
    """Whether a folder must not be replaced by another: only its files may be."""
    if not folder.is_dir():
        return False
    return _contains_current_folder(folder) or folder.is_mount() or not os.access(folder.parent, os.W_OK | os.X_OK)


def require_writable(folder: Path) -> None:
    """Raise an error unless a folder can be written or created."""
    nearest = folder if must_stay(folder) else folder.parent
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    _require_can_create(nearest, folder, "folder")


def require_writable_file(path: Path) -> None:
    """Raise an error unless a file can be written there, in a folder that exists."""
    if path.is_dir():
        raise InvalidSetting(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise InvalidSetting(f"{path}: there is no folder {path.parent}; create it first")
    _require_can_create(path.parent, path, "file")


def _require_can_create(within: Path, target: Path, kind: str) -> None:
    """Create an empty folder and remove it, because permissions alone do not show what the system will allow."""
    try:
        Path(tempfile.mkdtemp(prefix=f".{target.name}{PART}{os.getpid()}-", dir=within)).rmdir()
    except OSError as error:
        raise InvalidSetting(f"{target} cannot be written ({error.strerror}); give another {kind}") from error


def is_temporary(name: str, target: str) -> bool:
    """Whether a file or folder of that name belongs to an unfinished write to ``target``."""
    return name.startswith(f".{target}{PART}")


def remove_stale(within: Path, target: str, stale_after: float = STALE_AFTER) -> None:
    """Remove temporary files of killed processes of this machine, if the system shows which processes are running."""
    if not Path("/proc/self").exists():
        return
    try:
        with os.scandir(within) as entries:
            names = [entry.name for entry in entries if is_temporary(entry.name, target)]
    except OSError:  # a folder that may be written but not listed
        return
    for name in names:
        process = name.rpartition(PART)[2].split("-")[0]
        if process.isdigit() and not Path(f"/proc/{process}").exists() and _age(within / name) > stale_after:
            _remove(within / name)


def _age(path: Path) -> float:
    """Return the seconds since the last change; on a shared disk the process may run on another machine."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # removed by another process meanwhile
        return -float("inf")


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _contains_current_folder(folder: Path) -> bool:
    try:
        return Path.cwd().is_relative_to(folder.resolve())
    except FileNotFoundError:  # the current folder has been removed
        return False


def _replace_files(part: Path, folder: Path, names: list[str]) -> None:
    """Move the files of one folder in place of all that another contains; after an error restore the old ones."""
    before = [path.name for path in folder.iterdir() if not is_temporary(path.name, folder.name)]
    old = Path(tempfile.mkdtemp(prefix="old-", dir=part))
    try:
        for name in dict.fromkeys([*names, *before]):
            if name in before:
                (folder / name).rename(old / name)
            if name in names:
                (part / name).rename(folder / name)
    except BaseException:
        for name in names:
            if not (part / name).exists():
                (folder / name).rename(part / name)
        for path in list(old.iterdir()):
            path.rename(folder / path.name)
        raise


def _replace_folder(part: Path, folder: Path, exchange: Callable[[Path, Path], bool]) -> None:
    """Move the new folder in place of the old one, which then is at ``part``."""
    if not folder.exists():
        try:
            part.rename(folder)
            return
        except OSError:
            if not folder.exists():  # otherwise another process has created it meanwhile
                raise
    if not exchange(part, folder):  # two steps, between which there is no folder
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old-", dir=folder.parent))
        folder.rename(old / folder.name)
        try:
            part.rename(folder)
        except OSError:
            (old / folder.name).rename(folder)
            raise
        finally:
            if folder.exists():
                shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
