"""The methods of the experiments on the data of a folder: the authors' published files, real faces, or any others.

In:   a folder.
Out:  one outcome per data set (``registration``), and what could not be read (``data_folder``).
Equations of docs/theory.md: none.
"""

from .registration import outcome_of, require_data, run

__all__ = ["outcome_of", "require_data", "run"]
