"""The cost of a map, summed over all clouds, and its bottom eigenpairs.

In:   reduced clouds.
Out:  a cost operator tr(M' Q M), dense, low-rank or matrix-free, which solves systems with Q and finds its bottom
      eigenpairs.
Equations 3 and 10 of docs/theory.md live here (17 is applied in ``without``), and the forecast of a fit's memory.
"""
