"""Services below the algorithm: BLAS threads, LAPACK, memory, sparse factorisations, progress bars."""
