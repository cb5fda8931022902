"""A stream resumes from its checkpoint as if it had not stopped, and no other file is taken for one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import scene
from fixed_settings import fixed_stream
from kernelgpa import FormatError, InvalidSetting, StreamingGPA
from moving_liver import moving_liver, odometry
from stream_and_batch import add

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")


def test_a_stream_resumes_from_its_checkpoint(tmp_path):
    liver = moving_liver()
    path, rng = tmp_path / "stream.npz", np.random.default_rng(0)
    first, second = fixed_stream(window=8, automatic=True), fixed_stream(window=8, automatic=True)
    for t, cloud in enumerate(liver.points):
        motion = () if t == 0 else odometry(liver, t, rng)
        for stream in (first, second):
            add(stream, cloud, measured=motion, time=0.1 * t)
        if t in (0, 3, 9):
            second.checkpoint(path)
            second = StreamingGPA.resume(path)
    assert second.landmarks_ == first.landmarks_
    assert second.keys_ == first.keys_
    assert_allclose(second.map_, first.map_, atol=1e-8 * np.abs(first.map_).max())
    assert_allclose(second.translations_, first.translations_, atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["stream.npz"]


def test_a_frozen_stream_is_frozen_after_it_is_resumed(tmp_path):
    points, _ = scene(n=5, m=30, hidden=0.1, noise=0.01)
    stream = fixed_stream()
    for cloud in points[:4]:
        add(stream, cloud)
    stream.update()
    stream.freeze()
    add(stream, points[4])
    stream.checkpoint(tmp_path / "frozen.npz")
    again = StreamingGPA.resume(tmp_path / "frozen.npz")
    assert again.frozen
    assert_allclose(again.map_, stream.map_)
    assert_allclose(again.pose(4)[1], stream.pose(4)[1], atol=1e-10)
    assert again.unfreeze().clouds == 5


def test_files_that_are_not_checkpoints_are_refused(tmp_path):
    path = tmp_path / "stream.npz"
    with pytest.raises(FormatError, match="there is no such file"):
        StreamingGPA.resume(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(FormatError):
        StreamingGPA.resume(path)
    np.savez(path, header=np.array('{"stream": 1}'))
    with pytest.raises(FormatError, match="no checkpoint of a stream"):
        StreamingGPA.resume(path)
    stream = fixed_stream()
    stream.add(np.random.default_rng(0).standard_normal((8, 3)), [(1, j) for j in range(8)])
    with pytest.raises(InvalidSetting, match="cannot be saved"):
        stream.checkpoint(path)
