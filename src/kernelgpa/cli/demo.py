"""``kernelgpa demo`` and ``kernelgpa simulate``: simulated data with known truth, for a first look."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from .. import plotting, simulate
from ..estimators import TPSGPA, AffineGPA, KernelGPA, RigidGPA
from ..estimators.base import GPA
from ..io.atomic import require_writable, require_writable_file, write_bytes
from ..io.files import drop_unsupported, suffix_of, write
from ..io.landmark_file import LabelledCloud, LandmarkFile, numbered_labels
from ..report.metadata import Metadata
from ..report.result_folder import PICTURE, require_replaceable, save
from ..simulate import Simulation
from ..streaming import frames
from ..trust import metrics
from ..typing import Array
from . import options
from .app import app
from .messages import print_message, printed_warnings

FRAMES_SUFFIX = ".jsonl"
EXPLANATIONS = (
    "disagreement: distance between a surface point's images in the map and their mean, over the clouds",
    "unseen landmarks: mean error of their predicted positions, in each cloud's own frame",
    "sensor-frame error: distance to the mean of the other clouds, in each cloud's own frame",
    "map error: distance between the map and the true liver, after rigid alignment",
)


@dataclass(frozen=True)
class Comparison:
    """How well one kind of warp registers the simulated liver; lengths in mm."""

    disagreement: float
    unseen_error: float
    sensor_error: float
    map_error: float
    seconds: float

    @classmethod
    def of(cls, gpa: GPA, scene: Simulation) -> Comparison:
        """Fit the estimator and compare all points of the surface."""
        start = time.perf_counter()
        gpa.fit(scene.points)
        seconds = time.perf_counter() - start
        surface = gpa.transform_clouds(scene.surfaces)
        unseen = np.isnan(scene.points[:, :, 0])
        errors = np.linalg.norm((gpa.impute() - scene.surfaces[:, scene.landmarks])[unseen], axis=1)
        return cls(
            disagreement=float(metrics.consistency(surface).mean()),
            unseen_error=float(errors.mean()),
            sensor_error=float(metrics.sensor_error(surface, gpa.jacobians(scene.surfaces)).mean()),
            map_error=metrics.map_error(gpa.map_, scene.template),
            seconds=seconds,
        )


@app.command()
def demo(
    output: options.ResultFolder = Path("kernelgpa-demo"),
    seed: options.Seed = 0,
    verbose: options.Verbose = False,
) -> None:
    """Register a simulated liver with four families of warps.

    Each of 12 clouds sees about 70 % of 150 landmarks, with 0.5 mm noise.  The table compares four kinds of warp, each
    with default settings, on all 2002 points of the liver's surface and on the landmarks that a cloud did not see.  The
    result folder holds the registration by kernel warps: open its report.html in a browser.

    Examples:

        kernelgpa demo

        kernelgpa demo --seed 3 --output liver
    """
    require_replaceable(output)
    require_writable(output)
    with printed_warnings():
        scene = simulate.liver(clouds=12, landmarks=150, bend=8.0, hidden=0.3, noise=0.5, seed=seed)
        methods = {"rigid": RigidGPA(), "affine": AffineGPA(), "thin-plate": TPSGPA(), "kernel": KernelGPA()}
        compared = {name: Comparison.of(gpa, scene) for name, gpa in methods.items()}
        panels = {"as measured": scene.points}
        for name in ("rigid", "kernel"):
            title = f"{name}: disagreement {compared[name].disagreement:.1f} mm"
            panels[title] = methods[name].transform_clouds(scene.points)
        surface = methods["kernel"].transform_clouds(scene.surfaces).mean(axis=0), scene.faces
        metadata = Metadata(
            title=f"demo: a deforming liver, seed {seed}", unit="mm", surface=surface, from_command_line=True
        )
        save(methods["kernel"], output, metadata, _png(plotting.side_by_side(panels, unit="mm")))
    console = Console()
    console.print(_table(compared))
    for text in EXPLANATIONS:
        console.print(text, style="dim")
    console.print(f"report: {output / 'report.html'}", soft_wrap=True)
    console.print(f"picture: {output / PICTURE}", soft_wrap=True)


def _table(compared: dict[str, Comparison]) -> Table:
    table = Table("warps", title="12 clouds of a deforming liver, 150 landmarks, 30 % of the observations hidden")
    for heading in ("disagreement", "unseen landmarks", "sensor-frame error", "map error", "time"):
        table.add_column(heading, justify="right")
    for name, one in compared.items():
        lengths = (one.disagreement, one.unseen_error, one.sensor_error, one.map_error)
        table.add_row(name, *(f"{length:.2f} mm" for length in lengths), f"{one.seconds:.2f} s")
    return table


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


# -- simulate --

SimulatedFile = Annotated[
    Path, typer.Option("--output", "-o", help="The file of landmarks, in any supported format, or frames.jsonl.")
]
Hidden = Annotated[float, typer.Option(help="Share of the observations that are not seen, 0 to 1.")]
Wrong = Annotated[float, typer.Option(help="Share of the observations that are exchanged with others, 0 to 1.")]
TruthFile = Annotated[Path | None, typer.Option(help="A file for the undeformed landmarks.")]
SurfaceFile = Annotated[Path | None, typer.Option(help="A file for all points of the surface, in each cloud's frame.")]


@app.command(name="simulate")
def simulate_liver(
    output: SimulatedFile,
    clouds: Annotated[int, typer.Option(help="Number of clouds.")] = 12,
    landmarks: Annotated[int, typer.Option(help="Number of landmarks, at most one per vertex.")] = 150,
    bend: Annotated[float, typer.Option(help="Root mean square displacement by the deformation, in mm.")] = 8.0,
    hidden: Hidden = 0.3,
    noise: Annotated[float, typer.Option(help="Standard deviation of the noise, in mm.")] = 0.5,
    wrong: Wrong = 0.0,
    seed: options.Seed = 0,
    truth: TruthFile = None,
    surface: SurfaceFile = None,
    verbose: options.Verbose = False,
) -> None:
    """Write the clouds of a simulated liver that deforms.

    Examples:

        kernelgpa simulate -o scans.csv --truth truth.csv --surface surface.npz

        kernelgpa simulate -o scans.csv --clouds 60 --landmarks 201 --hidden 0.5 --wrong 0.1

        kernelgpa simulate -o frames.jsonl --clouds 60        (for kernelgpa stream)
    """
    as_frames = output.suffix.lower() == FRAMES_SUFFIX
    for path in (None if as_frames else output, truth, surface):
        if path is not None:
            suffix_of(path)  # an error if there is no such format
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


def _write(path: Path, points: Array) -> None:  # (n, m, d)
    labels = numbered_labels(points.shape[1])
    clouds = tuple(LabelledCloud(f"cloud{t + 1}", own, labels) for t, own in enumerate(points))
    held, losses = drop_unsupported(LandmarkFile(clouds, labelled=True, unit="mm"), suffix_of(path))
    for loss in losses:
        print_message(f"note: {path}: {loss}")
    write(path, held)
    typer.echo(str(path))


def _write_frames(path: Path, points: Array) -> None:  # (n, m, d)
    """One cloud per line, as a sensor would deliver it; its time is its number."""
    labels = numbered_labels(points.shape[1])
    lines = [frames.render(t, float(t), labels, own) for t, own in enumerate(points)]
    write_bytes(path, "".join(lines).encode())
    typer.echo(str(path))
