"""
Variation among specimens
=========================

Forty landmarks on twenty specimens of different size. The shape model removes position, rotation and size, and
finds the directions in which the shapes vary most.
"""

from kernelgpa import ShapeModel, plotting, simulate

scene = simulate.specimens(clouds=20, landmarks=40, bend=8.0, placeholders=0, hidden=0.05)
model = ShapeModel(scaling=True).fit(scene.points)
figure = plotting.mode_shapes(model, modes=2)

# %%
# The scores of the specimens on the first two modes. Bars show what unseen landmarks leave open;
# with 5 % unseen they are shorter than the points are wide.

ax = plotting.score_scatter(model)
