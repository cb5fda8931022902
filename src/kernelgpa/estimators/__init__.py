"""RigidGPA, AffineGPA, TPSGPA and KernelGPA: what users construct, and ``fit``.

In:   an array, (points, ids) pairs, a table or ``Observations``, and weights.
Out:  a fitted estimator: map, poses, warps, residuals.
Equations of docs/theory.md: 3 (the fit), by those of the other packages; 17 (robust weights), 20 to 22 (automatic
settings, ``predict`` and ``impute``).

``fit`` calls the other packages in the order of the algorithm: screen, reduce, sum, spectrum, gauge, reweight.
"""

from .models import TPSGPA, AffineGPA, KernelGPA
from .rigid import RigidGPA

__all__ = ["TPSGPA", "AffineGPA", "KernelGPA", "RigidGPA"]
