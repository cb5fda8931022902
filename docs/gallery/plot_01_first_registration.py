"""
Register clouds of a deforming body
===================================

Twelve clouds of a liver that bends while a sensor moves around it. Each cloud sees about 70 % of the landmarks, in
its own frame. Rigid registration leaves the deformation in the clouds; kernel warps remove it.
"""

from kernelgpa import KernelGPA, RigidGPA, plotting, simulate

scene = simulate.liver(clouds=12, landmarks=150, hidden=0.3, noise=0.5)
rigid = RigidGPA().fit(scene.points)
kernel = KernelGPA().fit(scene.points)

panels = {
    "as measured": scene.points,
    "rigid motions": rigid.transform_clouds(scene.points),
    "kernel warps": kernel.transform_clouds(scene.points),
}
figure = plotting.side_by_side(panels, unit="mm")

# %%
# The settings were chosen from the data by leave-one-out residuals:

print(kernel.automatic_)
