"""A small scene of each simulated body, and its clouds in the frame of the world."""

from __future__ import annotations

import numpy as np

from kernelgpa import simulate

EPS = np.finfo(float).eps
FEW = {2: 20, 3: 30, 4: 10}
SMALL = {
    "liver": lambda **more: simulate.liver(**{"clouds": 5, "landmarks": 40, "vertices": 302, "noise": 0.5, **more}),
    "face": lambda **more: simulate.face(**{"landmarks": 60, "vertices": 1002, "noise": 0.5, **more}),
    "ct": lambda **more: simulate.ct(**{"clouds": 4, "seen_in": FEW, "vertices": 602, "noise": 0.5, **more}),
    "sheet": lambda **more: simulate.sheet(**{"clouds": 4, "landmarks": 40, "spacing": 10.0, "noise": 0.5, **more}),
    "bending sheet": lambda **more: simulate.bending_sheet(**{"clouds": 4, "landmarks": 40, "noise": 0.5, **more}),
    "walker": lambda **more: simulate.walker(**{"clouds": 5, "noise": 0.5, **more}),
    "specimens": lambda **more: simulate.specimens(
        **{"clouds": 5, "landmarks": 40, "placeholders": 0, "noise": 0.5, **more}
    ),
}


def in_world_frame(scene):
    """All vertices of all clouds, transformed to the world by the true poses."""
    return np.einsum("nvi,nji->nvj", scene.surfaces, scene.rotations) + scene.translations[:, None]
