"""
The path of the sensor
======================

The pose of each cloud is where the sensor was, although the body deformed meanwhile. ``kernelgpa register`` writes
these poses in the TUM and KITTI formats of trajectory tools.
"""

from kernelgpa import KernelGPA, plotting, simulate

scene = simulate.liver(clouds=24, landmarks=100, noise=0.5, hidden=0.3)
gpa = KernelGPA().fit(scene.points)
ax = plotting.trajectory(gpa, unit="mm")
