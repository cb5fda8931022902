"""Results for people and programs: the report page, ``summary.json`` and the result folder.

In:   a fitted estimator and its :class:`Metadata`.
Out:  the page as one self-contained HTML text (``render``), the summary (``summarise``), and a result folder with both,
      the map, the poses and the model (``save``; ``load`` returns the estimator of such a folder).
Equations of docs/theory.md: none; the errors shown are those of section 13, and :class:`Assessment` computes them once.
"""

from .data import PageLimits
from .metadata import Metadata
from .page import render, stylesheet
from .summary import Assessment, Summary, summarise

__all__ = ["Assessment", "Metadata", "PageLimits", "Summary", "render", "stylesheet", "summarise"]
