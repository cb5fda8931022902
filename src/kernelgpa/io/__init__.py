"""Files: one reader and one writer per format, matched landmarks, and saved models.

In:  files of landmarks, meshes or markups, by name (``read``, ``read_clouds``; the formats are listed in ``FORMATS``).
Out: :class:`LandmarkFile`, one file as it is; :class:`MatchedClouds`, several files with one set of landmarks, ready to
be registered.  A fitted estimator becomes the bytes of a model file and comes back (``model_file``); every file and
folder is written atomically (``atomic``).  No equations live here.
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
