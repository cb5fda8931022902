"""Frames as lines of JSON: the interface of a stream to other programs, which ``kernelgpa stream`` runs.

In:   lines of a file that grows or of a pipe (``input_lines``), each a frame, a drop or the end (``json_lines``).
Out:  one report per update (``pipeline``), growing files (``output_files``) and a page for a browser (``live_view``).
Equations of docs/theory.md: none.
"""

from .json_lines import Drop, End, FrameLine, FrameName, StatedMotion, parse, render

__all__ = ["Drop", "End", "FrameLine", "FrameName", "StatedMotion", "parse", "render"]
