"""Clouds one at a time: the back-end of a live system."""

from .estimator import Measured, StreamingGPA, Update

__all__ = ["Measured", "StreamingGPA", "Update"]
