"""The problem that a fit solves: which clouds and landmarks take part, and the initial estimate.

In:   checked ``Observations``.
Out:  a ``Problem``, with warnings about data that look wrong: mirror images, other units, unshared landmarks.
Equations of docs/theory.md: section 12.
"""

from .problem import Problem, problem_of

__all__ = ["Problem", "problem_of"]
