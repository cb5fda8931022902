"""
Tune by held-out landmarks
==========================

Automatic settings suffice in most cases. ``selection.tune`` searches a grid by cross-validation: the score of each
setting is the error at landmarks that the fit did not use, in the frames of the clouds.
"""

from kernelgpa import plotting, selection, simulate

scene = simulate.liver(clouds=8, landmarks=80, noise=0.5, hidden=0.2)
grid = {"bandwidth": (0.2, 0.4, 0.8, 1.6, 3.2), "smoothing": (0.0001, 0.001, 0.01, 0.1)}
tuning = selection.tune(scene.points, grid=grid, folds=5, rounds=0)
ax = plotting.tuning_surface(tuning, unit="mm")
print(tuning.settings)
