"""
What the warps do to space
==========================

A warp is a function of space, not only of the landmarks. Here it bends a square grid in the frame of each of four
views of a sheet of paper into the map.
"""

from kernelgpa import KernelGPA, plotting, simulate

scene = simulate.sheet(clouds=8, landmarks=155, noise=0.3)
gpa = KernelGPA().fit(scene.points)
figure = plotting.warps(gpa, clouds=range(4), lines=14, unit="mm")
