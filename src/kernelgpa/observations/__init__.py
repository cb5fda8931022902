"""What each cloud saw: checked once, then read-only.

In:   arrays with NaN, (points, ids) pairs, weights, as users have them.
Out:  ``Observations`` with one ``Cloud`` per cloud, and the same clouds stacked in arrays over all landmarks; whether
      the clouds are connected.
Equations of docs/theory.md: 4 (the frame of a cloud); connectivity (section 12).
"""

from .cloud import Cloud
from .collection import Observations, as_observations

__all__ = ["Cloud", "Observations", "as_observations"]
