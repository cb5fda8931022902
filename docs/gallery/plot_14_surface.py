"""
Warp a whole surface
====================

The fit used only 60 landmarks. Its warps take all 1002 vertices of the surface of every cloud into the map, where
they should coincide; the colour shows how far they disagree, on the mean surface.
"""

from matplotlib.figure import Figure

from kernelgpa import KernelGPA, metrics, simulate

scene = simulate.liver(clouds=12, landmarks=60, vertices=1002, noise=0.5)
gpa = KernelGPA().fit(scene.points)
surfaces = gpa.transform_clouds(scene.surfaces)  # (12, 1002, 3), in the map
mean, disagreement = surfaces.mean(axis=0), metrics.consistency(surfaces)
print(f"{disagreement.mean():.2f} mm on average, {disagreement.max():.2f} mm at most")

figure = Figure(figsize=(8, 5), layout="constrained")
ax = figure.add_subplot(projection="3d")
drawn = ax.plot_trisurf(*mean.T, triangles=scene.faces, cmap="viridis", linewidth=0)
drawn.set_array(disagreement[scene.faces].mean(axis=1))
drawn.autoscale()
figure.colorbar(drawn, label="disagreement (mm)", shrink=0.7)
ax.set_aspect("equal")
ax.locator_params(axis="both", nbins=4)
ax.set(xlabel="x (mm)", ylabel="y (mm)", zlabel="z (mm)")
ax.view_init(35, -70)
