"""Sizes, Procrustes distances and coordinates, and results as tables."""

from __future__ import annotations

import csv
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import procrustes as scipy_procrustes

import kernelgpa
from kernelgpa import InvalidSetting, KernelGPA, Observations, RigidGPA, io
from kernelgpa.io.landmark_file import ReadOptions
from kernelgpa.report.metadata import Metadata
from kernelgpa.trust.procrustes import CONVENTIONS, procrustes_coordinates, procrustes_statistics
from shared_data import load

EPS = np.finfo(float).eps


def specimens(n=12, m=15, d=3, hidden=0.0, spread=0.1, seed=0):
    """Copies of one shape with noise, each of another size, position and orientation."""
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal((m, d))
    shapes = mean + spread * rng.standard_normal((n, m, d))
    rotations = np.linalg.qr(rng.standard_normal((n, d, d)))[0]
    rotations[:, :, 0] *= np.linalg.det(rotations)[:, None]
    points = rng.uniform(0.5, 2, (n, 1, 1)) * shapes @ rotations + 10 * rng.standard_normal((n, 1, d))
    points[rng.random((n, m)) < hidden] = np.nan
    return points


def size_of(points):
    return np.sqrt(((points - points.mean(axis=0)) ** 2).sum())


def variation(aligned):
    """The sum of squares about the mean, landmark by landmark."""
    return np.nansum((aligned - np.nanmean(aligned, axis=0)) ** 2)


@pytest.mark.parametrize("d", [2, 3])
def test_complete_clouds_have_the_textbook_sizes_and_distances(d):
    points = specimens(d=d)
    gpa = RigidGPA(scaling=True).fit(points)
    found = procrustes_statistics(gpa)
    assert_allclose(found.centroid_sizes, [size_of(one) for one in points], rtol=1e-12)
    # scipy scales the second shape to the best size: its disparity is the squared full distance, 1 - cos^2
    full = np.array([scipy_procrustes(gpa.map_, one)[2] for one in points])
    cosines = 1 - found.distances**2 / 2
    assert_allclose(1 - cosines**2, full, rtol=1e-9)


def test_sizes_of_partly_seen_clouds_are_those_of_the_whole():
    """Exactly for similar copies, whatever is hidden."""
    points = specimens(spread=0.0)
    whole = [size_of(one) for one in points]
    rng = np.random.default_rng(1)
    points[rng.random(points.shape[:2]) < 0.3] = np.nan
    found = procrustes_statistics(RigidGPA(scaling=True).fit(points))
    assert_allclose(found.centroid_sizes, whole, rtol=1e-6)  # the fit of exact copies ends at its own tolerance
    assert found.distances.max() < 1e-5


def test_an_outlier_is_above_the_whisker():
    points = specimens(n=20)
    points[7, 3] += 5 * size_of(points[7]) * np.array([0.3, 0, 0])
    found = procrustes_statistics(RigidGPA(scaling=True).fit(points))
    assert found.is_outlier[7]
    assert_array_equal(found.is_outlier, found.distances > found.threshold)


@pytest.mark.parametrize("hidden", [0.0, 0.2])
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_coordinates_are_similar_copies_of_the_clouds(convention, hidden):
    points = specimens(hidden=hidden)
    aligned, mean = procrustes_coordinates(RigidGPA(scaling=True).fit(points), convention)
    assert mean.shape == points.shape[1:]
    for one, given in zip(aligned, points, strict=True):
        seen = ~np.isnan(given[:, 0])
        assert_array_equal(np.isnan(one), np.isnan(given))
        ratio = size_of(one[seen]) / size_of(given[seen])
        distances = [np.linalg.norm(x[seen][:, None] - x[seen], axis=2) for x in (one, ratio * given)]
        assert_allclose(distances[0], distances[1], atol=1e-12 * np.abs(distances[1]).max())


def test_the_convention_of_gpagen_is_unit_size_and_least_variation():
    """No rotation of a cloud, about the mean of all, brings it closer: the conditions that gpagen iterates to."""
    aligned, mean = procrustes_coordinates(RigidGPA(scaling=True).fit(specimens()), "partial")
    assert_allclose([size_of(one) for one in aligned], 1, rtol=1e-12)
    assert_allclose(np.linalg.norm(mean), 1, rtol=1e-12)
    average = aligned.mean(axis=0)
    assert_allclose(average / np.linalg.norm(average), mean, atol=1e-10)
    for one in aligned:
        U, s, V = np.linalg.svd(one.T @ average)
        assert_allclose(U @ V, np.eye(3), atol=1e-8)
        assert s.min() > 0


