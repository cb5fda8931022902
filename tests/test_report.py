"""The report page: its data, that it loads nothing, that names stay text, and that it draws in a browser."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import time
from dataclasses import asdict
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.testing import assert_array_equal
from plotly.offline import get_plotlyjs

from conftest import scene
from kernelgpa import (
    TPSGPA,
    AffineGPA,
    InvalidSetting,
    KernelGPA,
    KernelGPAWarning,
    NotFitted,
    Observations,
    RigidGPA,
    metrics,
    selection,
    simulate,
)
from kernelgpa.report import Assessment, Metadata, PageLimits, render
from kernelgpa.report.data import page_data
from kernelgpa.trust.agreement import Agreement

MODELS = [
    RigidGPA(),
    RigidGPA(scaling=True),
    AffineGPA(),
    AffineGPA(method="svd"),
    TPSGPA(control_points=3),
    KernelGPA(),
    KernelGPA(modes="program"),
    KernelGPA(robust="geman-mcclure"),
]
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    '"><img src=x onerror="window.hacked = 3">',
    "<!-- <script>",
    "<b>bold</b> & <a href='javascript:window.hacked=4'>link</a>",
    "line\u2028and\u2029paragraph",
    "%{x} ${y} {{data}} \\u003c &lt;",
    "\u202eright to left",
    "]]>",
    "\ud800 lone surrogate",
    "",
]


class Elements(HTMLParser):
    """Every element with its attributes, and the text of the scripts, as a parser of HTML sees them."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.scripts, self.current = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append((dict(attributes), []))
            self.current = self.scripts[-1][1]

    def handle_endtag(self, tag):
        if tag == "script":
            self.current = None

    def handle_data(self, text):
        if self.current is not None:
            self.current.append(text)

    @property
    def data(self):
        return next(json.loads("".join(text)) for attributes, text in self.scripts if attributes.get("id") == "data")


def own_parts(page):
    """The page without plotly's own text."""
    return page.replace(get_plotlyjs(), "")


def unpacked(array):
    flat = np.frombuffer(base64.b64decode(array["data"]), dtype="<f4").astype(np.float64) * array["factor"]
    return flat.reshape(array["shape"])


def data_of(gpa, metadata=None, limits=None):
    """What the page of a registration is made from."""
    return asdict(page_data(Assessment.of(gpa), metadata or Metadata(), limits or PageLimits()))


def named_hostile(n=6, d=3):
    points, _ = scene(n=n, d=d, hidden=0.25)  # so many that the page draws the visibility
    m = points.shape[1]
    return Observations.from_array(
        points,
        clouds=[f"{HOSTILE[t % len(HOSTILE)]}{t}" for t in range(n)],
        landmarks=[HOSTILE[j] if j < len(HOSTILE) else f"landmark {j}" for j in range(m)],
    )


# -- without a browser --


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("d", [2, 3])
def test_every_registration_has_a_page_whose_data_are_the_registration(model, d):
    points, _ = scene(d=d, hidden=0 if getattr(model, "method", "") == "svd" else 0.2, noise=0.01)
    gpa = model.fit(points)
    data = Elements(render(gpa, Metadata(unit="mm"))).data
    size = np.abs(gpa.map_).max()
    np.testing.assert_allclose(unpacked(data["map"]), gpa.map_, rtol=0, atol=1e-6 * size)  # float32
    np.testing.assert_allclose(unpacked(data["warped"]), gpa.transform_clouds(points), rtol=0, atol=1e-5 * size)
    np.testing.assert_allclose(unpacked(data["poses"]["axes"]), gpa.rotations_, rtol=0, atol=1e-6)
    assert data["dimension"] == d
    assert (data["eigenvalues"] is None) != gpa._deforms
    assert data["observation_count"] == np.isfinite(points[:, :, 0]).sum()
    np.testing.assert_array_equal(unpacked(data["landmark_table"][0]["values"]), gpa.observations_.counts)
    names = [column["name"] for column in data["landmark_table"]]
    assert ("left_out_residual" in names) == gpa._deforms
    assert ("remaining_weight" in names) == (gpa.robust is not None)
    assert ("size_factor" in [column["name"] for column in data["cloud_table"]]) == gpa._sizes_differ


@pytest.mark.parametrize("model", [RigidGPA(), KernelGPA()], ids=repr)
def test_errors_equal_those_of_metrics_if_every_observation_counts(model):
    points, _ = scene(noise=0.02)
    gpa = model.fit(points)
    warped = gpa.transform_clouds(points)
    errors = Agreement(gpa).per_landmark
    np.testing.assert_allclose(errors.in_map, metrics.consistency(warped), rtol=1e-12)
    expected = metrics.sensor_error(warped, gpa.jacobians(points))
    np.testing.assert_allclose(errors.in_sensor_frame, expected, rtol=1e-12)
    summary = data_of(gpa)["summary"]["sensor_error"]
    assert summary["worst"] == pytest.approx(expected.max(), rel=1e-12)
    assert summary["at"] == expected.argmax()


