"""A user's program that mypy checks in strict mode (tests/test_release.py), and that runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kernelgpa
from kernelgpa import (
    DegenerateCloud,
    Finding,
    KernelGPA,
    RigidGPA,
    ShapeModel,
    StreamingGPA,
    io,
    metrics,
    selection,
    simulate,
)


def register(points: NDArray[np.float64]) -> KernelGPA:
    """Kernel warps of all clouds, or an error that names the cloud."""
    try:
        return KernelGPA(bandwidth=0.5, smoothing=0.1, robust=None).fit(points)
    except DegenerateCloud as error:
        raise SystemExit(str(error)) from error


def severe(gpa: KernelGPA, least: float) -> list[Finding]:
    return [finding for finding in gpa.diagnose() if finding.severity >= least]


def main(folder: Path) -> float:
    scene = simulate.liver(clouds=6, landmarks=40, noise=0.5, hidden=0.2)
    gpa = register(scene.points)
    size: float = float(np.linalg.norm(gpa.map_))
    first: NDArray[np.float64] = gpa.transform(scene.surfaces[0], cloud=0)
    back = gpa.inverse_transform(first[:5], cloud=0)
    filled = gpa.impute()
    rigid = RigidGPA(scaling=True).fit(scene.points)
    model = ShapeModel().fit(scene.points)
    validation = selection.cross_validate(RigidGPA(), scene.points, folds=4)
    stream = StreamingGPA(bandwidth=0.5, smoothing=0.1)
    for cloud in filled[:4]:
        stream.add(cloud, ids=range(len(cloud)))
    stream.update()
    labels = tuple(map(str, gpa.observations_.landmarks))
    clouds = tuple(io.LabelledCloud(f"cloud {t}", points, labels) for t, points in enumerate(filled))
    io.write(folder / "filled.csv", io.LandmarkFile(clouds, labelled=True))
    kernelgpa.save(gpa, folder / "out")
    loaded = kernelgpa.load(folder / "out")
    shapes = [rigid.map_.shape, model.mean_.shape, back.shape, stream.map_.shape, loaded.map_.shape]
    assert all(len(shape) == 2 for shape in shapes)
    assert len(severe(gpa, 2.0)) == 0
    assert validation is not None
    return size + float(metrics.consistency(gpa.transform_clouds(scene.surfaces)).mean())


if __name__ == "__main__":
    main(Path.cwd())
