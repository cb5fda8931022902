"""Files of shape models, and the commands shape and impute."""

from __future__ import annotations

import base64
import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelgpa
from kernelgpa import FormatError, InvalidSetting, ShapeModel, io, plotting
from kernelgpa.cli import main
from kernelgpa.io.archive import pack_arrays, read_arrays
from kernelgpa.io.shape_file import from_bytes, to_bytes

FIXED = {"shrinkage": 0.2, "bandwidth": 0.5, "noise": 0.01}
LABELS = tuple(f"L{j}" for j in range(10))


def clouds(hidden=0.1, n=12, d=3):
    rng = np.random.default_rng(0)
    modes = rng.standard_normal((2, 10, d))
    points = 3 * rng.standard_normal((10, d)) + np.einsum("nk,kmd->nmd", 0.3 * rng.standard_normal((n, 2)), modes)
    points += 0.01 * rng.standard_normal(points.shape)
    return np.where((rng.random((n, 10)) < hidden)[:, :, None], np.nan, points)


def write(path, points):
    own = tuple(io.LabelledCloud(f"c{t}", one, LABELS) for t, one in enumerate(points))
    io.write(path, io.LandmarkFile(own, labelled=True))


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["kernelgpa", *map(str, words)])
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.fixture(scope="module")
def model():
    return ShapeModel(**FIXED).fit(clouds())


