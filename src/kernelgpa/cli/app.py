"""What the commands share: options, words on standard error, errors in one line."""

from __future__ import annotations

import json
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..errors import KernelGPAError, KernelGPAWarning
from ..io.base import Reading
from ..io.matching import Gathered

INTERRUPTED = 130
SEVERAL_FILES = {"convert", "simulate", "stream"}  # commands that write one file after another

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

Inputs = Annotated[list[Path], typer.Argument(help="Files of landmarks or meshes, of any format that is read.")]
Missing = Annotated[
    float | None,
    typer.Option("--missing", metavar="CODE", help="A number that stands for 'not seen' in every coordinate."),
]
NegativeIsMissing = Annotated[
    bool, typer.Option("--negative-is-missing", help="TPS: points with negative coordinates were not seen.")
]
Curves = Annotated[bool, typer.Option("--curves", help="TPS: points of curves are landmarks too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show where an error came from.")]


def reading(missing: float | None, negative_is_missing: bool, curves: bool) -> Reading:
    return Reading(missing=missing, negative_is_missing=negative_is_missing, curves=curves)


def say(text: str) -> None:
    """A message to the user on standard error; a command does not fail because it cannot be printed."""
    with suppress(OSError):  # standard error is closed, or a file on a full disk
        typer.echo(printable(text), err=True)


def printable(text: str) -> str:
    """Names come from files: what would steer a terminal is shown as it is written."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def tell_gathered(gathered: Gathered) -> None:
    """How files became clouds."""
    n, m, d = gathered.points.shape
    seen = np.mean(~np.isnan(gathered.points[:, :, 0]))
    say(f"{n} clouds, {m} landmarks in {d}D, {seen:.0%} seen; landmarks matched by {MATCHED[gathered.rule]}")
    for note in gathered.notes:
        say(f"note: {note}")


MATCHED = {
    "labels": "their labels",
    "numbers": "the number at the end of their labels",
    "order": "their order in the files",
}


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def amount(value: float | str | None, unit: str) -> str:
    """A figure with its unit; there may be none, or it may be infinite."""
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4g}{unit}"


@contextmanager
def spoken_warnings() -> Iterator[list[str]]:
    """Warnings of the library as lines on standard error, each once; the list holds them too."""
    told: list[str] = []

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if not issubclass(category, KernelGPAWarning):
            return
        if str(message) not in told:
            told.append(str(message))
            say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", KernelGPAWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield told


def main() -> None:
    """Run a command; a known error is one line and exit code 2, an interrupt one line and 130."""
    wordy = _is_wordy(sys.argv[1:])
    signal.signal(signal.SIGTERM, _stop)  # so that worker processes end too
    try:
        app()
    except (KernelGPAError, OSError) as error:
        if wordy:
            traceback.print_exc()
        say(f"kernelgpa: {_one_line(str(error))}{_if_removed(error)}")
        sys.exit(2)
    except MemoryError:
        say("kernelgpa: the memory is used up; use fewer landmarks or clouds, or --inducing")
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            say(_interrupted())
        raise
    except KeyboardInterrupt:  # between the commands
        say(_interrupted())
        sys.exit(INTERRUPTED)


def _interrupted() -> str:
    several = not SEVERAL_FILES.isdisjoint(sys.argv[1:2])
    return f"kernelgpa: interrupted; {'files that were written are whole' if several else 'nothing was written'}"


def _if_removed(error: Exception) -> str:
    """What to do if the current folder is gone, which the system's own words do not say."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return "; the current folder has been removed: change to another" if isinstance(error, OSError) else ""
    return ""


def _stop(*_: Any) -> None:
    raise KeyboardInterrupt


def _is_wordy(arguments: Sequence[str]) -> bool:
    return "--verbose" in arguments or "-v" in arguments


def _one_line(text: str) -> str:
    return " ".join(text.split())
