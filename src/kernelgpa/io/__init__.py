"""Files: one reader and one writer per format, matched landmarks, and saved models.

In:   files of landmarks, meshes or markups, by name (``read``, ``read_clouds``; ``FORMATS`` lists the formats).
Out:  :class:`LandmarkFile`, one file as it is; :class:`MatchedClouds`, several files with one set of landmarks, ready
      to be registered; the bytes of a fitted estimator (``model_file``).  Files are written atomically (``atomic``).
Equations of docs/theory.md: none.
"""

from .files import FORMATS, read, read_clouds, write
from .landmark_file import LabelledCloud, LandmarkFile, ReadOptions
from .matching import MatchedClouds, match_clouds

__all__ = [
    "FORMATS",
    "LabelledCloud",
    "LandmarkFile",
    "MatchedClouds",
    "ReadOptions",
    "match_clouds",
    "read",
    "read_clouds",
    "write",
]
