"""
Gaps in motion capture
======================

Fifty markers on a walking person; each disappears for several frames at a time. A :class:`kernelgpa.ShapeModel`
learns how the markers move together and fills the gaps in the coordinates of each frame, with a standard deviation.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelgpa import ShapeModel, simulate

scene = simulate.walker(clouds=60, hidden=0.1, gap=8, noise=0.5)
truth = scene.surfaces[:, scene.landmarks]
hidden = np.isnan(scene.points[:, :, 0])
filled, covariances = ShapeModel().fit(scene.points).impute(return_cov=True)
error = np.linalg.norm(filled - truth, axis=2)
print(f"median error in the gaps: {np.median(error[hidden]):.1f} mm")

# %%
# A standing person seen from the side is almost flat. Half a step later, arms and legs swing the opposite way, and this
# posture is nearly the mirror image, front to back, of the one before; in these frames the mean shape fits better when
# it is reflected. A sensor does not mirror what it sees. Thin clouds are therefore never called mirror images, and all
# rotations are proper.
#
# The marker that moves most among those with gaps, along one axis. Every frame has its own coordinate system, as if
# the camera moved; the curves therefore show the person's frame, in which the truth is known.


def in_world(points):
    """Points of all frames in the world, (n, m, 3)."""
    return np.einsum("tij,tmj->tmi", scene.rotations, points) + scene.translations[:, None]


movement = in_world(truth).std(axis=0) * (hidden.sum(axis=0) >= 8)[:, None]
marker, axis = np.unravel_index(np.argmax(movement), movement.shape)

figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
frames = np.arange(len(filled))
deviation = np.sqrt(np.trace(covariances[:, marker], axis1=1, axis2=2) / 3)
ax.plot(frames, in_world(truth)[:, marker, axis], color="0.7", linewidth=4, label="truth")
ax.plot(frames, in_world(scene.points)[:, marker, axis], color="tab:blue", label="measured")
gaps = hidden[:, marker]
ax.errorbar(
    frames[gaps],
    in_world(filled)[gaps, marker, axis],
    2 * deviation[gaps],
    fmt="o",
    markersize=4,
    color="tab:red",
    label="filled, 2 sd",
)
ax.set(xlabel="frame", ylabel="mm", title=f"Marker {marker}")
ax.legend()
