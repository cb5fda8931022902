"""From eigenvectors to a map and poses.

In:   the bottom eigenpairs, or the cost operator, and the clouds stacked in arrays.
Out:  a ``Gauge``: the map in its principal axes, the scales, and the pose of each cloud.
Equations 11 to 16 of docs/theory.md live here: scales, the faithful map, rigid registration, mirror images.
"""
