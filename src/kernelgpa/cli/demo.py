"""``kernelgpa demo`` and ``kernelgpa simulate``: data with the truth, for a first look."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from .. import plotting, simulate
from ..estimators import TPSGPA, AffineGPA, KernelGPA, RigidGPA
from ..io.atomic import require_writable, require_writable_file, write_bytes
from ..io.base import Contents, Specimen, counted
from ..io.files import fitted_to, suffix_of, write
from ..report.result_folder import PICTURE, About, require_replaceable, save
from ..streaming import frames
from ..trust import metrics
from .common import Verbose, app, say, spoken_warnings

FRAMES = ".jsonl"


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The result folder.")] = Path("kernelgpa-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another scene.")] = 0,
    verbose: Verbose = False,
) -> None:
    """Register a simulated liver that bends while a sensor circles it.

    Twelve clouds, each seeing about 70 % of 150 landmarks with 0.5 mm noise; the table compares four kinds of warp on
    all 2002 points of the surface.  The folder holds the registration by kernel warps: open its report.html.

    Examples:

        kernelgpa demo

        kernelgpa demo --seed 3 --output liver
    """
    require_replaceable(output)
    require_writable(output)
    with spoken_warnings():
        _demo(output, seed)


def _demo(output: Path, seed: int) -> None:
    scene = simulate.liver(clouds=12, landmarks=150, bend=8.0, hidden=0.3, noise=0.5, seed=seed)
    methods = {"rigid": RigidGPA(), "affine": AffineGPA(), "thin-plate": TPSGPA(), "kernel": KernelGPA()}
    table = Table("warps", title="12 clouds of a bending liver, 150 landmarks, 30 % unseen")
    for heading in ("disagreement", "worst point", "sensor error", "map error", "time"):
        table.add_column(heading, justify="right")
    panels = {"as measured": scene.points}
    kernel = methods["kernel"]
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
    about = About(title=f"demo: a bending liver, seed {seed}", unit="mm")
    save(kernel, output, about, _picture(plotting.side_by_side(panels, unit="mm")))
    console = Console()
    console.print(table)
    console.print("disagreement: how far the clouds' images of a surface point lie apart", style="dim")
    console.print("sensor error: the same in the clouds' own frames, against the mean of the others", style="dim")
    console.print("map error: how far the map is from the true liver, rigidly aligned", style="dim")
    console.print(f"report: {output / 'report.html'}", soft_wrap=True)
    console.print(f"picture: {output / PICTURE}", soft_wrap=True)


def _picture(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


@app.command(name="simulate")
def simulate_liver(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file of the landmarks, of any format, or frames.jsonl.")
    ],
    clouds: Annotated[int, typer.Option(help="How many.")] = 12,
    landmarks: Annotated[int, typer.Option(help="How many, up to one a vertex.")] = 150,
    bend: Annotated[float, typer.Option(help="Root mean square displacement, in mm.")] = 8.0,
    hidden: Annotated[float, typer.Option(help="The share of the observations that is not seen.")] = 0.3,
    noise: Annotated[float, typer.Option(help="In mm.")] = 0.5,
    wrong: Annotated[float, typer.Option(help="The share of the observations that are exchanged.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another scene.")] = 0,
    truth: Annotated[Path | None, typer.Option(help="Where the undeformed landmarks go.")] = None,
    surface: Annotated[
        Path | None, typer.Option(help="Where all points of the surface go, as each cloud has them.")
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Simulate clouds of a liver that bends while a sensor circles it.

    Examples:

        kernelgpa simulate -o scans.csv --truth truth.csv --surface surface.npz

        kernelgpa simulate -o scans.csv --clouds 60 --landmarks 201 --hidden 0.5 --wrong 0.1

        kernelgpa simulate -o frames.jsonl --clouds 60        (for kernelgpa stream)
    """
    as_frames = output.suffix.lower() == FRAMES
    for path in (None if as_frames else output, truth, surface):
        if path is not None:
            suffix_of(path)
    for path in (output, truth, surface):
        if path is not None:
            require_writable_file(path)
    scene = simulate.liver(clouds=clouds, landmarks=landmarks, bend=bend, hidden=hidden, noise=noise, seed=seed)
    points = simulate.exchanged(scene.points, wrong, seed)[0] if wrong else scene.points
    (_write_frames if as_frames else _write)(output, points)
    if truth is not None:
        _write(truth, scene.template[None])
    if surface is not None:
        _write(surface, scene.surfaces)


def _write(path: Path, points: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    labels = counted(points.shape[1])
    specimens = tuple(Specimen(f"cloud{t + 1}", own, labels) for t, own in enumerate(points))
    held, lost = fitted_to(Contents(specimens, labelled=True, unit="mm"), suffix_of(path))
    for one in lost:
        say(f"note: {path}: {one}")
    write(path, held)
    typer.echo(str(path))


def _write_frames(path: Path, points: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    """One cloud a line, as it would come from the sensor; its time is its number."""
    labels = counted(points.shape[1])
    lines = [frames.render(t, float(t), labels, own) for t, own in enumerate(points)]
    write_bytes(path, "".join(lines).encode())
    typer.echo(str(path))
