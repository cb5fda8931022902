"""Every table of the page is a CSV file of its folder, with the same columns and the same numbers."""

from __future__ import annotations

import base64
import csv
import json
import re

import numpy as np
import pytest

import kernelgpa
from kernelgpa import KernelGPA, Observations, RigidGPA, ShapeModel, selection
from kernelgpa.report.metadata import Metadata
from kernelgpa.report.shape_folder import _figures

FLAGS = {"yes": 1.0, "no": 0.0}
# attributes may be named like a column of the library
ATTRIBUTES = {"sex": list("fmfmfmfm"), "outlier": ["x"] * 8, "time": ["dawn"] * 8, "score_1": ["high"] * 8}


def specimens(hidden=0.1):
    rng = np.random.default_rng(3)
    mean, modes = rng.standard_normal((10, 3)) * 30, rng.standard_normal((2, 10, 3))
    points = mean + np.einsum("nk,kmd->nmd", rng.standard_normal((8, 2)), modes) + 0.1 * rng.standard_normal((8, 10, 3))
    points[rng.random((8, 10)) < hidden] = np.nan
    points[5] += [400, 0, 0]
    points[7] = points[6]  # so that there is a finding
    return Observations.from_array(points, clouds=[f"skull {t}" for t in range(8)])


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    assert len(set(header)) == len(header)
    return [dict(zip(header, row, strict=True)) for row in rows]


def page_of(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text)[1])


def assert_table(folder, name, first, names, columns):
    """A CSV file has the rows and the columns of a table of the page."""
    rows = rows_of(folder / name)
    assert [row[first] for row in rows] == names
    for column in columns:
        if column["kind"] == "text":  # an attribute, which may have the name of a column of the file
            assert [row.get(f"{column['name']}_given", row[column["name"]]) for row in rows] == column["values"]
            continue
        texts = [row[column["name"]] for row in rows]
        packed = column["values"]
        shown = np.frombuffer(base64.b64decode(packed["data"]), dtype="<f4") * packed["factor"]
        values = [np.nan if text == "" else FLAGS[text] if text in FLAGS else float(text) for text in texts]
        np.testing.assert_allclose(values, shown, rtol=1e-6)  # the page has 32 bits


def assert_tables(folder):
    page = page_of(folder)
    assert_table(folder, "clouds.csv", "cloud", page["clouds"], page["cloud_table"])
    assert_table(folder, "landmarks.csv", "landmark", page["landmarks"], page["landmark_table"])
    findings = rows_of(folder / "findings.csv")
    assert len(findings) == len(page["findings"]) > 0
    for row, shown in zip(findings, page["findings"], strict=True):
        assert [row["code"], row["finding"], row["found"], row["action"]] == [
            *(shown[name] for name in ("code", "kind", "found", "action"))
        ]
        assert float(row["severity"]) == pytest.approx(shown["severity"], abs=1e-4)
        assert FLAGS[row["note"]] == shown["note"]
    return page


@pytest.mark.parametrize("model", [RigidGPA(scaling=True), KernelGPA(bandwidth=0.5, smoothing=0.1, robust=None)])
def test_every_table_of_a_registration_is_a_file(model, tmp_path):
    metadata = Metadata(kind="specimen", attributes=ATTRIBUTES, times=[0.1 * t for t in range(8)], unit="mm")
    out = kernelgpa.save(model.fit(specimens()), tmp_path / "out", metadata)
    assert_tables(out)
    assert [row["sex"] for row in rows_of(out / "clouds.csv")] == ATTRIBUTES["sex"]


@pytest.mark.parametrize("scaling", [False, True])
def test_every_table_of_a_shape_model_is_a_file(scaling, tmp_path):
    model = ShapeModel(scaling=scaling, shrinkage=0.5, bandwidth=0.5, noise=0.1).fit(specimens())
    out = kernelgpa.save(model, tmp_path / "out", Metadata(kind="specimen", attributes=ATTRIBUTES, unit="mm"))
    page = assert_tables(out)
    rows = rows_of(out / "clouds.csv")
    assert [row["score_1_given"] for row in rows] == ATTRIBUTES["score_1"]
    assert [float(row["score_1"]) for row in rows] == model.scores_[:, 0].tolist()
    assert [float(row["procrustes_distance"]) for row in rows] == model.procrustes_distances_.tolist()
    assert page["outlier_threshold"] == model.statistics_.threshold
    assert kernelgpa.save(model, out, Metadata()) == out  # an earlier result is replaced


def test_the_table_of_tuning_is_a_file(tmp_path):
    tuning = selection.tune(specimens(0.0), KernelGPA(robust=None), {"smoothing": [0.1, 1.0]}, folds=3, stiff=False)
    out = kernelgpa.save(tuning.best, tmp_path / "out", Metadata(tuning=tuning))
    for row, shown in zip(rows_of(out / "tuning.csv"), page_of(out)["tuning"]["trials"], strict=True):
        assert row["model"] == shown["model"]
        assert float(row["smoothing"]) == pytest.approx(float(dict(shown["settings"])["smoothing"]), rel=1e-5)
        for name, key in [("score", "sensor_error"), ("sensor_median", "sensor_median"), ("seconds", "seconds")]:
            assert float(row[name]) == pytest.approx(shown[key])


def test_the_titles_of_plots_are_in_the_words_of_the_files():
    model = ShapeModel(shrinkage=0.5, bandwidth=0.5, noise=0.1).fit(specimens())
    titles = [ax.get_title() for figure in _figures(model, Metadata(kind="specimen")) for ax in figure.axes]
    assert any(title.startswith("Scores of the specimens") for title in titles)
    assert not any("cloud" in title for title in titles)
