"""A loaded estimator equals the saved one; a model that cannot be loaded or saved is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conftest import scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import (
    AffineGPA,
    FormatError,
    InvalidSetting,
    KernelGPAWarning,
    Observations,
    RigidGPA,
    io,
    load,
    save,
    selection,
    uncertainty,
)
from kernelgpa.io.archive import pack_arrays, read_arrays
from kernelgpa.warps.kernels import Gaussian
from result_folders import observations

MODELS = [
    RigidGPA(),
    RigidGPA(scaling=True),
    AffineGPA(),
    fixed_tps(),
    fixed_kernel(),
    fixed_kernel(kernel="wendland", bandwidth=0.8),
    fixed_kernel(kernel=Gaussian(), modes="program"),
    fixed_kernel(inducing=12, modes=6),
    fixed_kernel(robust="geman-mcclure"),
]


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_loaded_estimator_equals_the_saved_one(model, d, tmp_path):
    data = observations(d)
    fitted = model.fit(data)
    again = load(save(fitted, tmp_path / "out"))
    assert type(again) is type(fitted)
    for name in (name for name in dir(fitted) if name.endswith("_") and not name.startswith("_")):
        one, other = getattr(again, name), getattr(fitted, name)
        if isinstance(other, np.ndarray):
            assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=name)
    queries = np.random.default_rng(0).standard_normal((30, d))
    for cloud in data.names:
        assert_allclose(again.transform(queries, cloud), fitted.transform(queries, cloud), rtol=1e-12, atol=1e-12)
    assert_allclose(again.jacobians(data.points), fitted.jacobians(data.points), rtol=1e-12, atol=1e-12)
    inside = data.clouds[2].points[:5]
    assert_allclose(again.inverse_transform(again.transform(inside, 2), 2), inside, rtol=0, atol=1e-8)
    assert [str(one) for one in again.diagnose()] == [str(one) for one in fitted.diagnose()]
    assert again.observations_.names == data.names
    assert again.observations_.landmarks == data.landmarks
    assert again.suspicious_observations(5) == fitted.suspicious_observations(5)
    if fitted._deforms:
        assert_allclose(
            again._reduced_cloud(1).cost_matrix(), fitted._reduced_cloud(1).cost_matrix(), rtol=1e-12, atol=1e-12
        )
    assert_allclose(again.fit(data).map_, fitted.map_, rtol=1e-12, atol=1e-12)


def test_mirrored_clouds_and_unseen_landmarks_are_kept(tmp_path):
    points = scene(n=6, m=40, noise=0.01)[0]
    points[2, :, 0] *= -1
    points[:, 7] = np.nan
    with pytest.warns(KernelGPAWarning):
        fitted = fixed_kernel().fit(points)
    again = load(save(fitted, tmp_path / "out"))
    assert again.mirrored_ == fitted.mirrored_ == [2]
    assert_array_equal(again.map_, fitted.map_)
    assert len(io.read(tmp_path / "out" / "map.ply").clouds[0].points) == 39


def test_a_model_of_another_format_is_refused_with_its_release(tmp_path):
    out = save(AffineGPA().fit(observations()), tmp_path / "out")
    arrays = read_arrays((out / "model.npz").read_bytes(), "model")
    header = json.loads(str(arrays["header"]))
    for change, match in (
        ({"format": 99, "kernelgpa": "7.0"}, r"kernelgpa 7.0 in format 99.*settings.toml"),
        ({"class": "os.system"}, "corrupt"),
        ({"settings": {"modes": "wrong"}}, "modes is 'wrong'"),
        ({"clouds": ["a"]}, "corrupt"),
        ({"format": float("inf")}, "no model"),
        ({"dimension": float("inf")}, "corrupt"),
    ):
        (out / "model.npz").write_bytes(pack_arrays({**arrays, "header": np.array(json.dumps({**header, **change}))}))
        with pytest.raises((FormatError, InvalidSetting), match=match):
            load(out)
    (out / "model.npz").write_bytes(b"no archive")
    with pytest.raises(FormatError, match="not a readable NPZ"):
        load(out)
    (out / "model.npz").write_bytes(pack_arrays({"points": np.zeros((2, 3, 3))}))
    with pytest.raises(FormatError, match="no model of kernelgpa"):
        load(out)
    with pytest.raises(FormatError, match="no such file"):
        load(tmp_path / "nowhere")


def test_kernels_and_names_without_a_text_cannot_be_saved(tmp_path):
    points = scene(n=4, m=20)[0]
    with pytest.raises(InvalidSetting, match="has no name and cannot be saved"):
        save(fixed_kernel(kernel=lambda r: np.exp(-r)).fit(points), tmp_path / "out")
    named = Observations.from_array(points, clouds=[(t, t) for t in range(4)])
    with pytest.raises(InvalidSetting, match=r"name \(0, 0\) cannot be saved"):
        save(fixed_kernel().fit(named), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_estimator_can_be_cross_validated(tmp_path):
    data = observations()
    again = load(save(fixed_kernel().fit(data), tmp_path / "out"))
    estimate = uncertainty(selection.cross_validate(again, data, folds=4))
    assert np.isfinite(estimate.map_covariance()[data.counts >= 2]).all()
