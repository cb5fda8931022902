"""What each cloud saw.

In:   arrays with NaN, (points, ids) pairs, weights, as the user has them.
Out:  ``Observations``, checked once and read-only, and the same clouds stacked in arrays.
Also: the frame of each cloud (theory, eq. 4) and whether the clouds are connected by shared landmarks
      (theory, section 8).
"""

from .cloud import Cloud
from .collection import Observations, as_observations

__all__ = ["Cloud", "Observations", "as_observations"]
