"""A folder of files, written whole or not at all.

It is written beside its place and then exchanged with what was there, in one step of the file system.
"""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from .files import write_bytes

RENAME_EXCHANGE = 2
ABANDONED = 600.0  # seconds without a change, after which what a dead process left is taken away
AT_FDCWD = -100


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """The files as the only contents of a folder, in place of what is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.part-{os.getpid()}-", dir=folder.parent))
    try:
        part.chmod(0o777 & ~_umask())
        for name, data in files.items():
            write_bytes(part / name, data)
        _put(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)  # what was there before, or what could not be finished
    _sweep(folder)


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


def _sweep(folder: Path) -> None:
    """Take away what runs on this machine that were killed have left, where the system tells who still runs."""
    if not Path("/proc/self").exists():
        return
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.part-*"):
        process = left.name.rpartition("part-")[2].split("-")[0]
        old = time.time() - left.stat().st_mtime > ABANDONED  # on a shared disk it may run on another machine
        if process.isdigit() and not Path(f"/proc/{process}").exists() and old:
            shutil.rmtree(left, ignore_errors=True)
