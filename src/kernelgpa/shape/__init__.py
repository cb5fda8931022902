"""ShapeModel: how the landmarks of many clouds move together, learned from clouds that saw only some of them.

In:   clouds, or a fitted registration.
Out:  mean shape, modes, scores, sizes, distances; unseen landmarks with calibrated covariances.
Equations of docs/theory.md: 23 to 28; ``gaussian`` states them.

The steps are: align the clouds (``alignment``), learn mean and covariance (``learning``) in a space of all landmarks
(``spaces``), choose the settings and calibrate by cross-fitting (``cross_fitting``).
"""

from .model import ShapeModel

__all__ = ["ShapeModel"]
