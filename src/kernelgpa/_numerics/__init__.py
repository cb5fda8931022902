"""Numerical services that know nothing of clouds.

In:   work on several items, matrices, sparse matrices.
Out:  the same with one BLAS thread per item, LAPACK without the interpreter lock, memory for large matrices and how
      much of it is free, sparse factorisations with the diagonal of the inverse, and progress bars.
Equations of docs/theory.md: none.
"""
