"""From eigenvectors to a map and poses.

In:   the bottom eigenpairs, or the cost operator, and all clouds stacked in arrays.
Out:  a ``Gauge``: the map in its principal axes, the scales, and the pose of each cloud.
Equations of docs/theory.md: 11 and 12 (scales, rotations), 13 (closed_form), 14 (principal_axes), 15 (rigid),
16 (faithful), 16b and 16c (certificate), 19 (pose_graph); mirror images (section 12) and the affine initial estimate.
"""
