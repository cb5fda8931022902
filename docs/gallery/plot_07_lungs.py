"""
Few landmarks in common
=======================

Lungs of six people. Most landmarks were found in some of the scans only, and no scan contains them all. No template
and no complete cloud is needed.
"""

from kernelgpa import KernelGPA, plotting, simulate

scene = simulate.ct(clouds=6, seen_in={3: 120, 4: 60, 5: 20, 6: 10}, noise=0.5, vertices=2000)
visible = plotting.visibility(scene.points)

# %%
# The map of all landmarks, coloured by the error in the frames of the scans.

gpa = KernelGPA().fit(scene.points)
ax = plotting.map_of(gpa, colours="sensor", unit="mm")
