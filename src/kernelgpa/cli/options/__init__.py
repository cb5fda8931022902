"""The options that commands share; None means that an option was not given.

In:   arguments.
Out:  the values of options, and records that group them (``groups``).
Equations of docs/theory.md: none.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ...warps.kernels import KERNELS


class MethodChoice(StrEnum):
    """The names of ``estimators.methods.METHODS``."""

    RIGID = "rigid"
    AFFINE = "affine"
    TPS = "tps"
    KERNEL = "kernel"


# -- input --
FILES_HELP = "Files of landmarks or meshes, in any supported format, or folders of such files."


def _numbers(text: str) -> tuple[float, ...]:
    """The value of --missing: one number, or one per axis."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter("expected a number, or one per axis such as 1998,1998,-1998") from None


class Match(StrEnum):
    LABEL = "label"
    SUFFIX = "suffix"
    NUMBER = "number"
    ORDER = "order"


Files = Annotated[list[Path], typer.Argument(help=FILES_HELP)]
OptionalFiles = Annotated[list[Path] | None, typer.Argument(help=FILES_HELP)]
Missing = Annotated[
    Any,
    typer.Option(
        metavar="CODE",
        parser=_numbers,
        help="A point was not seen if each of its coordinates is this number. Several numbers, separated by commas: "
        "one per axis.",
    ),
]
Frames = Annotated[
    str | None,
    typer.Option(metavar="FIRST:END:STEP", help="Use only frames FIRST to END-1, every STEP-th.  [all]"),
]
Markers = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Use landmarks only whose label matches, such as 'L*'; can be repeated."),
]
MatchRule = Annotated[
    Match | None,
    typer.Option(
        "--match",
        help="How landmarks of different files are matched: by equal labels, by what labels share without the "
        "specimen's name, by the number at their ends, or by their order.  [automatic]",
    ),
]
LabelPattern = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Match landmarks by the group of this regular expression in their labels."),
]
Merge = Annotated[
    bool | None,
    typer.Option(
        help="Files whose names differ only after the last _, -, space or dot are one specimen.  [if their labels "
        "differ]"
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", "-r", help="Look into the folders of a folder too.")]
NegativeIsMissing = Annotated[
    bool,
    typer.Option("--negative-is-missing", help="TPS files: points whose coordinates are all negative were not seen."),
]
Curves = Annotated[bool, typer.Option("--curves", help="TPS files: use the points of curves as landmarks too.")]

# -- method --
MethodName = Annotated[MethodChoice | None, typer.Option(help="Family of warps.  [kernel]")]
Bandwidth = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|auto",
        help="Kernel warps: width of the kernel, in mean distances between points of a cloud.  [auto: chosen by "
        "leave-one-out residuals]",
    ),
]
Smoothing = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|auto",
        help="Kernel and tps warps: weight of the penalty on departures from an affine function.  [auto: chosen by "
        "leave-one-out residuals]",
    ),
]
Kernel = Annotated[str | None, typer.Option(help=f"Kernel warps, one of {', '.join(KERNELS)}.  [gaussian]")]
ControlPoints = Annotated[int | None, typer.Option(help="Tps warps: number of control points along each axis.  [5]")]
Inducing = Annotated[
    int | None,
    typer.Option(help="Kernel warps: number of points of each cloud that are kernel centres; saves memory.  [all]"),
]
Scaling = Annotated[bool | None, typer.Option(help="Rigid motions: also estimate a size factor for each cloud.")]
Modes = Annotated[
    str | None, typer.Option(help="How the map is computed: auto, paper, program, or a number of eigenvectors.  [auto]")
]
Robust = Annotated[
    str | None,
    typer.Option(
        help="Down-weight wrong matches by this loss: huber, tukey, geman-mcclure, none, or auto, which decides by "
        "the residuals.  [kernel auto, others none]"
    ),
]
Mirrored = Annotated[
    str | None,
    typer.Option(help="Clouds that are mirror images of the others: leave-out, keep or error.  [leave-out]"),
]
Tune = Annotated[bool | None, typer.Option("--tune", help="Choose bandwidth and smoothing by cross-validation.")]
Folds = Annotated[int | None, typer.Option(help="Number of folds of the cross-validation.  [10]")]
Jobs = Annotated[
    int | None,
    typer.Option(help="Number of clouds (with --tune: settings) computed in parallel; -1: one per core.  [automatic]"),
]

# -- output --
Attributes = Annotated[
    Path | None,
    typer.Option("--metadata", metavar="CSV", help="A table with one row per cloud: species, sex, age, ..."),
]
Links = Annotated[Path | None, typer.Option(help="Lines to draw between landmarks: two labels or numbers per row.")]
Procrustes = Annotated[
    str | None,
    typer.Option(
        help="Coordinates of aligned.csv: registered (in the unit of the data), partial (unit centroid size, as "
        "gpagen before projection) or full (also scaled to the mean shape).  [registered]"
    ),
]
ResultFolder = Annotated[Path, typer.Option("--output", "-o", help="The result folder to write.")]
Unit = Annotated[str | None, typer.Option(help="Unit of the coordinates, if the files do not contain it.")]
Title = Annotated[str | None, typer.Option(help="Title of the report.  [name of the result folder]")]
Config = Annotated[
    Path | None, typer.Option(help="A settings.toml to read options from; options given here override it.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the traceback of an error.")]
