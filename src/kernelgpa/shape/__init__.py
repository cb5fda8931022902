"""ShapeModel: how the landmarks of many clouds move together, learned from clouds that saw only some of them.

In:   clouds, or a fitted registration.
Out:  mean shape, modes, scores, sizes, distances; unseen landmarks with calibrated covariances.
The steps are: align the clouds (``alignment``), learn mean and covariance (``learning``) in a space of all landmarks
(``spaces``), choose the settings and calibrate by cross-fitting (``cross_fitting``).  The equations are 23 to 28 of
docs/theory.md; ``gaussian`` states them.
"""

from .model import ShapeModel

__all__ = ["ShapeModel"]
