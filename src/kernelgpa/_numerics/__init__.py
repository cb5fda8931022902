"""Numerical services without knowledge of clouds.

Threads for work on several items at a time with one BLAS thread each, LAPACK without the interpreter lock, new
matrices, sparse factorisations with the diagonal of the inverse, and progress bars.
"""
