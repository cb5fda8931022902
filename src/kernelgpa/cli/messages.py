"""What commands print: results on standard output, messages on standard error.

Every message passes through ``worded``: it is in the words for the files of the command (specimens, or frames and
markers), and names options instead of arguments of the library.  ``use_words`` sets the words as soon as the files are
known; the application resets them for each command.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ..errors import FormatError, KernelGPAWarning
from ..io.files import kind_of
from ..io.matching import MatchedClouds
from ..report.vocabulary import Vocabulary, vocabulary, with_option_names

MATCHING_RULES = {
    "label": "their labels",
    "suffix": "what their labels share without the specimen's name",
    "number": "the number at the end of their labels",
    "order": "their order in the files",
}


@dataclass(frozen=True)
class Words:
    """The words for the files of a command, and the names that are not to be translated."""

    vocabulary: Vocabulary = field(default_factory=lambda: vocabulary("cloud"))
    names: tuple[str, ...] = ()


_words: ContextVar[Words] = ContextVar("words")


def use_words(kind: str = "cloud", names: Iterable[object] = ()) -> None:
    """From here on, messages use the words specimen, frame or cloud; ``names`` and arguments stay as they are."""
    own = vocabulary(kind)
    kept = own.changed_by_translation({*map(str, names), *sys.argv[1:]})
    _words.set(Words(own, tuple(sorted(kept))))


def use_words_of(files: Sequence[str | Path], recursive: bool = False) -> None:
    """The same for files that were not read yet, by the ends of their names."""
    use_words(kind_of(files, recursive), files)


def worded(text: str) -> str:
    """A message of the library in the words for the files, with the names of options."""
    words = _words.get(Words())
    return with_option_names(words.vocabulary.translate(text, words.names))


def print_message(text: str) -> None:
    """Print on standard error; a command does not fail because a message cannot be printed."""
    _print(worded(text))


def print_error(error: Exception, advice: str = "") -> None:
    """Print an error as one line; the name of a file is printed as it is."""
    location, text = "", " ".join(str(error).split())
    if isinstance(error, FormatError):
        location = " ".join(error.location.split()) + ": "
        text = " ".join(f"{error.found}; {error.expected}".split())
    _print(f"kernelgpa: {location}{worded(text)}{advice}")


def _print(text: str) -> None:
    with suppress(OSError):  # standard error is closed, or a file on a full disk
        typer.echo(printable(text), err=True)


def printable(text: str) -> str:
    """Text with control characters escaped: names come from files and must not control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def print_matching(matched: MatchedClouds) -> None:
    """Print how landmarks were matched, in the words for these files, which are used from here on."""
    n, m, d = matched.points.shape
    seen = float(np.mean(~np.isnan(matched.points[:, :, 0])))
    rule = MATCHING_RULES[matched.rule]
    use_words(matched.kind, (*matched.names, *matched.landmarks))
    print_message(
        f"{counted(n, 'cloud')}, {counted(m, 'landmark')} in {d}D, {_percent(seen)} of all pairs of a cloud and "
        f"a landmark seen; landmarks matched by {rule}"
    )
    for note in (*matched.notes, *([matched.remedy] if matched.remedy else [])):
        print_message(f"note: {note}")


def counted(count: int, what: str) -> str:
    """A number with its noun."""
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _percent(share: float) -> str:
    """A share with one decimal, rounded down: 100% means all."""
    return f"{math.floor(1000 * share) / 10:g}%"


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def formatted(value: float | str | None, unit: str) -> str:
    """A number with its unit; "-" for None, and text such as "infinite" unchanged."""
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4g}{unit}"


@contextmanager
def printed_warnings() -> Iterator[list[str]]:
    """Print the library's warnings on standard error, each once; the list collects them, as they are printed."""
    printed: list[str] = []

    def show(message: Warning | str, category: type[Warning], *_: Any) -> None:
        text = worded(str(message))
        if issubclass(category, KernelGPAWarning) and text not in printed:
            printed.append(text)
            print_message(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", KernelGPAWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield printed
