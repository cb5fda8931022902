"""The command line: each command parses its options, calls the library once, and writes what it returns.

In:   arguments and files.
Out:  results on standard output and as files, messages on standard error.
Equations of docs/theory.md: none.

``app`` runs the commands and is the only module that exits; ``options``, ``settings`` and ``messages`` are what the
commands share.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from . import convert, demo, register, reproduce, shape, stream, tune, warp
from .app import app, main

__all__ = ["app", "convert", "demo", "main", "register", "reproduce", "shape", "stream", "tune", "warp"]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kernelgpa {version('kernelgpa')}")
        raise typer.Exit


@app.callback()
def kernelgpa(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Register many deformed, partly seen point clouds with known correspondences into one frame.

    To begin, try:

        kernelgpa demo

        kernelgpa register scans/*.mrk.json -o out
    """
