"""``kernelgpa reproduce``: the paper's experiments."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..experiments import EXPERIMENTS
from ..experiments import reproduce as run_experiments
from . import options
from .app import app
from .messages import print_json, printable, printed_warnings

Experiment = StrEnum("Experiment", [*EXPERIMENTS, "all"])  # type: ignore[misc]
Names = Annotated[list[Experiment], typer.Argument(help="liver, face, ct, scales or all.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The folder for tables, figures and the page.")]
Quick = Annotated[bool, typer.Option("--quick", help="Use fewer clouds, landmarks and trials; takes a few minutes.")]
Data = Annotated[
    Path | None, typer.Option(help="A folder of data, published or your own, on which the same methods run as well.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Keep the experiments that earlier runs into the same folder finished.")
]


@app.command()
def reproduce(
    names: Names,
    output: Output = Path("experiments"),
    quick: Quick = False,
    data: Data = None,
    resume: Resume = False,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Run the paper's experiments and write tables and figures.

    The page prints the paper's numbers below ours and lists which claims of the paper, and of this project, hold.  The
    folder is written after each experiment.

    Examples:

        kernelgpa reproduce liver --quick -o experiments

        kernelgpa reproduce all -o experiments

        kernelgpa reproduce scales --quick --data handbag -o experiments
    """
    with printed_warnings():
        page, outcomes = run_experiments(
            [str(name) for name in names], output, quick, seed, data, resume, report=_print_progress
        )
    if as_json:
        claims = [claim for outcome in outcomes for claim in outcome.claims]
        print_json([{"text": one.text, "holds": one.holds, "found": one.found} for one in claims])
        return
    for outcome in outcomes:
        for line in (*outcome.claims, *outcome.notes):
            typer.echo(printable(str(line)))
    typer.echo(f"page: {page}")


def _print_progress(line: str) -> None:
    typer.echo(line, err=True)
