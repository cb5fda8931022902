"""The report page draws in a browser, sorts its tables, keeps names as text and loads nothing."""

from __future__ import annotations

import io
import shutil
import time

import numpy as np
import pytest
from matplotlib.image import imread

from conftest import scene
from fixed_settings import fixed_kernel
from hostile_names import HOSTILE, named_hostile
from kernelgpa import AffineGPA, KernelGPAWarning, Observations, RigidGPA, ShapeModel, selection
from kernelgpa.report import Metadata, render
from kernelgpa.trust.agreement import Agreement


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromedriver on the path")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        *("headless=new", "no-sandbox", "disable-gpu", "use-angle=swiftshader", "enable-unsafe-swiftshader"),
        *("disable-quic", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync"),
        *("disable-dev-shm-usage", "window-size=1000,800", f"user-data-dir={profile}"),
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


def opened(browser, tmp_path, page):
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    browser.get(path.as_uri())
    until(lambda: browser.execute_script("return document.documentElement.dataset.ready") == "yes")


def hovered_text(browser, landmark):
    """The hover label of a landmark; callers ask repeatedly, because drawing anew removes the label."""
    point = f"[{{curveNumber: plot.data.length - 4, pointNumber: {landmark}}}]"  # lines may be drawn before
    browser.execute_script(
        f"const plot = document.querySelector('#mapPlot .interactive'); Plotly.Fx.hover(plot, {point})"
    )
    return text(browser, "#mapPlot .hoverlayer")


def until(done, seconds=120.0):
    """Software rendering on a busy machine takes its time."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "the page did not get there in time"
        time.sleep(0.05)


def errors(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def text(browser, selector):
    return browser.execute_script("return document.querySelector(arguments[0]).textContent", selector)


def click(browser, selector):
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def drawn_colours(browser, selector):
    """The number of colours in the middle of a plot on the screen."""
    element = browser.find_element("css selector", selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    time.sleep(0.5)
    image = imread(io.BytesIO(element.screenshot_as_png))
    h, w = image.shape[:2]
    middle = image[h // 5 : 4 * h // 5, w // 5 : 4 * w // 5, :3]
    return len(np.unique(np.round(8 * middle).reshape(-1, 3), axis=0))


POINTS = """
    const plot = document.querySelector("#mapPlot .interactive");
    return Array.from(plot.data[plot.data.length - 2].x).filter((x) => !Number.isNaN(x));
"""


@pytest.mark.parametrize("d", [2, 3])
def test_the_page_draws_and_the_slider_changes_the_cloud(browser, tmp_path, d):
    points, template = scene(d=d, noise=0.02)
    tuning = selection.tune(points, grid={"bandwidth": (0.25, 1), "smoothing": (0.1, 1)}, folds=4, rounds=1)
    frames = [f"frame {t}" for t in range(len(points))]
    gpa = fixed_kernel().fit(Observations.from_array(points, clouds=frames))
    faces = np.argsort(np.linalg.norm(template[:, None] - template, axis=2), axis=1)[:, :3]
    opened(
        browser,
        tmp_path,
        render(gpa, Metadata(unit="mm", tuning=tuning, faces=faces, notes=["a note"], settings={"seed": 1})),
    )
    assert errors(browser) == []
    assert "6 clouds of 40 landmarks" in text(browser, "#summaryText")
    assert drawn_colours(browser, "#mapPlot") > 5
    assert drawn_colours(browser, "#visibilityPlot") > 1
    assert len(browser.find_elements("css selector", ".interactive .main-svg")) >= 5

    before = browser.execute_script(POINTS)
    assert "frame 0" in text(browser, "#cloudName")
    move = "const s = document.getElementById('cloud'); s.value = 4; s.dispatchEvent(new Event('input'))"
    browser.execute_script(move)
    until(lambda: "frame 4" in text(browser, "#cloudName"))
    until(lambda: browser.execute_script(POINTS) != before)
    expected = gpa.transform(points[4], cloud=4)[:, 0]
    np.testing.assert_allclose(browser.execute_script(POINTS), expected[~np.isnan(expected)], atol=1e-5)
    click(browser, "#next")
    until(lambda: "frame 5" in text(browser, "#cloudName"))
    click(browser, "#next")  # round to the first
    until(lambda: "frame 0" in text(browser, "#cloudName"))
    click(browser, "#theme")
    until(lambda: browser.execute_script("return document.documentElement.dataset.theme") == "dark")
    assert errors(browser) == []


def test_residuals_can_be_enlarged(browser, tmp_path):
    points, _ = scene(noise=0.02)
    gpa = AffineGPA().fit(points)
    opened(browser, tmp_path, render(gpa))
    browser.execute_script(
        "const s = document.getElementById('factor'); s.value = '5'; s.dispatchEvent(new Event('change'))"
    )
    residuals = gpa.transform(points[0], cloud=0) - gpa.map_
    expected = (gpa.map_ + 5 * residuals)[:, 0]
    np.testing.assert_allclose(browser.execute_script(POINTS), expected[~np.isnan(expected)], atol=1e-5)


def test_tables_sort_worst_first_and_filter(browser, tmp_path):
    points, _ = scene(noise=0.02)
    points[:, 3] = np.nan
    with pytest.warns(KernelGPAWarning):
        gpa = fixed_kernel().fit(points)
    opened(browser, tmp_path, render(gpa))
    cells = (
        "return [...document.querySelectorAll('#landmarkTable tbody tr')].map((r) => r.cells[arguments[0]].textContent)"
    )
    worst = np.argsort(-np.nan_to_num(Agreement(gpa).per_landmark.in_sensor_frame, nan=-1.0))
    assert browser.execute_script(cells, 0) == [str(j) for j in worst]
    header = "#landmarkTable th:nth-child(1)"
    click(browser, f"{header} button")
    assert browser.execute_script(cells, 0) == [str(j) for j in range(40)]
    browser.find_element("css selector", f"{header} button").send_keys("\ue007")  # Enter, as from a keyboard
    assert browser.execute_script(cells, 0) == [str(j) for j in range(40)][::-1]
    assert browser.find_element("css selector", header).get_attribute("aria-sort") == "descending"
    click(browser, "#landmarkTable th:nth-child(3) button")
    click(browser, "#landmarkTable th:nth-child(3) button")
    values = browser.execute_script(cells, 2)
    assert values[-1] == "\u2013"  # missing values come last in either direction
    assert [float(value) for value in values[:-1]] == sorted(float(value) for value in values[:-1])
    browser.execute_script(
        "const f = document.querySelector('#landmarkTable input'); f.value = '39'; f.dispatchEvent(new Event('input'))"
    )
    assert browser.execute_script(cells, 0) == ["39"]
    click(browser, "#cloudTable tbody tr:nth-child(3) button")
    name = text(browser, "#cloudTable tbody tr:nth-child(3) td")
    until(lambda: text(browser, "#cloudName bdi") == name)


@pytest.mark.parametrize("d", [2, 3])
def test_hostile_texts_are_shown_and_do_nothing(browser, tmp_path, d):
    gpa = fixed_kernel().fit(named_hostile(d=d))
    settings = {text: text for text in HOSTILE}
    attributes = dict.fromkeys(HOSTILE[:6], HOSTILE[:6])
    metadata = Metadata(title=HOSTILE[1], unit=HOSTILE[2], notes=HOSTILE, settings=settings, attributes=attributes)
    opened(browser, tmp_path, render(gpa, metadata))
    for cloud in range(6):
        browser.execute_script(
            "const s = document.getElementById('cloud'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
            cloud,
        )
        until(lambda cloud=cloud: text(browser, "#cloudName bdi") == str(gpa.observations_.names[cloud]))
    hover = "Plotly.Fx.hover(document.querySelector('#visibilityPlot .interactive'), [{xval: 2, yval: 1}], 'xy')"
    browser.execute_script(hover)
    if d == 2:  # each hostile name in turn in a hover label of plotly
        for j in range(6):
            until(lambda j=j: hovered_text(browser, j).startswith(" ".join(HOSTILE[j][:20].split())))
    assert text(browser, "h1") == HOSTILE[1]
    assert browser.title == HOSTILE[1]
    first = "[...document.querySelectorAll('#landmarkTable tbody td:first-child')]"
    texts = "[cell.textContent, cell.querySelector('button').title].map((text) => text.toWellFormed())"
    cells = browser.execute_script(f"return {first}.map((cell) => {texts})")
    shown = {name.encode("utf-8", "replace").decode() for name in map(str, gpa.observations_.landmarks)}
    cut = {name: title for name, title in cells if "\u2026" in name}  # long names have their whole text as a title
    assert {cut.get(name, name).replace("\ufffd", "?") for name, _ in cells} == shown
    for name, title in cut.items():
        before, after = name.split("\u2026")
        assert title.startswith(before)
        assert title.endswith(after)
        assert len(name) < len(title)
    marked = "main bdi *, main dd > :not(bdi), .note *, #mapPlot a, #mapPlot image, img[onerror], [href^=javascript]"
    assert browser.find_elements("css selector", marked) == []
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert errors(browser) == []


def test_nothing_leaves_the_page(browser, tmp_path):
    opened(browser, tmp_path, render(fixed_kernel().fit(scene()[0])))
    assert browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)") == []
    buttons = browser.execute_script(
        "return [...document.querySelectorAll('.modebar-btn')].map((b) => b.getAttribute('data-title'))"
    )
    assert not [title for title in buttons if "hare" in title or "loud" in title]
    refused = browser.execute_async_script(
        "fetch('data:,x').then(() => arguments[0]('loaded'), () => arguments[0]('refused'))"
    )
    assert refused == "refused"
    injected = """
        const s = document.createElement("script");
        s.textContent = "window.hacked = 5";
        document.body.append(s);
        return typeof window.hacked;
    """
    assert browser.execute_script(injected) == "undefined"
    browser.get_log("browser")


# -- pages for specimens, frames and surfaces --


def shown_sections(browser):
    return {link.get_attribute("href").rpartition("#")[2] for link in browser.find_elements("css selector", "nav a")}


def test_a_page_of_specimens_speaks_of_specimens_and_has_no_trajectory(browser, tmp_path):
    points, _ = scene(n=6, hidden=0.0)
    points[2, 4] = np.nan
    names = [f"a-very-long-name-of-a-collection-and-a-museum-and-of-a-specimen-{t}" for t in range(6)]
    gpa = RigidGPA(scaling=True).fit(Observations.from_array(points, clouds=names))
    metadata = Metadata(
        kind="specimen", attributes={"sex": list("fmfmfm")}, settings={"input": {"files": ["/home/ann/a.tps"]}}
    )
    opened(browser, tmp_path, render(gpa, metadata))
    assert {"specimens", "landmarks"} <= shown_sections(browser)
    assert "trajectory" not in shown_sections(browser)
    assert text(browser, "#mapTitle") == "Mean shape"
    assert text(browser, "#cloudsTitle") == "Specimens"
    assert "/home" not in browser.find_element("css selector", "#settings").text
    sentence = text(browser, "#visibilityCaption")
    assert sentence.startswith("Every specimen shows every landmark except 1 observation: 4 in a-very-long")
    assert names[2][-10:] in sentence  # cut in the middle
    options = browser.find_elements("css selector", "#specimenColour option")
    assert [one.text for one in options] == ["nothing", "sex"]
    traces = browser.execute_script(
        "return document.querySelector('#specimensPlot .interactive').data.map((t) => t.name)"
    )
    assert traces == ["f", "m"]
    assert "cloud" not in browser.find_element("css selector", "main").text.lower().replace("point cloud", "")
    assert errors(browser) == []


def test_links_names_and_eigenvalues_are_shown_on_request(browser, tmp_path):
    points, _ = scene(n=5)
    gpa = fixed_kernel().fit(points)
    opened(browser, tmp_path, render(gpa, Metadata(kind="frame", links=np.array([[0, 1], [1, 2]]))))
    plot = "document.querySelector('#mapPlot .interactive').data"
    lines = browser.execute_script(f"return {plot}.filter((one) => one.mode === 'lines').map((one) => one.visible)")
    assert lines[0] is True  # links that were given are drawn
    browser.execute_script("document.getElementById('showNames').click()")
    until(lambda: browser.execute_script(f"return {plot}.some((one) => one.mode === 'markers+text')"))
    assert not browser.find_element("css selector", "#spectrumPlot").is_displayed()
    browser.execute_script("document.getElementById('spectrumDetails').open = true")
    until(lambda: browser.find_element("css selector", "#spectrumPlot").size["height"] > 100)
    assert text(browser, "#landmarksTitle") == "Markers"
    assert errors(browser) == []


def test_the_slider_moves_the_mean_shape_along_the_chosen_mode(browser, tmp_path):
    rng = np.random.default_rng(0)
    mean, modes = rng.standard_normal((9, 3)) * 3, rng.standard_normal((3, 9, 3))
    points = mean + np.einsum("nk,kmd->nmd", 0.3 * rng.standard_normal((15, 3)), modes)
    model = ShapeModel(shrinkage=0.1, bandwidth=0.5, noise=1e-3, robust=False).fit(points)
    opened(browser, tmp_path, render(RigidGPA().fit(points), shape_model=model))
    move = """
        const [mode, amount] = arguments;
        for (const [id, value, kind] of [["mode", mode, "change"], ["modeAmount", amount, "input"]]) {
          document.getElementById(id).value = value;
          document.getElementById(id).dispatchEvent(new Event(kind));
        }"""
    drawn = """
        const traces = document.querySelector("#modesPlot .interactive").data;
        const last = traces[traces.length - 1];
        return [last.x, last.y, last.z].map((axis) => Array.from(axis));"""
    scores = np.array([[0.0, -1.5 * np.sqrt(model.variances_[1])]])
    expected = model.inverse_transform(scores)[0]
    browser.execute_script(move, 1, -1.5)
    size = np.abs(expected).max()
    until(lambda: np.abs(np.transpose(browser.execute_script(drawn)) - expected).max() < 1e-6 * size)  # 32 bits
    assert "\u22121.5 standard deviations" in text(browser, "#modeText")
    assert len(browser.execute_script('return document.querySelector("#scoresPlot .interactive").data[0].x')) == 15
    assert not errors(browser)


def test_a_registration_alone_has_no_section_of_modes(browser, tmp_path):
    opened(browser, tmp_path, render(RigidGPA().fit(scene(n=4, m=8)[0])))
    assert browser.execute_script('return document.getElementById("modes").hidden')
