"""A map does not depend on the positions, the names, the order and the unit of the clouds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from conftest import STANDARD_MODELS, random_rotation, scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import TPSGPA, Observations

MODELS = [*STANDARD_MODELS, fixed_kernel(kernel="wendland", bandwidth=1.0, inducing=12)]
every_model = pytest.mark.parametrize("model", MODELS, ids=repr)
seeds = st.integers(0, 10_000)


def size(array):
    return np.nanmax(np.abs(array))


@every_model
@given(seed=seeds, d=st.sampled_from([2, 3]))
def test_translations_and_rotations_of_the_clouds_do_not_change_the_map(model, seed, d):
    points, _ = scene(d=d, seed=seed)
    rng = np.random.default_rng(seed)
    rotations = np.stack([random_rotation(d, rng) for _ in points])
    moved = np.einsum("tij,tmj->tmi", rotations, points) + rng.uniform(-5, 5, (len(points), 1, d))
    before = model.fit(points)
    map_before, poses_before, warps = before.map_, before.rotations_, before.warps_
    after = model.fit(moved)
    # eigenvectors amplify rounding by 1 / gap, which is below 1e4 on these scenes
    assert_allclose(after.map_, map_before, rtol=0, atol=1e-9 * size(map_before))
    assert_allclose(after.rotations_ @ rotations, poses_before, atol=1e-9)
    seen = ~np.isnan(points[0, :, 0])
    assert_allclose(after.warps_[0](moved[0, seen]), warps[0](points[0, seen]), atol=1e-9 * size(map_before))


@every_model
@given(seed=seeds, d=st.sampled_from([2, 3]))
def test_order_and_names_of_clouds_and_landmarks_do_not_matter(model, seed, d):
    points, _ = scene(d=d, seed=seed)
    n, m, _ = points.shape
    rng = np.random.default_rng(seed)
    clouds, landmarks = rng.permutation(n), rng.permutation(m)
    plain = model.fit(points).map_
    shuffled = Observations.from_array(
        points[clouds][:, landmarks], clouds=[f"cloud {t}" for t in clouds], landmarks=[f"p{j}" for j in landmarks]
    )
    assert_allclose(model.fit(shuffled).map_, plain[landmarks], rtol=0, atol=1e-9 * size(plain))


@every_model
@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e9])
def test_the_unit_only_scales_the_map(model, unit, dimension):
    points, _ = scene(d=dimension, seed=1)
    plain = model.fit(points).map_
    if isinstance(model, TPSGPA):  # bending energy has a unit, and so has its smoothing
        model = fixed_tps(control_points=3, smoothing=0.01 * unit ** (4 - dimension), modes=model.modes)
    scaled = model.fit(points * unit).map_
    assert_allclose(scaled / unit, plain, rtol=0, atol=1e-6 * size(plain))


@every_model
def test_clouds_far_from_the_origin_give_the_same_map(model, dimension):
    points, _ = scene(d=dimension, seed=2)
    plain = model.fit(points).map_
    offsets = np.random.default_rng(0).uniform(-1e6, 1e6, (len(points), 1, dimension))
    assert_allclose(model.fit(points + offsets).map_, plain, rtol=0, atol=1e-6 * size(plain))


@every_model
def test_the_same_input_gives_the_same_output_to_the_bit(model, dimension):
    points, _ = scene(d=dimension, seed=4)
    first = model.fit(points).map_.tobytes()
    assert model.fit(points).map_.tobytes() == first


@every_model
def test_the_map_is_centred_in_its_principal_axes_and_keeps_the_handedness(model, dimension):
    points, template = scene(d=dimension, seed=6)
    gpa = model.fit(points)
    moments = gpa.map_.T @ gpa.map_
    tolerance = 1e-12 * size(moments)
    assert_allclose(gpa.map_.sum(axis=0), 0, atol=1e-12 * len(points[0]) * size(gpa.map_))
    assert_allclose(moments, np.diag(gpa.scales_**2), rtol=0, atol=tolerance * len(points[0]))
    assert np.all(np.diff(gpa.scales_) <= 0)
    assert_allclose(np.linalg.det(gpa.rotations_), 1, rtol=1e-12)
    centred = template - template.mean(axis=0)
    assert np.linalg.det(centred.T @ gpa.map_) > 0  # the template was rotated, never reflected


def test_the_number_of_threads_does_not_change_the_map(dimension):
    points, _ = scene(d=dimension, seed=7)
    alone = fixed_kernel().fit(points).map_
    assert np.array_equal(fixed_kernel(n_jobs=2).fit(points).map_, alone)


@given(seed=seeds)
def test_hiding_is_the_same_as_nan_and_as_weight_zero(seed):
    points, _ = scene(seed=seed, hidden=0.1)
    mask = np.random.default_rng(seed).random(points.shape[:2]) < 0.1
    mask[:3] = False
    hidden = Observations.from_array(points).hide(mask)
    as_nan = np.where(mask[:, :, None], np.nan, points)
    weighted = fixed_kernel().fit(points, weights=(~mask).astype(float)).map_
    assert np.array_equal(fixed_kernel().fit(hidden).map_, weighted)
    assert np.array_equal(fixed_kernel().fit(as_nan).map_, weighted)
