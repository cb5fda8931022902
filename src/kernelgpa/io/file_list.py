"""From the arguments to a list of files: a folder stands for the landmark files in it.

A folder must not mix formats, because a landmark file and a mesh of the same specimen would become two clouds.  Formats
whose ending is also that of other files (``.txt``, ``.json``, ``.csv``) do not count if there are others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..errors import FormatError
from .text import short_repr

GENERIC = (".txt", ".json", ".csv")
RESULT = "model.npz"


def expand(paths: Sequence[Path], recursive: bool, suffixes: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the files, folders replaced by what they hold, and notes on files that were left out."""
    found: list[Path] = []
    notes: list[str] = []
    for path in paths:
        if path.is_dir():
            inside, left_out = _landmark_files(path, recursive, suffixes)
            found += inside
            notes += left_out
        elif not path.exists():
            raise FormatError(path, None, "there is no such file or folder", "check the name")
        else:
            found.append(path)
    return found, notes


def known_suffix(path: Path, suffixes: Sequence[str]) -> str | None:
    """Return the longest suffix of the name that is known."""
    name = path.name.lower()
    known = [suffix for suffix in suffixes if name.endswith(suffix) and len(name) > len(suffix)]
    return max(known, key=len) if known else None


def _landmark_files(folder: Path, recursive: bool, suffixes: Sequence[str]) -> tuple[list[Path], list[str]]:
    if (folder / RESULT).exists():
        raise FormatError(folder, None, "it is a result folder", "give the files that were registered")
    entries = sorted(folder.rglob("*") if recursive else folder.iterdir())
    visible = [one for one in entries if one.is_file() and not _is_hidden(one.relative_to(folder))]
    endings = {one: suffix for one in visible if (suffix := known_suffix(one, suffixes))}
    specific = {one: suffix for one, suffix in endings.items() if suffix not in GENERIC}
    chosen = specific or endings
    kinds = Counter(chosen.values())
    if not chosen:
        hint = (
            "" if recursive or not any(one.is_dir() for one in entries) else "; --recursive looks into its folders too"
        )
        raise FormatError(folder, None, f"it holds no landmark file{hint}", f"expected one of {', '.join(suffixes)}")
    if len(kinds) > 1:
        counts = ", ".join(f"{count} {suffix}" for suffix, count in kinds.items())
        example = f"{folder}/*{kinds.most_common(1)[0][0]}"
        raise FormatError(folder, None, f"it mixes formats ({counts})", f"give the files of one, such as {example}")
    ignored = [one.name for one in visible if one not in chosen]
    shown = ", ".join(map(short_repr, ignored[:3])) + (", ..." if len(ignored) > 3 else "")
    note = f"{str(folder)!r}: {len(ignored)} other {'file' if len(ignored) == 1 else 'files'} left out ({shown})"
    return list(chosen), [note] if ignored else []


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
