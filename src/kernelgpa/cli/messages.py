"""What commands print: results on standard output, messages on standard error."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import typer

from ..errors import KernelGPAWarning
from ..io.matching import MatchedClouds
from ..report.vocabulary import vocabulary

MATCHING_RULES = {
    "label": "their labels",
    "suffix": "what their labels share without the specimen's name",
    "number": "the number at the end of their labels",
    "order": "their order in the files",
}
# settings that are options of the same name on the command line
OPTIONS = (
    *("bandwidth", "smoothing", "kernel", "control_points", "inducing", "scaling", "modes", "robust"),
    *("n_jobs", "folds", "missing", "negative_is_missing", "curves", "frames", "markers"),
    *("match", "label_pattern", "merge", "recursive", "metadata", "links", "procrustes", "mirrored"),
)
# what messages of the library name, in terms of commands; longer names come first
IN_COMMANDS = {
    "RigidGPA(scaling=True)": "--method rigid --scaling",
    "RigidGPA": "--method rigid",
    "AffineGPA": "--method affine",
    "TPSGPA": "--method tps",
    "kernelgpa.ShapeModel": "kernelgpa shape",
    "predict instead of inverse_transform": "kernelgpa impute",
}
# a call such as KernelGPA(modes=5) is Python and stays as it is
OPTION = re.compile(rf"\w\([^()]*\)|(?<![\w./-])({'|'.join(OPTIONS)})=['\"]?([\w.-]*\w)['\"]?")
LEADING_OPTION = re.compile(rf"^({'|'.join(OPTIONS)}) is ")


def print_message(text: str) -> None:
    """Print on standard error; a command does not fail because a message cannot be printed."""
    with suppress(OSError):  # standard error is closed, or a file on a full disk
        typer.echo(printable(text), err=True)


def printable(text: str) -> str:
    """Text with control characters escaped: names come from files and must not control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def with_option_names(text: str) -> str:
    """A message of the library in terms of the command line: ``robust='tukey'`` becomes ``--robust tukey``."""
    for method in ("suspicious_observations()", "suspicious_landmarks()", "diagnose()"):
        text = text.replace(method, "the report")
    for name, option in IN_COMMANDS.items():
        text = text.replace(name, option)
    text = OPTION.sub(lambda found: f"{_flag(found[1])} {found[2]}" if found[1] else found[0], text)
    return LEADING_OPTION.sub(lambda found: f"{_flag(found[1])} is ", text)


def _flag(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


def print_matching(matched: MatchedClouds) -> None:
    """Print how landmarks of different files were matched."""
    n, m, d = matched.points.shape
    seen = float(np.mean(~np.isnan(matched.points[:, :, 0])))
    rule = MATCHING_RULES[matched.rule]
    words = vocabulary(matched.kind)
    print_message(
        words.translate(
            f"{n} clouds, {m} landmarks in {d}D, {_percent(seen)} of all pairs of a cloud and a landmark seen; "
            f"landmarks matched by {rule}"
        )
    )
    for note in (*matched.notes, *([matched.remedy] if matched.remedy else [])):
        print_message(f"note: {with_option_names(words.translate(note))}")


def _percent(share: float) -> str:
    """A share with one decimal, rounded down: 100% means all."""
    return f"{math.floor(1000 * share) / 10:g}%"


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def formatted(value: float | str | None, unit: str) -> str:
    """A number with its unit; "-" for None, and text such as "infinite" unchanged."""
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4g}{unit}"


@contextmanager
def printed_warnings(kind: str = "cloud") -> Iterator[list[str]]:
    """Print the library's warnings on standard error, each once, in the words for ``kind``; the list collects them."""
    printed: list[str] = []

    def show(message: Warning | str, category: type[Warning], *_: Any) -> None:
        text = with_option_names(vocabulary(kind).translate(str(message)))
        if issubclass(category, KernelGPAWarning) and text not in printed:
            printed.append(text)
            print_message(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", KernelGPAWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield printed
