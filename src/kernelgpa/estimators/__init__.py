"""RigidGPA, AffineGPA, TPSGPA and KernelGPA: what users construct, and ``fit``.

In:   whatever the user calls point clouds.
Out:  a fitted estimator: map, poses, warps, residuals.
``fit`` calls the other packages in the order of the algorithm: screen, reduce, sum, spectrum, gauge, reweight.  It
implements equation 3 of docs/theory.md by the equations of those packages; robust weights rest on equation 17.
``predict`` and ``impute`` use the warps of equations 21 and 22.
"""

from .models import TPSGPA, AffineGPA, KernelGPA
from .rigid import RigidGPA

__all__ = ["TPSGPA", "AffineGPA", "KernelGPA", "RigidGPA"]
