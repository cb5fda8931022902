"""Seeded scenes with the truth returned."""

from .liver import Simulation, liver, liver_mesh

__all__ = ["Simulation", "liver", "liver_mesh"]
