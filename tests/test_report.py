"""The report page: its data, that it loads nothing, and that names stay text."""

from __future__ import annotations

import base64
import json
import re
import warnings
from dataclasses import asdict
from html.parser import HTMLParser

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from plotly.offline import get_plotlyjs

from conftest import random_rotation, scene
from fixed_settings import fixed_kernel, fixed_tps
from hostile_names import HOSTILE, named_hostile
from kernelgpa import (
    AffineGPA,
    InvalidSetting,
    KernelGPAWarning,
    NotFitted,
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
    fixed_tps(control_points=3),
    fixed_kernel(),
    fixed_kernel(modes="program"),
    fixed_kernel(robust="geman-mcclure"),
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
    assert "left_out_residual" in names
    assert ("remaining_weight" in names) == (gpa.robust is not None)
    assert ("size_factor" in [column["name"] for column in data["cloud_table"]]) == gpa._sizes_differ


@pytest.mark.parametrize("model", [RigidGPA(), fixed_kernel()], ids=repr)
def test_errors_equal_those_of_metrics_if_every_observation_counts(model):
    points, _ = scene(noise=0.02)
    gpa = model.fit(points)
    warped = gpa.transform_clouds(points)
    errors = Agreement(gpa).per_landmark
    np.testing.assert_allclose(errors.in_map, metrics.consistency(warped), rtol=1e-12)
    expected = metrics.sensor_error(residuals=gpa.sensor_residuals_)
    if not gpa._deforms:  # a motion and its inverse leave the same residuals
        np.testing.assert_allclose(expected, metrics.sensor_error(warped, gpa.jacobians(points)), rtol=1e-9)
    np.testing.assert_allclose(errors.in_sensor_frame, expected, rtol=1e-12)
    summary = data_of(gpa)["summary"]["sensor_error"]
    assert summary["worst"] == pytest.approx(expected.max(), rel=1e-12)
    assert summary["at"] == expected.argmax()


def test_sensor_frame_errors_stay_below_the_size_of_the_clouds_where_warps_fold():
    rng = np.random.default_rng(0)
    limbs = [rng.standard_normal((8, 3)) * [0.1, 0.1, 0.5] + offset for offset in np.eye(3)[[0, 0, 1, 1, 2]] * 0.5]
    points = np.stack([np.concatenate([limb @ random_rotation(3, rng).T for limb in limbs]) for _ in range(8)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        gpa = fixed_kernel(smoothing=1e-4).fit(points)
    folded = [np.linalg.det(warp.jacobian(one)) < 0 for warp, one in zip(gpa.warps_, points, strict=True)]
    assert np.any(folded)
    worst = np.linalg.norm(points - points.mean(axis=1, keepdims=True), axis=2).max()
    agreement = Agreement(gpa)
    for errors in (agreement.per_landmark.in_sensor_frame, agreement.per_cloud.in_sensor_frame):
        assert np.isfinite(errors).all()
        assert errors.max() < 2 * worst


def test_observations_that_a_robust_fit_rejects_do_not_count():
    points, _ = scene(n=10, m=60, noise=0.005, hidden=0.1)
    wrong = points.copy()
    wrong[3, 7] += 2.0
    gpa = fixed_kernel(robust="geman-mcclure").fit(wrong)
    assert data_of(gpa)["rejected"] >= 1
    assert not Agreement(gpa).counted[3, 7]
    assert Agreement(gpa).per_landmark.in_map[7] < 0.1 < metrics.consistency(gpa.transform_clouds(wrong))[7]


def test_landmarks_seen_once_or_never_have_no_errors_and_no_nan_in_the_json():
    points, _ = scene(noise=0.01)
    points[:, 4] = np.nan
    points[1:, 5] = np.nan
    points[0, 5] = 0.1
    with pytest.warns(KernelGPAWarning):
        gpa = fixed_kernel().fit(points)
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
        data = data_of(fixed_kernel().fit(points))
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
    gpa = fixed_kernel().fit(named_hostile())
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
    page = render(fixed_kernel().fit(scene()[0]))
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
        render(fixed_kernel())
    with pytest.raises(InvalidSetting, match="fitted registration"):
        render("gpa")
    gpa = AffineGPA().fit(scene()[0])
    with pytest.raises(InvalidSetting, match="landmarks 0 to 40; there are 40"):
        render(gpa, Metadata(faces=[[0, 1, 40]]))
    with pytest.raises(InvalidSetting, match="triangles, 3"):
        render(gpa, Metadata(faces=[[0.0, 1.0]]))


# -- surfaces and links --


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
