"""Seeded scenes with the truth returned."""

from .ct import SEEN_IN, Scans, ct, lungs_mesh
from .face import Faces, face, head_mesh
from .liver import liver, liver_mesh
from .mismatch import exchanged
from .sheet import Views, sheet, sheet_mesh
from .simulation import Simulation

__all__ = [
    "SEEN_IN",
    "Faces",
    "Scans",
    "Simulation",
    "Views",
    "ct",
    "exchanged",
    "face",
    "head_mesh",
    "liver",
    "liver_mesh",
    "lungs_mesh",
    "sheet",
    "sheet_mesh",
]
