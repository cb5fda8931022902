"""Published data are found in their folders, read, and registered by the same methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

from conftest import scene
from kernelgpa import FormatError, io
from kernelgpa.experiments import published
from kernelgpa.experiments.published.data_folder import PUBLISHED, DataSet, read_data_folder
from kernelgpa.experiments.scoring import FULL_TUNING
from shared_data import SHARED

# tuning is tested elsewhere, and takes most of the time
FEW_SETTINGS = replace(
    FULL_TUNING, kernel={"bandwidth": [0.25, 1.0], "smoothing": [1e-2]}, thin_plate={"smoothing": [1.0]}
)


def cells(arrays):
    row = np.empty((1, len(arrays)), dtype=object)
    for t, array in enumerate(arrays):
        row[0, t] = array
    return row


def only(folder):
    (found,) = read_data_folder(folder).data
    return found


def clouds(n=4, m=30, hidden=0.0, **options):
    return scene(n=n, m=m, hidden=hidden, noise=0.01, **options)[0]


def test_point_files_with_a_matrix_of_correspondences(tmp_path):
    points = clouds(hidden=0.3)
    matrix = np.zeros((30, 4), dtype=int)
    for t, cloud in enumerate(points):
        seen = np.flatnonzero(~np.isnan(cloud[:, 0]))
        shuffled = np.random.default_rng(t).permutation(seen)
        matrix[shuffled, t] = np.arange(1, len(seen) + 1)
        rows = np.hstack([cloud[shuffled], np.ones((len(seen), 5))])  # coordinates, then descriptors
        np.savetxt(tmp_path / f"points{t}.csv", rows, delimiter=",", fmt="%.17g")
    np.savetxt(tmp_path / "CorrespondenceMatrix.txt", matrix, fmt="%d")
    np.testing.assert_array_equal(only(tmp_path).points, points)
    assert "TOPACS" not in {one.title for one in read_data_folder(tmp_path).missing()}
    matrix[3, 1] = 99
    np.savetxt(tmp_path / "CorrespondenceMatrix.txt", matrix, fmt="%d")
    with pytest.raises(FormatError, match=r"landmark 4 is row 99 of points1\.csv"):
        read_data_folder(tmp_path)
    (tmp_path / "points2.csv").unlink()
    with pytest.raises(FormatError, match=r"points2\.csv: there is no such file; unpack the archive again"):
        read_data_folder(tmp_path)


def test_clouds_of_plain_text(tmp_path):
    folder = tmp_path / "SemisyntheticLiver" / "PointClouds"
    folder.mkdir(parents=True)
    points = clouds(n=11)
    for t, cloud in enumerate(points):
        np.savetxt(folder / f"cloud{t}.txt", cloud, fmt="%.17g")  # cloud10 comes after cloud9
    np.testing.assert_array_equal(only(tmp_path).points, points)
    assert only(tmp_path).name == "data-SemisyntheticLiver"
    (folder / "cloud3.txt").write_text("1 2 3\n1 2\n")
    with pytest.raises(FormatError, match=r"cloud3\.txt, line 2: found 2 numbers; expected 3"):
        read_data_folder(tmp_path)


def test_meshes_with_the_vertices_that_each_cloud_saw(tmp_path):
    points, rng = clouds(), np.random.default_rng(0)
    for t, cloud in enumerate(points):
        specimen = io.LabelledCloud("c", cloud, tuple(map(str, range(1, 31))))
        io.write(tmp_path / f"deformed_{t}.off", io.LandmarkFile((specimen,), labelled=False))
        seen = np.sort(rng.choice(30, 20, replace=False))
        points[t, np.setdiff1d(np.arange(30), seen)] = np.nan
        np.savetxt(tmp_path / f"index_{t}.txt", seen + 1, fmt="%d")
    np.testing.assert_allclose(only(tmp_path).points, points)
    (tmp_path / "index_2.txt").write_text("31\n")
    assert any("points that the cloud does not have" in line for line in read_data_folder(tmp_path).unread)


def test_frames_of_the_toy_rug(tmp_path):
    (tmp_path / "stereoToyRug").mkdir()
    frames = np.random.default_rng(0).normal(size=(7, 3, 20))
    np.savetxt(tmp_path / "stereoToyRug" / "X.txt", frames.reshape(21, 20), fmt="%.17g")
    found = only(tmp_path)
    np.testing.assert_allclose(found.points, 100 * frames[::3].transpose(0, 2, 1))


def test_points_in_images(tmp_path):
    folder = tmp_path / "handBag" / "correspData2D" / "GT"
    folder.mkdir(parents=True)
    images = [np.vstack([np.random.default_rng(t).normal(size=(2, 15)), np.ones(15)]) for t in range(3)]
    names = cells(["a", "b", "c"])
    savemat(folder / "Corresp.mat", {"Corresp": {"ptsImg": cells(images), "imNames": names, "size": 3.0}})
    np.testing.assert_array_equal(only(tmp_path).points, [image[:2].T for image in images])
    assert {"handbag"} == {one.title for one in PUBLISHED} - {one.title for one in read_data_folder(tmp_path).missing()}


def test_hidden_points_are_scored(tmp_path):
    everything = clouds(n=5, m=60)
    points, test = everything[:, :45], everything[:, 45:]
    variables = {"DataCell": cells(points.transpose(0, 2, 1)), "LostDataCell": cells(test.transpose(0, 2, 1))}
    savemat(tmp_path / "liver_raw_dataset.mat", variables)
    found = only(tmp_path)
    np.testing.assert_array_equal(found.test, test)
    (table,) = published.outcome_of(found, FEW_SETTINGS).tables
    assert table.row("all: mean")["kernel (program)"] < table.row("all: mean")["rigid"]
    variables["LostDataCell"] = variables["LostDataCell"][:, :3]
    savemat(tmp_path / "liver_raw_dataset.mat", variables)
    assert "LostDataCell does not fit" in read_data_folder(tmp_path).unread[0]


def test_landmarks_by_the_number_of_clouds_that_see_them():
    points = clouds(n=5, m=70)
    for j in range(40):
        points[[j % 5, (j + 1) % 5], j] = np.nan
    outcome = published.outcome_of(DataSet("lungs", points), FEW_SETTINGS)
    assert {label.split(":")[0] for label, _ in outcome.tables[0].rows} == {"seen in 3", "seen in 5"}
    assert [claim.text for claim in outcome.claims if claim.text.startswith("paper")]


def test_data_of_the_user_are_registered_by_the_same_methods(tmp_path):
    points = clouds(n=5, m=40, hidden=0.1, seed=2)
    specimens = tuple(io.LabelledCloud(f"c{t}", own, tuple(map(str, range(1, 41)))) for t, own in enumerate(points))
    io.write(tmp_path / "handbag.mat", io.LandmarkFile(specimens, labelled=False))
    np.savez(tmp_path / "faces.npz", vertices=clouds(n=5, m=40))
    (tmp_path / "notes.txt").write_text("nothing to read here")
    (tmp_path / "again").symlink_to(tmp_path)  # a loop
    first, second, rest = published.run(published.require_data(tmp_path), FEW_SETTINGS)
    assert [first.name, second.name] == ["data-faces", "data-handbag"]
    assert np.isfinite([values for _, values in second.tables[0].rows]).all()
    row = second.tables[0].row("sensor error, median")
    assert row["kernel (program)"] < row["rigid"]
    assert [line for line in rest.notes if line.startswith("not read:") and "notes.txt" in line]
    assert len([line for line in rest.notes if line.startswith("not here:")]) == len(PUBLISHED)


def test_unreadable_data_are_reported_and_the_others_are_registered(tmp_path):
    np.savez(tmp_path / "good.npz", vertices=clouds(n=4, m=40))
    np.savez(tmp_path / "few.npz", points=clouds(n=4, m=8))
    np.savez(tmp_path / "text.npz", vertices=np.full((2, 30, 3), "a"))
    np.savez(tmp_path / "holes.npz", vertices=clouds(n=4, m=40, hidden=0.2))
    np.savez(tmp_path / "weighted.npz", points=clouds(), weights=np.full((4, 30), 0.5))
    unconnected = clouds(n=2)
    unconnected[0, :15], unconnected[1, 15:] = np.nan, np.nan
    np.savez(tmp_path / "unconnected.npz", points=unconnected)
    (tmp_path / "sub").mkdir()
    np.savez(tmp_path / "sub" / "good.npz", vertices=clouds(n=4, m=40))
    outcomes = {one.name: one for one in published.run(published.require_data(tmp_path), FEW_SETTINGS)}
    assert {"data-good", "data-good-2", "data-few", "data-unconnected", "data"} == set(outcomes)
    assert outcomes["data-unconnected"].about.startswith("Not registered: ")
    assert "8 folds" in outcomes["data-few"].tables[0].title
    notes = " ".join(outcomes["data"].notes)
    for reason in ("2 x 30 x 3 of <U1", "values that are not finite", "it has weights"):
        assert reason in notes


def test_the_error_for_a_folder_without_data_names_where_data_are_published(tmp_path):
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(FormatError, match=r"published as handBag/correspData2D/GT/Corresp\.mat \(handbag_v1p0 at"):
            published.require_data(folder)


@pytest.mark.slow
def test_the_real_faces_order_the_methods_as_the_paper_does():
    if not (SHARED / "data" / "faces.npz").exists():
        pytest.skip("the real faces are not beside this checkout")
    faces = next(one for one in read_data_folder(SHARED / "data").data if one.name == "data-faces")
    each, table = published.outcome_of(faces, FEW_SETTINGS).tables
    mean = table.row("all: mean")
    assert mean["kernel (program)"] < mean["thin-plate"] < mean["affine"] < mean["rigid"]
    assert [label for label, _ in each.rows] == [
        f"surface {t}: {statistic}" for t in range(1, 12) for statistic in ("min", "max", "mean")
    ]
