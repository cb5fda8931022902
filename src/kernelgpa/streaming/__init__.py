"""Clouds that are added and dropped one at a time: the back-end of a live system.

In:   clouds with landmark ids and measured motions, from Python or as lines of JSON (``kernelgpa stream``).
Out:  after each update the map of a batch fit to the same clouds, in a frame that does not jump, with poses and events.
Equations of docs/theory.md: 19 (measured motions), and section 16.
"""

from .estimator import StreamingGPA
from .odometry import Measured
from .results import Update

__all__ = ["Measured", "StreamingGPA", "Update"]
