"""
Confidence regions
==================

How far to trust each landmark of the map: calibrated by cross-validation, so that about 90 % of the regions contain
the truth. At the border of a sheet, and where few views saw a landmark, the regions are larger.
"""

from matplotlib.figure import Figure

from kernelgpa import KernelGPA, plotting, selection, simulate, uncertainty

scene = simulate.sheet(clouds=8, landmarks=100, noise=1.0, hidden=0.25, seed=3)
estimate = uncertainty(selection.cross_validate(KernelGPA(), scene.points, folds=5))
figure = Figure(figsize=(9, 6), layout="constrained")
ax = plotting.uncertainty(estimate, level=0.9, enlarged=3, ax=figure.add_subplot(), unit="mm")
