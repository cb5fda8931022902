"""Predictions from a map: into each cloud, of landmarks left out, and of observations from the other clouds.

In:   a solved problem, its map and its reduced clouds.
Out:  backward warps with calibrated covariances; predictions of folds; residuals of rigid motions.
Equations of docs/theory.md: 17 (leave-out), 20 to 22 (backward warps).
"""
