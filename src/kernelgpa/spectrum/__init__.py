"""The cost of a map, summed over all clouds, and its bottom eigenpairs.

In:   reduced clouds.
Out:  a cost operator tr(M' Q M), dense, low-rank or matrix-free, which solves itself, and its bottom eigenpairs.
Equations 10 and 17 of docs/theory.md live here, and the forecast of the memory that a fit takes.
"""
