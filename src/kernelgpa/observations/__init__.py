"""What each cloud saw: checked once, then read-only.

In:   arrays with NaN, (points, ids) pairs, weights, as users have them.
Out:  ``Observations`` with one ``Cloud`` per cloud, and the same clouds stacked in arrays over all landmarks.
Also: the frame of each cloud (theory, eq. 4) and whether the clouds are connected by shared landmarks
      (theory, section 12).
"""

from .cloud import Cloud
from .collection import Observations, as_observations

__all__ = ["Cloud", "Observations", "as_observations"]
