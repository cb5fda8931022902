"""The page and the figures of the experiments show what the results say."""

from __future__ import annotations

import io
import re

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from kernelgpa.experiments.figures import COLOUR_SCALE, SCALE_COLOURS, CaptionedFigure, panel_per_method, to_bytes
from kernelgpa.experiments.output import page
from kernelgpa.experiments.tables import Claim, Outcome, Table

METHODS = ("rigid", "affine", "thin-plate")


def outcome(**parts):
    return Outcome(**({"name": "a", "title": "A", "about": "", "tables": [], "claims": [], "figures": {}} | parts))


def table(*values):
    found = Table("t", "errors", "mm", METHODS)
    found.add("mean", values)
    return found


def marked(*values):
    cells = re.findall(r'<td class="best">(.*?)</td>', page.html([outcome(tables=[table(*values)])], "command"))
    return list(map(str, cells))


def test_all_least_values_as_printed_are_marked():
    assert marked(1.11001, 1.11002, 1.2) == ["1.11", "1.11"]
    assert marked(np.nan, 3, 2) == ["2"]
    assert marked(np.nan, np.nan, np.nan) == []


def test_each_claim_is_on_the_page_once_with_its_source():
    claims = [
        Claim("paper: order <", True, "1 < 2"),
        Claim("here: below", False, "2 > 1", "a reason"),
        Claim("here: above", True, "3"),
    ]
    text = page.html([outcome(claims=claims)], "command")
    paper, own = text.split("The paper's claims</h3>")[1].split("<details>")
    assert paper.count("<li") == 1
    assert '<li class="holds">order &lt;: <em>1 &lt; 2</em></li>' in paper
    assert own.count("<li") == 2
    assert "<summary>This project's claims: 1 of 2 hold</summary>" in own
    assert '<li class="fails">below: <em>2 &gt; 1</em> (a reason)</li>' in own
    assert "<td>A</td><td>1 of 1</td><td>1 of 2</td>" in text


def test_figures_come_before_the_claims_and_chosen_settings_are_folded():
    one = outcome(
        tables=[table(1, 2, 3)],
        claims=[Claim("paper: a", True, "1")],
        figures={"f": CaptionedFigure.of(Figure(figsize=(1, 1)), "A <caption>.")},
        notes=["tuned: KernelGPA()"],
    )
    text = page.html([one], "command")
    places = [text.index(part) for part in ("errors (mm)", "A &lt;caption&gt;.", "The paper's claims", "tuned: Kernel")]
    assert places == sorted(places)
    assert "<details><summary>Settings that were chosen from the data</summary>" in text
    assert "<details>" not in page.html([outcome(notes=["missing: TOPACS"])], "command")  # a note about data


def test_pictures_keep_the_colour_scale_and_the_background():
    """A palette with steps in the colour scale would show bounds that the values do not have."""
    figure = Figure(figsize=(4, 3), dpi=110)
    ramp = np.linspace(0, 1, 256)[None]
    figure.subplots().imshow(ramp, cmap=COLOUR_SCALE, aspect="auto", interpolation="nearest")
    exact = io.BytesIO()
    figure.savefig(exact, dpi=110)
    exact.seek(0)
    true, shown = (np.rint(255 * imread(one)[:, :, :3]) for one in (exact, io.BytesIO(to_bytes(figure, "png"))))
    assert (shown[0, 0] == 255).all()  # white stays white
    scale = np.rint(255 * colormaps[COLOUR_SCALE](ramp[0])[:, :3])
    steps = np.linalg.norm(
        np.diff(255 * colormaps[COLOUR_SCALE](np.linspace(0, 1, SCALE_COLOURS))[:, :3], axis=0), axis=1
    )
    inside = (true[:, :, None] == scale).all(axis=3).any(axis=2)
    assert inside.sum() > 10_000
    # every colour lies between two of the palette, at most half a step from one of them, plus their rounding
    assert np.linalg.norm(shown - true, axis=2)[inside].max() <= steps.max() / 2 + np.sqrt(3)


def test_lines_keep_their_colours():
    colours = ["tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown", "tab:pink", "tab:gray"]
    figure = Figure(figsize=(8, 6))
    axes = figure.subplots()
    for k, colour in enumerate(colours):
        axes.plot([0, 1], [k, k], color=colour, linewidth=1.5)
        axes.plot([0, 1], [0, k], color=colour, linewidth=0.5)
    points = axes.scatter(np.arange(50) / 50, 8 + 0 * np.arange(50), c=np.arange(50), cmap=COLOUR_SCALE)
    figure.colorbar(points)
    shown = np.rint(255 * imread(io.BytesIO(to_bytes(figure, "png")))[:, :, :3]).reshape(-1, 3)
    for colour in colours:
        assert (shown == np.rint(255 * np.array(to_rgb(colour)))).all(axis=1).sum() > 100, colour


def test_panels_are_as_high_as_their_points_need():
    rng = np.random.default_rng(0)
    values = {method: rng.random(50) for method in METHODS}
    flat, tall = (panel_per_method(rng.random((50, 2)) * [1, up], values, "title", "label") for up in (0.2, 3))
    assert flat.get_figheight() < tall.get_figheight()
