"""Files of landmarks, meshes and poses: one reader and one writer a format."""

from .base import Contents, Reading, Specimen
from .files import FORMATS, read, read_clouds, write
from .matching import Gathered, gather

__all__ = ["FORMATS", "Contents", "Gathered", "Reading", "Specimen", "gather", "read", "read_clouds", "write"]
