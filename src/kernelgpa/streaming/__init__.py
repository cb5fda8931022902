"""Clouds one at a time: the back-end of a live system."""

from .estimator import StreamingGPA, Update
from .motions import Measured

__all__ = ["Measured", "StreamingGPA", "Update"]
