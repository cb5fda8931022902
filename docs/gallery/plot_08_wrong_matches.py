"""
Wrong matches
=============

A tenth of the observations of each cloud is exchanged. The robust fit finds them: their leave-one-out residuals are
far larger than those of correct matches, and they lose their weight.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelgpa import KernelGPA, metrics, simulate

scene = simulate.liver(clouds=20, landmarks=120, noise=0.5, hidden=0.2)
points, wrong = simulate.exchanged(scene.points, 0.1)
plain = KernelGPA(robust=None).fit(points)
robust = KernelGPA(robust="geman-mcclure").fit(points)

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
seen = ~np.isnan(points[:, :, 0])
bins = np.geomspace(0.05, 300, 50)
for ax, (name, gpa) in zip(axes, {"without a robust loss": plain, "Geman-McClure": robust}.items(), strict=True):
    ax.hist(gpa.residuals_[seen & ~wrong], bins, color="tab:blue", alpha=0.7, label="correct matches")
    ax.hist(gpa.residuals_[wrong], bins, color="tab:red", alpha=0.7, label="wrong matches")
    error = metrics.map_error(gpa.map_, scene.template)
    ax.set(xscale="log", xlabel="leave-one-out residual (mm)", title=f"{name}: map error {error:.1f} mm")
axes[0].set_ylabel("observations")
axes[0].legend()

# %%
# The most suspicious observations, with the residual of each:

for observation in robust.suspicious_observations(5):
    print(observation)
