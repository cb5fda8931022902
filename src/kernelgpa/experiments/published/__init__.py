"""The methods of the experiments on the data of a folder: the authors' published files, real faces, or any others.

Enters: a folder.  Leaves: one outcome per data set (``registration``), and what could not be read (``data_folder``).
"""

from .registration import outcome_of, require_data, run

__all__ = ["outcome_of", "require_data", "run"]
