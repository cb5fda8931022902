"""The cost of a map, summed over all clouds, and its bottom eigenpairs.

In:   reduced clouds.
Out:  a cost operator tr(M' Q M), dense, low-rank or matrix-free, which solves systems with Q and finds its bottom
      eigenpairs; the forecast of a fit's memory.
Equations of docs/theory.md: 3 (the sum), 10 (bottom eigenpairs); 17 is applied in ``without``.
"""
