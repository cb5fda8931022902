"""
Frames as they arrive
=====================

A :class:`kernelgpa.StreamingGPA` adds one frame at a time and keeps a map after each. The map improves as views are
added.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelgpa import StreamingGPA, metrics, simulate

scene = simulate.liver(clouds=40, landmarks=100, noise=1.0, hidden=0.2)
stream = StreamingGPA(bandwidth=0.5, smoothing=0.1)
counts, errors = [], []
for number, frame in enumerate(scene.points):
    seen = np.flatnonzero(np.isfinite(frame[:, 0]))
    stream.add(frame[seen], ids=seen.tolist())
    if number >= 5:  # every landmark was seen by two frames
        stream.update()
        counts.append(number + 1)
        errors.append(metrics.map_error(stream.map_, scene.template[list(stream.landmarks_)]))

# %%
# The map after each frame:

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.plot(counts, errors, "o-", markersize=4)
ax.set(xlabel="frames so far", ylabel="distance of the map from the truth (mm)", ylim=(0, None))
