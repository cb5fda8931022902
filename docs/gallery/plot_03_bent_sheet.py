"""
A bent sheet of paper, as a depth camera sees it
================================================

Ten clouds of a sheet that is bent to either side, with 20 % of its 90 points hidden in each cloud. The hidden
points are predicted in the frame of each cloud, and compared with the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelgpa import TPSGPA, AffineGPA, KernelGPA, RigidGPA, simulate

scene = simulate.bending_sheet(clouds=10, landmarks=90, hidden=0.2, noise=0.3)
truth = scene.surfaces[:, scene.landmarks]
hidden = np.isnan(scene.points[:, :, 0])

errors = {}
for gpa in (RigidGPA(), AffineGPA(), TPSGPA(), KernelGPA()):
    predicted = gpa.fit(scene.points).impute()
    errors[type(gpa).__name__] = np.linalg.norm(predicted - truth, axis=2)[hidden]

# %%
# One cloud: what was seen, where the hidden points are, and where the kernel warps expect them.

cloud = 2
centre = truth[cloud].mean(axis=0)
axes_of_cloud = np.linalg.svd(truth[cloud] - centre)[2]  # longest first
seen, there, expected = ((points[cloud] - centre) @ axes_of_cloud.T for points in (scene.points, truth, predicted))
figure = plt.figure(figsize=(11, 4.5), layout="constrained")
ax = figure.add_subplot(1, 2, 1, projection="3d")
ax.scatter(*seen.T, s=10, color="0.6", label="seen")
ax.scatter(*there[hidden[cloud]].T, s=60, facecolors="none", edgecolors="tab:red", label="hidden, truth")
ax.scatter(*expected[hidden[cloud]].T, s=14, color="tab:blue", label="hidden, predicted")
ax.set(title=f"Cloud {cloud}, in its principal axes (mm)")
ax.set_aspect("equal")
ax.set_zticks([-20, 0, 20])
ax.locator_params(axis="both", nbins=5)
ax.view_init(35, -60)
ax.legend(loc="upper left", fontsize=8)

ax = figure.add_subplot(1, 2, 2)
ax.boxplot(list(errors.values()), tick_labels=list(errors), showfliers=False)
ax.set(yscale="log", ylabel="error at hidden points (mm)", title="All clouds")

for name, error in errors.items():
    print(f"{name:10} mean {error.mean():5.2f} mm, median {np.median(error):5.2f} mm")