def test_a_loaded_model_answers_as_the_original_did(model, tmp_path):
    kernelgpa.save(model, tmp_path / "shapes")
    loaded = kernelgpa.load(tmp_path / "shapes")
    for name in ("mean_", "modes_", "variances_", "scores_", "aligned_", "outlier_scores_", "residuals_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    for a, b in zip(
        loaded.impute(clouds(0.2), return_cov=True), model.impute(clouds(0.2), return_cov=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert loaded.get_params() == model.get_params()
    assert loaded.expected_error_ == model.expected_error_


def test_broken_files_are_refused(model):
    arrays = read_arrays(to_bytes(model), "model.npz")
    for name in arrays:
        rest = {key: value for key, value in arrays.items() if key != name}
        with pytest.raises(FormatError):
            from_bytes(pack_arrays(rest), "model.npz")
        if name != "header" and arrays[name].ndim:
            with pytest.raises(FormatError):
                from_bytes(pack_arrays({**rest, name: arrays[name][:-1]}), "model.npz")
    for name in ("mean", "covariance", "modes", "completed", "linear"):
        broken = arrays[name].copy()
        broken.flat[0] = np.nan
        with pytest.raises(FormatError):
            from_bytes(pack_arrays({**arrays, name: broken}), "model.npz")
    with pytest.raises(FormatError):
        from_bytes(b"nothing", "model.npz")


@pytest.mark.parametrize("name", ["data.csv", "data.npz", "data.tps"])
def test_impute_fills_in_what_is_missing_and_nothing_else(name, tmp_path, monkeypatch, capsys):
    points = clouds()
    path = tmp_path / name
    if name.endswith(".tps"):
        own = tuple(io.LabelledCloud(f"c{t}", one, tuple(map(str, range(1, 11)))) for t, one in enumerate(points))
        io.write(path, io.LandmarkFile(own, labelled=False))
    else:
        write(path, points)
    before = io.read(path)
    assert run(monkeypatch, "impute", path, "-o", tmp_path / "filled") == 0
    after = io.read(tmp_path / "filled" / name)
    for one, other in zip(before.clouds, after.clouds, strict=True):
        seen = ~np.isnan(one.points[:, 0])
        np.testing.assert_array_equal(one.points[seen], other.points[seen])
        assert np.isfinite(other.points).all()
        assert one.labels == other.labels
    with (tmp_path / "filled" / "standard_deviations.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == np.isnan(points[:, :, 0]).sum()
    assert all(float(row["standard_deviation"]) > 0 for row in rows)
    capsys.readouterr()


@pytest.mark.parametrize("name", ["walk.c3d", "walk.trc"])
def test_impute_fills_the_gaps_of_marker_files(name, tmp_path, monkeypatch, capsys):
    """These formats read a point at the origin as not measured."""
    points = np.float32(clouds()).astype(np.float64)
    labels = tuple(f"m{j}" for j in range(points.shape[1]))
    own = tuple(io.LabelledCloud(f"walk_{t + 1}", one, labels, time=t / 100) for t, one in enumerate(points))
    io.write(tmp_path / name, io.LandmarkFile(own, labelled=True, unit="mm"))
    before = io.read(tmp_path / name)
    assert run(monkeypatch, "impute", tmp_path / name, "-o", tmp_path / "filled") == 0
    after = io.read(tmp_path / "filled" / name)
    for one, other in zip(before.clouds, after.clouds, strict=True):
        seen = ~np.isnan(one.points[:, 0])
        assert np.array_equal(other.points[seen], one.points[seen])
        assert np.isfinite(other.points).all()
    capsys.readouterr()


@pytest.mark.parametrize("method", ["kernel", "shape"])
def test_impute_takes_the_method(method, tmp_path, monkeypatch, capsys):
    write(tmp_path / "data.csv", clouds())
    assert run(monkeypatch, "impute", tmp_path / "data.csv", "-o", tmp_path / "filled", "--method", method) == 0
    assert all(np.isfinite(one.points).all() for one in io.read(tmp_path / "filled" / "data.csv").clouds)
    capsys.readouterr()


def test_landmarks_that_a_file_does_not_list_are_added(tmp_path, monkeypatch, capsys):
    for t, points in enumerate(clouds(hidden=0.0)):
        kept = [j for j in range(10) if j != t % 5]
        cloud = io.LabelledCloud(f"c{t}", points[kept], tuple(LABELS[j] for j in kept))
        io.write(tmp_path / f"c{t}.mrk.json", io.LandmarkFile((cloud,), labelled=True, frame="LPS"))
    files = sorted(tmp_path.glob("*.mrk.json"))
    assert run(monkeypatch, "impute", *files, "-o", tmp_path / "filled") == 0
    for path in files:
        (cloud,) = io.read(tmp_path / "filled" / path.name).clouds
        assert set(cloud.labels) == set(LABELS)
    capsys.readouterr()


def test_a_format_that_cannot_be_written_back_is_named_before_anything_is_written(tmp_path, monkeypatch, capsys):
    points = clouds()
    own = tuple(io.LabelledCloud(f"c{t}", one, LABELS) for t, one in enumerate(points))
    io.write(tmp_path / "a.csv", io.LandmarkFile(own, labelled=True))
    text = (tmp_path / "a.csv").read_text()
    for folder in ("one", "two"):  # two files of the same name
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").write_text(text.replace("c", f"{folder}c", 1) if folder == "two" else text)
    code = run(monkeypatch, "impute", tmp_path / "one/a.csv", tmp_path / "two/a.csv", "-o", tmp_path / "filled")
    assert code == 2
    assert "a.csv" in capsys.readouterr().err
    assert not (tmp_path / "filled").exists()


def test_an_existing_folder_is_not_overwritten(tmp_path, monkeypatch, capsys):
    write(tmp_path / "data.csv", clouds())
    assert run(monkeypatch, "impute", tmp_path / "data.csv", "-o", tmp_path) == 2
    assert run(monkeypatch, "shape", tmp_path / "data.csv", "-o", tmp_path) == 2
    capsys.readouterr()


def test_shape_writes_tables_that_agree_with_the_model(tmp_path, monkeypatch, capsys):
    points = clouds()
    points[:, 3] = np.nan  # a landmark that no cloud saw is named and left out
    write(tmp_path / "data.csv", points)
    assert run(monkeypatch, "shape", tmp_path / "data.csv", "-o", tmp_path / "shapes", "--modes", 2) == 0
    assert "'L3'" in capsys.readouterr().err
    loaded = kernelgpa.load(tmp_path / "shapes")
    with (tmp_path / "shapes" / "clouds.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    np.testing.assert_array_equal([float(row["score_2"]) for row in rows], loaded.scores_[:, 1])
    aligned = np.stack([one.points for one in io.read(tmp_path / "shapes" / "aligned.csv").clouds])
    np.testing.assert_array_equal(aligned, loaded.aligned_)
    page = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "shapes" / "report.html").read_text())[1])
    np.testing.assert_allclose(page["shapes"]["shares"], loaded.explained_variance_ratio_[:20], rtol=1e-12)
    steps = np.frombuffer(base64.b64decode(page["shapes"]["modes"]["data"]), dtype="<f4").reshape(2, 9, 3)
    expected = np.sqrt(loaded.variances_)[:, None, None] * loaded.modes_
    np.testing.assert_allclose(steps * page["shapes"]["modes"]["factor"], expected, rtol=1e-6)  # 32 bits
    assert run(monkeypatch, "shape", tmp_path / "data.csv", "-o", tmp_path / "shapes") == 0  # replaces an earlier one
    capsys.readouterr()


def test_shape_of_a_result_folder_uses_its_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data.csv", clouds())
    assert run(monkeypatch, "register", "data.csv", "-o", "out", "--method", "rigid") == 0
    assert run(monkeypatch, "shape", "out", "-o", "shapes") == 0
    assert kernelgpa.load("shapes").observations_.names == kernelgpa.load("out").observations_.names
    capsys.readouterr()


def test_attributes_are_columns_of_the_shape_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    points = clouds()
    write(tmp_path / "data.csv", points)
    names = [one.name for one in io.read("data.csv").clouds]
    rows = [f"{name},{'pan' if t % 2 else 'gorilla'},{t}" for t, name in enumerate(names)]
    Path("species.csv").write_text("\n".join(["cloud,species,outlier", *rows[::-1]]) + "\n", encoding="utf-8")
    assert run(monkeypatch, "shape", "data.csv", "-o", "shapes", "--metadata", "species.csv", "--match", "label") == 0
    capsys.readouterr()
    with Path("shapes/clouds.csv").open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [row["cloud"] for row in table] == names
    assert [row["species"] for row in table] == ["pan" if t % 2 else "gorilla" for t in range(len(names))]
    assert [row["outlier_given"] for row in table] == [str(t) for t in range(len(names))]  # outlier is a column of ours


def test_scores_are_drawn_in_groups_and_wrong_groups_are_refused():
    model = ShapeModel(shrinkage=0.5, bandwidth=0.5, noise=0.1).fit(clouds())
    n = len(model.scores_)
    drawn = plotting.score_scatter(model, groups=["a", "b"] * (n // 2) + ["a"] * (n % 2))
    texts = {text.get_text() for text in drawn.get_legend().get_texts()}
    assert {"a", "b"} <= texts
    with pytest.raises(InvalidSetting, match=f"expected one for each of {n} clouds"):
        plotting.score_scatter(model, groups=["a"])


def test_new_files_are_completed_by_a_model_that_was_saved(model, tmp_path, monkeypatch, capsys):
    """Also a single file, and landmarks that it does not list."""
    named = ShapeModel(**FIXED).fit([(one[~np.isnan(one[:, 0])], _seen_labels(one)) for one in clouds()])
    kernelgpa.save(named, tmp_path / "shapes")
    whole = clouds(hidden=0.0)[5] + [100.0, 0.0, 0.0]
    kept = [0, 1, 2, 4, 6, 7, 8, 9]
    cloud = io.LabelledCloud("new", whole[kept], tuple(LABELS[j] for j in kept))
    io.write(tmp_path / "new.mrk.json", io.LandmarkFile((cloud,), labelled=True, frame="LPS"))
    options = ("-o", tmp_path / "filled", "--model", tmp_path / "shapes")
    assert run(monkeypatch, "impute", tmp_path / "new.mrk.json", *options) == 0
    (found,) = io.read(tmp_path / "filled" / "new.mrk.json").clouds
    expected, covariances = named.impute(np.where(np.isin(np.arange(10), kept)[:, None], whole, np.nan), True)
    position = dict(zip(found.labels, found.points, strict=True))
    # the format keeps the digits that seen points need
    np.testing.assert_allclose([position[label] for label in LABELS], expected[0], rtol=1e-12)
    with (tmp_path / "filled" / "standard_deviations.csv").open() as stream:
        rows = {row["landmark"]: float(row["standard_deviation"]) for row in csv.DictReader(stream)}
    deviations = np.sqrt(np.trace(covariances[0, [3, 5]], axis1=1, axis2=2) / 3)
    np.testing.assert_allclose([rows["L3"], rows["L5"]], deviations, rtol=1e-12)
    capsys.readouterr()


def _seen_labels(points):
    return [LABELS[j] for j in np.flatnonzero(~np.isnan(points[:, 0]))]


def test_a_folder_without_a_shape_model_and_other_landmarks_are_refused(model, tmp_path, monkeypatch, capsys):
    write(tmp_path / "data.csv", clouds())
    (tmp_path / "empty").mkdir()
    options = ("-o", tmp_path / "filled", "--model")
    assert run(monkeypatch, "impute", tmp_path / "data.csv", *options, tmp_path / "empty") == 2
    assert "no shape model" in capsys.readouterr().err
    kernelgpa.save(model, tmp_path / "shapes")  # its landmarks are 0 to 9, those of the file L0 to L9
    assert run(monkeypatch, "impute", tmp_path / "data.csv", *options, tmp_path / "shapes") == 2
    printed = capsys.readouterr().err
    assert "the model has no landmark 'L0'" in printed
    assert "give --match number or --label-pattern" in printed
    assert not (tmp_path / "filled").exists()
