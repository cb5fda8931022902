"""Simulated scenes whose truth is known.

In:   sizes, noise, visibility and a seed; the same seed gives the same scene.
Out:  a :class:`Simulation`: the points that each cloud measured, (n, m, d) in mm with NaN if unseen, and the truth: the
      undeformed template, all vertices in each cloud's frame, and the poses of the sensors.
Equations of docs/theory.md: none; each module states the geometry of its own body.

``liver``, ``face``, ``ct``, ``sheet``, ``bending_sheet``, ``walker`` and ``specimens`` make scenes; ``exchanged`` adds
wrong matches.
"""

from .ct import SEEN_IN, Scans, ct, lungs_mesh
from .face import Faces, face, head_mesh
from .liver import liver, liver_mesh
from .mismatches import exchanged
from .sheet import Views, bending_sheet, sheet, sheet_mesh
from .simulation import Simulation
from .specimens import Specimens, specimens
from .walker import walker

__all__ = [
    "SEEN_IN",
    "Faces",
    "Scans",
    "Simulation",
    "Specimens",
    "Views",
    "bending_sheet",
    "ct",
    "exchanged",
    "face",
    "head_mesh",
    "liver",
    "liver_mesh",
    "lungs_mesh",
    "sheet",
    "sheet_mesh",
    "specimens",
    "walker",
]
