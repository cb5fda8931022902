"""The files of a result folder, and observations to fill one with."""

from __future__ import annotations

import numpy as np

from conftest import scene
from kernelgpa import Observations

FILES = [
    *("aligned.csv", "clouds.csv", "findings.csv", "landmarks.csv", "map.csv", "map.ply", "model.npz"),
    *("poses.kitti", "poses.tum", "report.html", "settings.toml", "summary.json", "suspicious.csv"),
]


def observations(d=3):
    points = scene(n=6, m=40, d=d, noise=0.01, seed=5)[0]
    return Observations.from_array(
        points,
        clouds=[f"cloud {t}" for t in range(6)],
        landmarks=["höhe", *range(1, 40)],
        weights=np.linspace(1, 2, 40),
    )
