"""A cloud that is refused, or an update that fails, leaves the stream as it was."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import scene
from fixed_settings import fixed_kernel, fixed_stream
from kernelgpa import (
    DegenerateCloud,
    InvalidObservations,
    InvalidSetting,
    KernelGPA,
    NotFitted,
    NumericalFailure,
    StreamingGPA,
    TooLarge,
)
from kernelgpa.streaming.memory import MemoryLimits
from stream_and_batch import add, assert_equals_batch

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")


class FailingFamily:
    """The family of another estimator, which raises errors where ``fails(stage, cloud)`` asks for them."""

    def __init__(self, family, fails):
        self.smoothing, self.features, self.neighbours = family.smoothing, family.features, family.neighbours
        self._family, self._fails = family, fails

    def prepare(self, cloud):
        self._fails("prepare", cloud)
        prepared = self._family.prepare(cloud)
        return SimpleNamespace(
            reduce=lambda smoothing, weights: self._reduced(prepared.reduce(smoothing, weights), cloud)
        )

    def _reduced(self, reduced, cloud):
        def cost_matrix():
            self._fails("cost", cloud)
            return reduced.cost_matrix()

        return SimpleNamespace(cost_matrix=cost_matrix, fit_all=reduced.fit_all)


def failing(fails):
    """KernelGPA with a family that fails."""

    class FailingGPA(KernelGPA):
        def _family(self):
            return FailingFamily(super()._family(), fails)

    return fixed_kernel(kind=FailingGPA)


def test_a_cloud_that_cannot_be_reduced_leaves_the_others_unaffected():
    points, _ = scene(n=5, m=20, hidden=0.2, noise=0.01)

    def fails(stage, cloud):
        if stage == "prepare" and cloud.name == 1:
            raise NumericalFailure("its kernel matrix is singular")

    stream, clouds = fixed_stream(failing(fails), automatic=True), {}
    for cloud in points:
        clouds[add(stream, cloud)] = cloud
    assert stream.waiting_ == [1]
    assert "cloud 1 cannot be reduced: its kernel matrix is singular" in {one.found for one in stream.diagnose()}
    assert_equals_batch(stream, fixed_kernel(), clouds)


def test_a_cloud_older_than_a_full_window_is_refused():
    points, _ = scene(n=4, m=20, hidden=0.0)
    stream = fixed_stream(window=3)
    for cloud, time in zip(points, (5.0, 6.0, 7.0), strict=False):
        add(stream, cloud, time=time)
    with pytest.raises(InvalidObservations, match="before the window, which is full and begins at 5"):
        add(stream, points[3], time=1.0)
    assert_allclose(stream.times_, [5, 6, 7])


def test_a_cloud_that_is_refused_changes_nothing():
    stream, rng = fixed_stream(), np.random.default_rng(0)
    good = rng.standard_normal((8, 3))
    key = stream.add(good, range(8))
    with pytest.raises(InvalidObservations, match="given more than once"):
        stream.add(good, [0, 1, 2, 3, 4, 5, 6, 6])
    with pytest.raises(InvalidObservations, match="there are 3 ids"):
        stream.add(good, range(3))
    with pytest.raises(DegenerateCloud):
        stream.add(good[:3], range(3))
    with pytest.raises(InvalidObservations, match="expected 3D"):
        stream.add(good[:, :2], range(8))
    with pytest.raises(InvalidObservations, match="a set, which has no order"):
        stream.add(good, set(range(8)))
    with pytest.raises(InvalidObservations, match="weights range from 1 to 1e\\+50"):
        stream.add(good, range(8), weights=np.full(8, 1e50))
    with pytest.raises(InvalidObservations, match="measured is 5"):
        stream.add(good, range(8), measured=5)
    with pytest.raises(InvalidObservations, match="time is nan"):
        stream.add(good, range(8), time=float("nan"))
    with pytest.raises(InvalidObservations, match="at least 2 are needed"):
        stream.update()
    with pytest.raises(InvalidObservations, match="there is no cloud with key 77"):
        stream.drop(77)
    assert stream.keys_ == (key,)
    with pytest.raises(NotFitted):
        _ = stream.map_
    with pytest.raises(NotFitted, match="no cloud was added"):
        fixed_stream().update()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": fixed_kernel(), "bandwidth": 1.0}, "an estimator and bandwidth are given"),
        ({"estimator": "kernel"}, "expected KernelGPA"),
        ({"window": 1}, "window is 1"),
        ({"smoothing": -1.0}, "smoothing"),
    ],
)
def test_settings_are_checked(arguments, message):
    with pytest.raises(InvalidSetting, match=message):
        StreamingGPA(**arguments)


class LimitedStream(StreamingGPA):
    """A stream on a machine with ``available`` bytes of free memory."""

    available = 10**9

    @property
    def memory_limits(self):
        return MemoryLimits(unchecked=0, available=lambda: self.available)


@pytest.mark.parametrize("window", [None, 3])
def test_a_cloud_without_memory_for_it_changes_nothing(window):
    points = scene(n=5, m=40, hidden=0.2, bend=0.05, noise=0.01)[0]
    stream = LimitedStream(fixed_kernel(), window=window)
    for cloud in points[:3]:
        add(stream, cloud)
    stream.update()
    before, keys = stream.map_, stream.keys_
    stream.available = 1000
    found = r"a frame of \d+ landmarks would take 0.00 GB of 0.00 GB free, because \d+ landmarks are shared by"
    with pytest.raises(TooLarge, match=found):
        add(stream, points[3])
    assert stream.keys_ == keys
    assert_allclose(stream.map_, before, rtol=0, atol=0)
    stream.available = 10**9
    key = add(stream, points[3])
    stream.available = 1000
    with pytest.raises(TooLarge, match="this update would take"):
        stream.update()
    assert_allclose(stream.map_, before, rtol=0, atol=0)
    stream.available = 10**9
    stream.update()
    assert stream.keys_[-1] == key
    assert_equals_batch(stream, fixed_kernel(), points)


def test_only_shared_landmarks_take_memory():
    """A cloud of many landmarks that no other cloud observes is added; so is one for which others leave the window."""
    rng = np.random.default_rng(0)
    stream = LimitedStream(window=2)
    stream.available = 3_000_000  # 12 x 150^2 numbers
    stream.add(rng.standard_normal((400, 3)), range(400))
    with pytest.raises(TooLarge):
        stream.add(rng.standard_normal((400, 3)), range(400))
    stream.add(rng.standard_normal((100, 3)), range(100))
    stream.add(rng.standard_normal((100, 3)), range(100))
    assert len(stream.keys_) == 2


@pytest.mark.parametrize("problem", [MemoryError("Unable to allocate"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("calls", [1, 2, 4])
def test_an_update_that_is_cut_short_can_be_repeated(problem, calls):
    points = scene(n=5, m=40, hidden=0.2, bend=0.05, noise=0.01)[0]
    remaining = float("inf")

    def fails(stage, cloud):
        nonlocal remaining
        remaining -= stage == "cost"
        if remaining <= 0:
            raise problem

    stream = fixed_stream(failing(fails))
    for cloud in points[:3]:
        add(stream, cloud)
    stream.update()
    before = stream.map_
    for cloud in points[3:]:
        add(stream, cloud)
    remaining = calls
    with pytest.raises(TooLarge if isinstance(problem, MemoryError) else KeyboardInterrupt):
        stream.update()
    remaining = float("inf")
    assert_allclose(stream.map_, before, rtol=0, atol=0)
    stream.update()
    assert_equals_batch(stream, fixed_kernel(), points)
