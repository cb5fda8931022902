"""The command line: parse, call the library once, write.  Results go to standard output, words to standard error."""

from __future__ import annotations

from typing import Annotated

import typer

from ..version import __version__
from . import convert, demo, register, reproduce, stream, tune, warp
from .common import app, main

__all__ = ["app", "convert", "demo", "main", "register", "reproduce", "stream", "tune", "warp"]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kernelgpa {__version__}")
        raise typer.Exit


@app.callback()
def kernelgpa(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Register many deformed, partly seen point clouds with known correspondences into one frame.

    Start with:

        kernelgpa demo

        kernelgpa register scans/*.mrk.json -o out
    """