def test_observations_that_a_robust_fit_rejects_do_not_count():
    points, _ = scene(n=10, m=60, noise=0.005, hidden=0.1)
    wrong = points.copy()
    wrong[3, 7] += 2.0
    gpa = KernelGPA(robust="geman-mcclure").fit(wrong)
    assert data_of(gpa)["rejected"] >= 1
    assert not Agreement(gpa).counted[3, 7]
    assert Agreement(gpa).per_landmark.in_map[7] < 0.1 < metrics.consistency(gpa.transform_clouds(wrong))[7]


def test_landmarks_seen_once_or_never_have_no_errors_and_no_nan_in_the_json():
    points, _ = scene(noise=0.01)
    points[:, 4] = np.nan
    points[1:, 5] = np.nan
    points[0, 5] = 0.1
    with pytest.warns(KernelGPAWarning):
        gpa = KernelGPA().fit(points)
    page = Elements(render(gpa))
    values = unpacked(page.data["landmark_table"][1]["values"])
    assert np.isnan(values[[4, 5]]).all()
    assert np.isfinite(np.delete(values, [4, 5])).all()
    assert page.data["summary"]["disagreement"]["count"] == points.shape[1] - 2
    assert np.isnan(unpacked(page.data["map"])[4]).all()


def test_mirrored_and_flat_clouds_are_reported():
    points, template = scene(n=7, noise=0.01)
    points[2] *= [1, 1, -1]
    with pytest.warns(KernelGPAWarning, match="mirror"):
        data = data_of(KernelGPA().fit(points))
    assert data["mirrored"] == ["2"]
    assert data["findings"][0]["kind"] == "mirror images"
    assert np.isnan(unpacked(data["cloud_table"][2]["values"])[2])
    flat = points.copy()
    flat[:, :, 2] = 0.0
    flat[np.isnan(points[:, :, 0])] = np.nan
    flat[2] = np.stack([template[:, 0], template[:, 1], 0 * template[:, 0]], axis=1)
    flat = np.where(np.isnan(flat), np.nan, np.stack([flat[2]] * 7))
    assert "data" in render(RigidGPA().fit(flat))


def test_data_of_any_scale_are_packed_without_overflow():
    points, _ = scene(noise=0.01)
    for factor in (1e-60, 1e60):
        gpa = RigidGPA().fit(points * factor)
        np.testing.assert_allclose(unpacked(data_of(gpa)["map"]), gpa.map_, rtol=0, atol=1e-6 * np.abs(gpa.map_).max())


def test_hostile_texts_stay_data():
    gpa = KernelGPA().fit(named_hostile())
    settings = {text: text for text in HOSTILE}
    page = render(gpa, Metadata(title=HOSTILE[1], unit=HOSTILE[0], notes=HOSTILE, settings=settings))
    plain = Elements(render(gpa))
    hostile = Elements(page)
    # the same elements as without them, and all texts whole in the data
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]
    assert hostile.data["notes"] == HOSTILE
    assert hostile.data["settings"] == [[text, text] for text in HOSTILE]
    assert hostile.data["landmarks"] == list(map(str, gpa.observations_.landmarks))
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert not re.search("[<>&\u2028\u2029]", block)
    page.encode("utf-8")  # can be written


