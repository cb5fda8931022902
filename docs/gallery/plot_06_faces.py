"""
Where expressions disagree
==========================

Five expressions of one face, registered rigidly and by kernel warps of 326 landmarks. The colour of the mean
surface shows how far the clouds disagree at each of its vertices, which the fit did not use.
"""

import numpy as np
from matplotlib.figure import Figure

from kernelgpa import KernelGPA, RigidGPA, metrics, simulate

scene = simulate.face(landmarks=326, noise=0.3, vertices=2000)
figure = Figure(figsize=(10, 5), layout="constrained")
panels = []
for k, gpa in enumerate((RigidGPA(), KernelGPA())):
    surfaces = gpa.fit(scene.points).transform_clouds(scene.surfaces)
    mean, disagreement = surfaces.mean(axis=0), metrics.consistency(surfaces)
    ax = figure.add_subplot(1, 2, k + 1, projection="3d")
    drawn = ax.plot_trisurf(*mean.T, triangles=scene.faces, cmap="viridis", linewidth=0)
    drawn.set_array(disagreement[scene.faces].mean(axis=1))
    drawn.set_clim(0, 6)
    ax.set(title=f"{type(gpa).__name__}: {disagreement.mean():.2f} mm on average")
    ax.set_box_aspect(np.ptp(mean, axis=0), zoom=1.5)
    ax.view_init(90, 0)
    ax.set_axis_off()
    panels.append(ax)
figure.colorbar(drawn, ax=panels, label="disagreement (mm)", shrink=0.7)