def test_the_full_convention_scales_each_cloud_to_the_mean():
    gpa = RigidGPA(scaling=True).fit(specimens())
    aligned, mean = procrustes_coordinates(gpa, "full")
    assert_allclose([np.sum(one * mean) / np.sum(one**2) for one in aligned], 1, rtol=1e-9)
    assert np.sum((aligned - mean) ** 2) < np.sum((procrustes_coordinates(gpa, "partial")[0] - mean) ** 2)
    with pytest.raises(InvalidSetting, match="expected one of registered, partial, full"):
        procrustes_coordinates(gpa, "gpagen")


def first_scores(aligned):
    flat = (aligned - aligned.mean(axis=0)).reshape(len(aligned), -1)
    U, s, _ = np.linalg.svd(flat, full_matrices=False)
    return U[:, 0] * s[0]


@pytest.mark.parametrize("name", ["brains", "plethodon"])
def test_similarity_registration_keeps_the_variance_of_shape_and_kernel_warps_do_not(name):
    """Why Procrustes coordinates are those of the poses.  The reference is SciPy, specimen by specimen."""
    points = load(f"data/landmarks/{name}.npz")["points"]
    similarity, kernel = RigidGPA(scaling=True).fit(points), KernelGPA(smoothing=0.1, bandwidth=0.25).fit(points)
    aligned, mean = procrustes_coordinates(similarity, "full")
    reference = np.stack([scipy_procrustes(mean, one)[1] for one in points])
    assert variation(aligned) == pytest.approx(variation(reference), rel=1e-6)
    assert abs(np.corrcoef(first_scores(aligned), first_scores(reference))[0, 1]) > 1 - 1e-6
    warped = kernel.transform_clouds(points)
    unit = warped / np.linalg.norm(kernel.map_)
    assert variation(unit) < 0.5 * variation(aligned)
    posed, _ = procrustes_coordinates(kernel, "registered")  # of a kernel registration too: poses, not warps
    assert variation(posed / np.linalg.norm(kernel.map_)) > variation(aligned)


# -- tables --


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("model", [RigidGPA(), RigidGPA(scaling=True), KernelGPA(robust="tukey")], ids=repr)
def test_every_registration_has_its_tables(model, tmp_path):
    points = specimens(hidden=0.05)
    names, labels = [f"skull, {t}" for t in range(12)], [f"LM {j}" for j in range(15)]
    gpa = model.fit(Observations.from_array(points, clouds=names, landmarks=labels))
    sex = ["f", "m"] * 6
    out = kernelgpa.save(
        gpa, tmp_path / "out", Metadata(kind="specimen", attributes={"sex": sex, "outlier": ["x"] * 12})
    )
    clouds, landmarks = rows_of(out / "clouds.csv"), rows_of(out / "landmarks.csv")
    statistics = procrustes_statistics(gpa)
    assert [row["cloud"] for row in clouds] == names
    assert [row["sex"] for row in clouds] == sex
    assert {row["outlier_given"] for row in clouds} == {"x"}
    assert [float(row["centroid_size"]) for row in clouds] == statistics.centroid_sizes.tolist()
    assert [row["outlier"] for row in clouds] == ["yes" if one else "no" for one in statistics.is_outlier]
    assert [row["landmark"] for row in landmarks] == labels
    aligned = io.read_clouds(out / "aligned.csv")  # the layout that the library reads, and R
    assert_array_equal(aligned.points, procrustes_coordinates(gpa)[0])
    assert (aligned.names, aligned.landmarks) == (names, labels)
    assert len(rows_of(out / "findings.csv")) == len(gpa.diagnose())


def test_times_of_frames_are_in_the_poses_and_in_the_table(tmp_path):
    gpa = RigidGPA().fit(specimens())
    times = np.arange(12) / 120
    out = kernelgpa.save(gpa, tmp_path / "out", Metadata(times=times.tolist()))
    stamps = [float(line.split()[0]) for line in (out / "poses.tum").read_text().splitlines()[1:]]
    assert stamps == times.tolist()
    assert [float(row["time"]) for row in rows_of(out / "clouds.csv")] == times.tolist()


