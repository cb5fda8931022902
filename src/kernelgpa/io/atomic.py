"""Files and folders of files, each written whole or not at all.

Both are written beside their place, under a name that ends in ``.part-`` and the number of the process, and then moved
there in one step of the file system.  What a killed process left behind is removed by the next write to that place.

A folder that must not be moved (the current folder or one above it, a mount point, or a folder whose parent cannot be
written) gets its new files one by one instead.  Each of them is whole, and an error puts the old ones back; only a
process that is killed within those few renames can leave old files beside new ones.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from ..errors import InvalidSetting

RENAME_EXCHANGE = 2
ABANDONED = 600.0  # seconds without a change, after which what a dead process left is taken away
AT_FDCWD = -100
PART = ".part-"


def write_bytes(path: Path, data: bytes) -> None:
    """A file, in place of what is there."""
    part = path.with_name(f".{path.name}{PART}{os.getpid()}")
    try:
        with part.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sweep(path.parent, path.name)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """The files as the only contents of a folder, in place of what is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    within = folder if stays(folder) else folder.parent
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}{PART}{os.getpid()}-", dir=within))
    try:
        part.chmod(0o777 & ~_umask())
        for name, data in files.items():
            write_bytes(part / name, data)
        if within == folder:
            _put_files(part, folder, list(files))
        else:
            _put(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)  # what was there before, or what could not be finished
    sweep(within, folder.name)


def stays(folder: Path) -> bool:
    """Whether a folder must not be replaced by another, but only its files."""
    if not folder.is_dir():
        return False
    return _holds_current(folder) or folder.is_mount() or not _is_writable(folder.parent)


def require_writable(folder: Path) -> None:
    """An error unless a folder can be written, or made."""
    nearest = folder if stays(folder) else folder.parent
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    _try(nearest, folder, "folder")


def require_writable_file(path: Path) -> None:
    """An error unless a file can be written there, in a folder that exists."""
    if path.is_dir():
        raise InvalidSetting(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise InvalidSetting(f"{path}: there is no folder {path.parent}; make it first")
    _try(path.parent, path, "file")


def _try(within: Path, wanted: Path, kind: str) -> None:
    """Find out by making an empty folder and removing it; permissions alone do not show what a system will do."""
    try:
        Path(tempfile.mkdtemp(prefix=f".{wanted.name}{PART}{os.getpid()}-", dir=within)).rmdir()
    except OSError as error:
        raise InvalidSetting(f"{wanted} cannot be written ({error.strerror}); give another {kind}") from error


def is_leftover(name: str, of: str) -> bool:
    """Whether a file or folder of that name was left by a write to ``of`` that has not ended."""
    return name.startswith(f".{of}{PART}")


def sweep(within: Path, of: str) -> None:
    """Remove what killed processes of this machine left of ``of``, if the system shows which processes still run."""
    if not Path("/proc/self").exists():
        return
    try:
        with os.scandir(within) as entries:
            names = [entry.name for entry in entries if is_leftover(entry.name, of)]
    except OSError:  # a folder that may be written and not listed
        return
    for name in names:
        process = name.rpartition(PART)[2].split("-")[0]
        if process.isdigit() and not Path(f"/proc/{process}").exists() and _is_old(within / name):
            _remove(within / name)


def _is_old(path: Path) -> bool:
    """On a shared disk the process may run on another machine, so what is recent is kept."""
    try:
        return time.time() - path.stat().st_mtime > ABANDONED
    except OSError:  # somebody else has removed it meanwhile
        return False


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _holds_current(folder: Path) -> bool:
    try:
        return Path.cwd().is_relative_to(folder.resolve())
    except FileNotFoundError:  # the current folder has been removed
        return False


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _put_files(part: Path, folder: Path, names: list[str]) -> None:
    """The files of one folder in place of all that another holds; after an error the old ones are there again."""
    before = [path.name for path in folder.iterdir() if not is_leftover(path.name, folder.name)]
    aside = Path(tempfile.mkdtemp(prefix="old-", dir=part))
    try:
        for name in dict.fromkeys([*names, *before]):
            if name in before:
                (folder / name).rename(aside / name)
            if name in names:
                (part / name).rename(folder / name)
    except BaseException:
        for name in names:
            if not (part / name).exists():
                (folder / name).rename(part / name)
        for path in list(aside.iterdir()):
            path.rename(folder / path.name)
        raise


def _put(part: Path, folder: Path) -> None:
    """The new folder in place of the old; the old one is then where the new one was made."""
    if not folder.exists():
        try:
            part.rename(folder)
            return
        except OSError:
            if not folder.exists():  # nobody else has put theirs there meanwhile
                raise
    if not _exchanged(part, folder):  # a system without that step: two, with a moment between them
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old-", dir=folder.parent))
        folder.rename(aside / folder.name)
        try:
            part.rename(folder)
        except OSError:
            (aside / folder.name).rename(folder)
            raise
        finally:
            if folder.exists():
                shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _exchanged(one: Path, other: Path) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an old C library
        return False
    done = rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    return int(done) == 0
