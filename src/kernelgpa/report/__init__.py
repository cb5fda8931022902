"""Results for people and programs: the report page, ``summary.json`` and the result folder.

A fitted estimator and its :class:`Metadata` enter.  ``render`` returns the page as one self-contained HTML text,
``summarise`` the summary, ``save`` writes both into a result folder with the map, the poses and the model, and ``load``
returns the estimator of such a folder.  The errors that are shown are the consistency (theory, section 13) and
the same in the clouds' own frames; :class:`Assessment` computes them once for all outputs.
"""

from .data import PageLimits
from .metadata import Metadata
from .page import render, stylesheet
from .summary import Assessment, Summary, summarise

__all__ = ["Assessment", "Metadata", "PageLimits", "Summary", "render", "stylesheet", "summarise"]
