"""``kernelgpa reproduce``: the paper's experiments."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..experiments import EXPERIMENTS
from ..experiments import reproduce as run
from .common import AsJson, Verbose, app, print_json, printable, spoken_warnings

Experiment = StrEnum("Experiment", [*EXPERIMENTS, "all"])  # type: ignore[misc]


@app.command()
def reproduce(
    names: Annotated[list[Experiment], typer.Argument(help="liver, face, ct, scales or all.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of tables, figures and the page.")] = Path(
        "experiments"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer clouds, landmarks and trials: some minutes.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="A folder of published data, or your own, to run the same methods on too.")
    ] = None,
    paper: Annotated[
        Path | None,
        typer.Option(help="A folder of tables (CSV) named like ours, with the paper's numbers, to stand below ours."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another scene.")] = 0,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run the paper's experiments on simulated data and write tables, figures and a page.

    The page says which claims of the paper, and of this project, hold on these data.

    Examples:

        kernelgpa reproduce liver --quick -o experiments

        kernelgpa reproduce all -o experiments

        kernelgpa reproduce scales --quick --data handbag -o experiments

        kernelgpa reproduce liver --paper typed -o experiments
    """
    with spoken_warnings():
        page, outcomes = run([str(name) for name in names], output, quick, seed, data, paper)
    if as_json:
        print_json([{"text": one.text, "holds": one.holds, "found": one.found} for o in outcomes for one in o.claims])
        return
    for outcome in outcomes:
        for claim in outcome.claims:
            typer.echo(printable(str(claim)))
        for note in outcome.notes:
            typer.echo(printable(note))
    typer.echo(f"page: {page}")
