"""A stream completes its frames by a shape model that was learned from earlier ones."""

from __future__ import annotations

import numpy as np
import pytest

from fixed_settings import fixed_kernel
from kernelgpa import InvalidSetting, ShapeModel, StreamingGPA
from stream_and_batch import add, seen_of

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")


def recording(seed=0, n=40, m=16, noise=0.01):
    """Frames whose landmarks follow three movements that have nothing to do with how near landmarks are."""
    rng = np.random.default_rng(seed)
    mean, movements = 2 * rng.standard_normal((m, 3)), rng.standard_normal((3, m, 3))
    scores = 0.3 * rng.standard_normal((n, 3))
    return mean + np.einsum("nk,kmd->nmd", scores, movements) + noise * rng.standard_normal((n, m, 3))


@pytest.fixture(scope="module")
def earlier_and_later():
    frames = recording()
    names = [f"L{j:03d}" for j in range(frames.shape[1])]  # as ``add`` names them
    clouds = [(frame, names) for frame in frames[:30]]
    return ShapeModel(shrinkage=0.05, bandwidth=0.5, noise=1e-3).fit(clouds), frames[30:]


def streamed(frames, hidden, **settings):
    stream, last = StreamingGPA(fixed_kernel(), **settings), frames[-1].copy()
    last[hidden] = np.nan
    for frame in [*frames[:-1], last]:
        key = add(stream, frame)
    stream.update()
    return stream, key, last


def test_the_frame_of_a_stream_is_completed_as_the_model_completes_it(earlier_and_later):
    model, frames = earlier_and_later
    stream, key, last = streamed(frames, [2, 7, 11], shape_model=model)
    points, covariances = stream.impute(key, return_cov=True)
    expected, spread = model.impute(last[None], return_cov=True)
    np.testing.assert_array_equal(points, expected[0])
    np.testing.assert_array_equal(covariances, spread[0])
    np.testing.assert_array_equal(points[seen_of(last)], last[seen_of(last)])


def test_a_model_that_knows_the_movements_predicts_better_than_a_warp_of_one_frame(earlier_and_later):
    model, frames = earlier_and_later
    hidden = [2, 7, 11]
    learned, key, _ = streamed(frames, hidden, shape_model=model)
    plain, other, _ = streamed(frames, hidden)
    errors = [
        np.linalg.norm((s.impute(k) - frames[-1])[hidden], axis=1).mean() for s, k in ((learned, key), (plain, other))
    ]
    assert errors[0] < 0.3 * errors[1]


def test_without_a_model_unseen_landmarks_are_predicted_by_the_warp(earlier_and_later):
    _, frames = earlier_and_later
    stream, key, last = streamed(frames, [2, 7])
    points, covariances = stream.impute(key, return_cov=True)
    np.testing.assert_array_equal(points[[2, 7]], stream.predict(stream.map_[[2, 7]], key))
    np.testing.assert_array_equal(points[seen_of(last)], last[seen_of(last)])
    assert np.isnan(covariances[[2, 7]]).all()
    assert not covariances[seen_of(last)].any()


def test_landmarks_that_the_model_does_not_know_are_predicted_by_the_warp(earlier_and_later):
    model, frames = earlier_and_later
    names = [name for name in model.observations_.landmarks if name != "L007"]
    smaller = ShapeModel(shrinkage=0.05, bandwidth=0.5, noise=1e-3).fit(model.observations_.subset(names))
    stream, key, last = streamed(frames, [2, 7], shape_model=smaller)
    points, covariances = stream.impute(key, return_cov=True)
    np.testing.assert_array_equal(points[7], stream.predict(stream.map_[[7]], key)[0])
    np.testing.assert_array_equal(points[2], smaller.impute(np.delete(last, 7, axis=0)[None])[0, 2])
    assert np.isnan(covariances[7]).all()
    assert np.isfinite(covariances[2]).all()


def test_a_frame_with_too_few_landmarks_of_the_model_is_predicted_by_the_warp(earlier_and_later):
    model, frames = earlier_and_later
    stream = StreamingGPA(bandwidth=0.5, smoothing=0.1, robust=None, shape_model=model)
    for frame in frames[:4]:
        key = stream.add(frame, ids=range(frame.shape[0]))  # other names: none of them is in the model
    stream.update()
    np.testing.assert_array_equal(stream.impute(key), frames[3])


def test_the_model_is_in_the_checkpoint(earlier_and_later, tmp_path):
    model, frames = earlier_and_later
    stream, key, _ = streamed(frames, [2, 7, 11], shape_model=model)
    stream.checkpoint(tmp_path / "stream.npz")
    resumed = StreamingGPA.resume(tmp_path / "stream.npz")
    np.testing.assert_array_equal(resumed.impute(key), stream.impute(key))
    assert resumed.shape_model.expected_error_ == model.expected_error_


@pytest.mark.parametrize("model", [ShapeModel(), "model.npz"], ids=str)
def test_a_model_that_was_not_fitted_is_refused(model):
    with pytest.raises(InvalidSetting, match="shape_model"):
        StreamingGPA(shape_model=model)
