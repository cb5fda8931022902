"""Seeded scenes with the truth returned."""

from .liver import Simulation, liver, liver_mesh
from .mismatch import exchanged

__all__ = ["Simulation", "exchanged", "liver", "liver_mesh"]