def test_the_page_loads_nothing_and_lets_only_its_own_scripts_run():
    page = render(KernelGPA().fit(scene()[0]))
    own = own_parts(page)
    assert not re.search(r"https?:|//cdn|@import|url\(", own)
    elements = Elements(page)
    loads = {"src", "srcset", "data", "poster", "background", "action", "ping"}
    assert not [(tag, a) for tag, a in elements.elements if loads & set(a) or tag in ("link", "iframe", "object")]
    assert all(a["href"].startswith("#") for tag, a in elements.elements if tag == "a")
    policy = next(a["content"] for tag, a in elements.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.split("style-src")[0]
    assert "showSendToCloud: false" in own  # plotly.js would offer to upload the data


def test_a_page_of_sixty_clouds_of_two_thousand_landmarks_is_small():
    sim = simulate.liver(clouds=60, landmarks=2000, hidden=0.3, noise=0.5)
    page = render(AffineGPA().fit(sim.points), Metadata(faces=np.arange(1998).reshape(-1, 3)))
    assert len(page.encode()) < 15e6
    assert Elements(page).data["faces"]["count"] == 666


def test_more_landmarks_than_the_page_may_hold_are_drawn_in_part():
    limits = PageLimits(coordinates=6 * 3 * 10, visibility_rows=4, visibility_columns=7)
    points, _ = scene()
    data = data_of(AffineGPA().fit(points), limits=limits)
    assert len(data["drawn"]) == 10
    assert data["warped"]["shape"] == (6, 10, 3)
    shares = np.frombuffer(base64.b64decode(data["visibility"]["data"]), dtype=np.uint8).reshape(4, 7) / 255
    rows, columns = data["visibility"]["rows"], data["visibility"]["columns"]
    seen = np.isfinite(points[:, :, 0])
    block = seen[rows[1] : rows[2], columns[2] : columns[3]]
    assert abs(shares[1, 2] - block.mean()) < 1 / 255


def test_tuning_is_drawn_by_the_settings_that_were_varied():
    points, _ = scene(noise=0.02)

    def axes(grid):
        tuning = selection.tune(points, grid=grid, folds=4, rounds=0)
        return data_of(tuning.best, Metadata(tuning=tuning))["tuning"]["axes"]

    both = axes({"bandwidth": (0.25, 1.0), "smoothing": (0.1, 1.0)})
    assert both["names"] == ["bandwidth", "smoothing"]
    assert len(both["sensor_error"]) == 4
    assert axes({"bandwidth": (0.25,), "smoothing": (0.1, 1.0)})["names"] == ["smoothing"]
    assert axes({"kernel": ("gaussian", "matern32"), "smoothing": (0.1, 1.0)}) is None


def test_settings_of_sections_are_listed_one_by_one():
    settings = {"method": {"name": "affine", "modes": 5}, "input": {"files": ["a.csv", "b.csv"]}}
    shown = data_of(AffineGPA().fit(scene()[0]), Metadata(settings=settings))["settings"]
    assert shown == [("method.name", "affine"), ("method.modes", "5"), ("input.files", "a.csv, b.csv")]


def test_objects_that_cannot_be_shown_are_errors():
    with pytest.raises(NotFitted):
        render(KernelGPA())
    with pytest.raises(InvalidSetting, match="fitted registration"):
        render("gpa")
    gpa = AffineGPA().fit(scene()[0])
    with pytest.raises(InvalidSetting, match="landmarks 0 to 40; there are 40"):
        render(gpa, Metadata(faces=[[0, 1, 40]]))
    with pytest.raises(InvalidSetting, match="triangles, 3"):
        render(gpa, Metadata(faces=[[0.0, 1.0]]))


# -- the scripts --

LINT = Path(__file__).with_name("lint_page.mjs")
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="needs node")


def lint(*files):
    command = [shutil.which("node"), str(LINT), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@needs_node
def test_the_scripts_pass_their_checks():
    assert lint() == (0, "")


@needs_node
@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("const a = ;", "SyntaxError"),
        (
            "const value = 1;\nconst copy = vaule + value + copy;",
            "vaule: declared and not used, or used and not declared",
        ),
        ("const text = `${value}` + text;", "value: declared and not used"),
        ("document.body.innerHTML = document.title;", "markup from text"),
        ("if (data == data) data = 1;", "use === or !=="),
    ],
)
def test_the_checks_find_mistakes(script, problem, tmp_path):
    (tmp_path / "wrong.js").write_text(script, encoding="utf-8")
    code, printed = lint(tmp_path / "wrong.js")
    assert code == 1
    assert problem in printed


def test_every_script_is_part_of_the_page():
    page = render(AffineGPA().fit(scene()[0]))
    template = files("kernelgpa.report").joinpath("template")
    scripts = [one for one in template.iterdir() if one.name.endswith(".js")]
    assert len(scripts) >= 5
    assert all(one.read_text(encoding="utf-8") in page for one in scripts)


# -- in a browser --


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
    gpa = KernelGPA().fit(Observations.from_array(points, clouds=frames))
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
        gpa = KernelGPA().fit(points)
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
    gpa = KernelGPA().fit(named_hostile(d=d))
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
    cells = browser.execute_script(f"return {first}.map((cell) => cell.textContent.toWellFormed())")
    shown = {name.encode("utf-8", "replace").decode() for name in map(str, gpa.observations_.landmarks)}
    assert {cell.replace("\ufffd", "?") for cell in cells} == shown
    marked = "main bdi *, main dd > :not(bdi), .note *, #mapPlot a, #mapPlot image, img[onerror], [href^=javascript]"
    assert browser.find_elements("css selector", marked) == []
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert errors(browser) == []


def test_nothing_leaves_the_page(browser, tmp_path):
    opened(browser, tmp_path, render(KernelGPA().fit(scene()[0])))
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
    gpa = KernelGPA().fit(points)
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


def test_a_surface_in_the_map_is_part_of_the_page():
    points, _ = scene(n=5)
    vertices, triangles = np.eye(4, 3), np.array([[0, 1, 2], [1, 2, 3]])
    page = Elements(render(RigidGPA().fit(points), Metadata(surface=(vertices, triangles))))
    assert page.data["surface"]["faces"]["count"] == 2
    assert_array_equal(unpacked(page.data["surface"]["vertices"]), vertices)
    assert page.data["links"] is None


def test_neighbours_are_joined_if_the_data_have_no_links():
    """Every landmark with its two nearest, as a plain search over all distances finds them."""
    gpa = RigidGPA().fit(scene(n=5)[0])
    links = Elements(render(gpa)).data["links"]
    distances = np.linalg.norm(gpa.map_[:, None] - gpa.map_, axis=2)
    expected = {tuple(sorted((i, int(j)))) for i, row in enumerate(np.argsort(distances)) for j in row[1:3]}
    assert links["guessed"]
    assert {tuple(pair) for pair in links["pairs"]} == expected
