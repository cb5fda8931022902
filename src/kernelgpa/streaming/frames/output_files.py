"""Output files that grow with a stream, poses.tum and updates.jsonl; a resumed run cuts them back to its checkpoint."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from ...errors import FormatError, InvalidSetting
from ...io.validation import InvalidRecord, is_integer

POSES, UPDATES, MAP = "poses.tum", "updates.jsonl", "map.csv"
GROWING = (POSES, UPDATES)


class OutputFiles:
    """The growing files of a folder, open for appending."""

    def __init__(self, folder: Path, sizes: dict[str, int] | None) -> None:
        """Open the files and cut them back to the sizes at the checkpoint; None replaces them."""
        if folder.exists() and not folder.is_dir():
            raise InvalidSetting(f"{folder} is a file; give a folder")
        if (folder / "model.npz").exists():
            raise InvalidSetting(f"{folder} holds a registration; give another folder for the stream")
        others = [name for name in (POSES, MAP) if (folder / name).exists()]
        if sizes is None and others and not (folder / UPDATES).exists():
            raise InvalidSetting(f"{folder} holds a {others[0]} that was not written by a stream; give another folder")
        for name in GROWING:
            _require_size(folder / name, 0 if sizes is None else int(sizes[name]))
        folder.mkdir(parents=True, exist_ok=True)
        self._files = {name: (folder / name).open("ab") for name in GROWING}
        for name, file in self._files.items():
            file.truncate(0 if sizes is None else int(sizes[name]))

    def append(self, name: str, text: str) -> None:
        self._files[name].write(text.encode())
        self._files[name].flush()

    def sizes(self) -> dict[str, int]:
        """The sizes of the files, after everything written so far is safely on the disk."""
        for file in self._files.values():
            os.fsync(file.fileno())
        return {name: os.fstat(file.fileno()).st_size for name, file in self._files.items()}

    def __enter__(self) -> OutputFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for file in self._files.values():
            file.close()


def require_sizes(sizes: object) -> None:
    """Raise a ValueError unless these are the sizes of the growing files, or None."""
    if sizes is not None and (
        not isinstance(sizes, dict)
        or set(sizes) != set(GROWING)
        or not all(is_integer(one, 0) for one in sizes.values())
    ):
        raise InvalidRecord(f"{sizes!r} are not sizes of output files")


def _require_size(path: Path, size: int) -> None:
    found = path.stat().st_size if path.exists() else 0
    if found < size:
        raise FormatError(
            path, None, f"it has {found} bytes and had {size} at the checkpoint", "give the same folder, or start again"
        )