@pytest.mark.parametrize("d", [2, 3])
def test_frames_hold_what_the_estimator_holds(d):
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    points = specimens(d=d, hidden=0.1)
    names = [f"skull {t}" for t in range(12)]
    gpa = KernelGPA().fit(Observations.from_array(points, clouds=names))
    axes = list("xyz"[:d])
    frame = gpa.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert_array_equal(frame[axes].to_numpy(), gpa.map_)
    deviations = np.nanstd(gpa.transform_clouds(points), axis=0, ddof=1)
    assert_allclose(frame[[f"{axis}_sd" for axis in axes]].to_numpy(), deviations, rtol=1e-9)
    residuals = gpa.residuals_frame()
    assert len(residuals) == np.isfinite(points[..., 0]).sum()
    assert_same = residuals.set_index(["cloud", "landmark"])["residual"].unstack().loc[names].to_numpy()
    assert_array_equal(assert_same, np.where(np.isfinite(points[..., 0]), gpa.residuals_, np.nan))
    poses = gpa.poses_frame()
    assert list(poses.index) == names
    assert_array_equal(poses[[f"t{axis}" for axis in axes]].to_numpy(), gpa.translations_)
    data = gpa.to_xarray()
    assert isinstance(data, xarray.Dataset)
    assert_array_equal(data["points"].sel(cloud="skull 3"), points[3])
    assert Observations.from_frame(data["points"]).names == gpa.observations_.names
    posed = data["points"].values @ data["rotation"].values.transpose(0, 2, 1) + data["translation"].values[:, None]
    assert_allclose(data["aligned"], posed, rtol=0, atol=100 * EPS * np.nanmax(np.abs(posed)))


def test_a_library_that_is_not_installed_is_named_with_its_remedy(monkeypatch):
    gpa = RigidGPA().fit(specimens())
    for name, method in (("pandas", gpa.to_frame), ("xarray", gpa.to_xarray)):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(InvalidSetting, match=rf"{name} is not installed.*pip install 'kernelgpa\[tables\]'"):
            method()


# -- attributes and links --


def test_attributes_are_matched_by_name_and_kept_with_the_model(tmp_path):
    from kernelgpa.io.attributes import read_attributes
    from kernelgpa.report.result_folder import load_with_metadata

    table = tmp_path / "species.csv"
    table.write_text("file,species,age\nb.mrk.json,gorilla,NA\na,pan,3\nz,pongo,9\n", encoding="utf-8")
    found, notes = read_attributes(table, ["a", "b", "c"], [".mrk.json"])
    assert found == {"species": ("pan", "gorilla", ""), "age": ("3", "", "")}
    assert [note.partition(": ")[2] for note in notes] == ["1 cloud has no row ('c')", "1 row is of no cloud ('z')"]
    with pytest.raises(kernelgpa.FormatError, match="no row is named like a cloud"):
        read_attributes(table, ["q"], [])
    gpa = RigidGPA().fit(specimens(n=3))
    out = kernelgpa.save(gpa, tmp_path / "out", Metadata(kind="specimen", attributes=found))
    stored = load_with_metadata(out)[1]
    assert (stored.kind, stored.attributes) == ("specimen", found)


def test_links_are_labels_or_numbers(tmp_path):
    from kernelgpa.io.links import read_links

    path = tmp_path / "links.txt"
    path.write_text("nose, left ear\n2 3\n", encoding="utf-8")
    assert read_links(path, ["nose", "left ear", "chin"]).tolist() == [[0, 1], [1, 2]]
    path.write_text("nose chin\nnose 4\n", encoding="utf-8")
    with pytest.raises(kernelgpa.FormatError, match=r"line 2: there is no landmark '4'"):
        read_links(path, ["nose", "left ear", "chin"])


def test_the_wireframe_of_a_morphologika_file_is_read(tmp_path):
    text = "[individuals]\n2\n[landmarks]\n4\n[dimensions]\n3\n[wireframe]\n1 2\n2 3\n[rawpoints]\n"
    rng = np.random.default_rng(0)
    body = "".join(f"'#{name}\n" + "".join(" ".join(map(str, p)) + "\n" for p in rng.random((4, 3))) for name in "ab")
    (tmp_path / "a.txt").write_text(text + body, encoding="utf-8")
    assert io.read_clouds(tmp_path / "a.txt", ReadOptions()).links.tolist() == [[0, 1], [1, 2]]
    (tmp_path / "a.txt").write_text(text.replace("2 3\n[raw", "2 5\n[raw") + body, encoding="utf-8")
    with pytest.raises(kernelgpa.FormatError, match="line 9: found '2 5'; expected two or more landmarks from 1 to 4"):
        io.read(tmp_path / "a.txt")


# -- words --


def test_messages_are_in_the_words_of_the_files():
    from kernelgpa.report.vocabulary import vocabulary

    text = "3 clouds of 2 landmarks; cloud 'cloud 7' of clouds.csv is far from the map in map.csv. Clouds: consistent"
    assert vocabulary("cloud").translate(text) == text
    assert vocabulary("frame").translate(text) == (
        "3 frames of 2 markers; frame 'cloud 7' of clouds.csv is far from the map in map.csv. Frames: consistent"
    )
    assert vocabulary("frame").translate("sensor-frame error") == "error in own coordinates"
    assert "2 landmarks; specimen 'cloud 7'" in vocabulary("specimen").translate(text)
    assert "the mean shape in map.csv" in vocabulary("specimen").translate(text)
