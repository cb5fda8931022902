"""The command line: parse, call the library once, write."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from . import (
    TPSGPA,
    AffineGPA,
    InvalidSetting,
    KernelGPA,
    KernelGPAError,
    RigidGPA,
    __version__,
    metrics,
    plotting,
    simulate,
)

PICTURES = (".png", ".pdf", ".svg")

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


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
    """


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the picture goes.")] = Path(
        "kernelgpa-demo.png"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another scene.")] = 0,
) -> None:
    """Register a simulated liver that bends while a sensor circles it.

    Twelve clouds, each seeing about 70 % of 150 landmarks with 0.5 mm noise; the table compares four
    kinds of warp on all 2002 points of the surface, the picture shows the clouds before and after.

    Examples:

        kernelgpa demo

        kernelgpa demo --seed 3 --output liver.png
    """
    if output.suffix.lower() not in PICTURES or output.is_dir():
        raise InvalidSetting(f"{str(output)!r} is no picture file; expected a name that ends in {', '.join(PICTURES)}")
    scene = simulate.liver(clouds=12, landmarks=150, bend=8.0, hidden=0.3, noise=0.5, seed=seed)
    methods = {"rigid": RigidGPA(), "affine": AffineGPA(), "thin-plate": TPSGPA(), "kernel": KernelGPA()}
    table = Table("warps", title="12 clouds of a bending liver, 150 landmarks, 30 % unseen")
    for heading in ("disagreement", "worst point", "sensor error", "map error", "time"):
        table.add_column(heading, justify="right")
    panels = {"as measured": scene.points}
    for name, method in methods.items():
        begun = time.perf_counter()
        method.fit(scene.points)
        seconds = time.perf_counter() - begun
        surface = method.transform_clouds(scene.surfaces)
        delta = metrics.consistency(surface)
        error = metrics.map_error(method.map_, scene.template)
        sensor = metrics.sensor_error(surface, method.jacobians(scene.surfaces)).mean()
        lengths = [f"{length:.2f} mm" for length in (delta.mean(), delta.max(), sensor, error)]
        table.add_row(name, *lengths, f"{seconds:.2f} s")
        if name in ("rigid", "kernel"):
            panels[f"{name}: surface {delta.mean():.1f} mm apart"] = method.transform_clouds(scene.points)
    _save(plotting.side_by_side(panels, unit="mm"), output)
    console = Console()
    console.print(table)
    console.print("disagreement: how far the clouds' images of a surface point lie apart", style="dim")
    console.print("sensor error: the same in the clouds' own frames, against the mean of the others", style="dim")
    console.print("map error: how far the map is from the true liver, rigidly aligned", style="dim")
    console.print(f"picture: {output}", soft_wrap=True)


def _save(figure: Figure, path: Path) -> None:
    """The whole picture or none: written beside its place, then moved there."""
    part = path.with_name(f".{path.name}.part")
    try:
        figure.savefig(part, format=path.suffix[1:].lower())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def main() -> None:
    """Run a command; a known error is one line and exit code 2."""
    try:
        app()
    except (KernelGPAError, OSError) as error:
        typer.echo(f"kernelgpa: {error}", err=True)
        sys.exit(2)
