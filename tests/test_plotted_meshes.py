"""Meshes keep values with their vertices, with and without PyVista."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelgpa import InvalidObservations, InvalidSetting, plotting

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

CORNERS = np.array([[0.0, 0, 0], [np.nan] * 3, [1, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = np.array([[0, 2, 3], [0, 1, 2], [0, 3, 4]])


class Recorder:
    """A stand-in for a plotter that records its calls."""

    def __init__(self):
        self.calls = {}

    def add_mesh(self, surface, **style):
        self.calls["add_mesh"] = (surface, style)

    def show_bounds(self, **titles):
        self.calls["show_bounds"] = titles


@pytest.fixture
def stand_in(monkeypatch):
    module = types.ModuleType("pyvista")
    module.Plotter = Recorder
    module.PolyData = types.SimpleNamespace(from_regular_faces=lambda points, faces: (points, faces))
    monkeypatch.setitem(sys.modules, "pyvista", module)


@pytest.mark.usefixtures("stand_in")
def test_a_mesh_keeps_values_with_their_vertices():
    plotter = plotting.mesh(CORNERS, FACES, [10, 11, 12, 13, 14], "spread", unit="mm", opacity=0.5)
    (points, faces), style = plotter.calls["add_mesh"]
    assert_array_equal(points[faces], CORNERS[FACES[[0, 2]]])
    assert_array_equal(style["scalars"], [10, 12, 13, 14])
    assert style["scalar_bar_args"]["title"] == "spread (mm)"
    assert style["opacity"] == 0.5
    assert plotter.calls["show_bounds"]["ztitle"] == "z (mm)"
    assert plotting.mesh(CORNERS, FACES, plotter=plotter) is plotter
    assert "scalars" not in plotter.calls["add_mesh"][1]


def test_without_pyvista_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    with pytest.raises(InvalidSetting, match=r"pip install 'kernelgpa\[mesh3d\]'"):
        plotting.mesh(CORNERS, FACES)


def test_pyvista_draws_a_mesh():
    pyvista = pytest.importorskip("pyvista")
    plotter = plotting.mesh(CORNERS, FACES, np.arange(5), unit="mm", plotter=pyvista.Plotter(off_screen=True))
    assert plotter.mesh.n_cells == 2
    assert plotter.mesh.n_points == 4
    plotter.close()


@pytest.mark.parametrize(
    ("vertices", "faces", "values", "message"),
    [
        (CORNERS[:, :2], FACES, None, "vertices are 2D"),
        (CORNERS, FACES + 3, None, "faces name vertices 3 to 7; there are 5"),
        (CORNERS, FACES, [1, 2], r"expected \(5,\), one number per vertex"),
        (np.zeros(3), FACES, None, "vertices have shape"),
    ],
)
def test_an_invalid_mesh_is_refused(vertices, faces, values, message):
    with pytest.raises(InvalidObservations, match=message):
        plotting.mesh(vertices, faces, values)
