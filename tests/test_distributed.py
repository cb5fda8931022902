"""On a cluster the result is that of one process, also when a worker dies on the way."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from threading import Timer

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import scene
from fixed_settings import fixed_kernel
from kernelgpa import (
    AffineGPA,
    Disconnected,
    InvalidObservations,
    InvalidSetting,
    KernelGPAWarning,
    RigidGPA,
    TooLarge,
    selection,
)

distributed = pytest.importorskip("distributed", reason="the extra 'distributed' is not installed")
kernelgpa_distributed = pytest.importorskip("kernelgpa.estimators.distributed")

CLOUDS, LANDMARKS = 220, 30


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    ) as made:
        yield made


@pytest.fixture
def client(cluster):
    cluster.scale(2)
    with distributed.Client(cluster) as made:
        made.wait_for_workers(2, timeout=60)
        yield made


def points():
    return scene(n=CLOUDS, m=LANDMARKS, hidden=0.2, seed=2, bend=0.05, noise=0.01)[0]


def read(folder, t, slowly=0.0):
    """As a worker reads a cloud from a file."""
    time.sleep(slowly)
    cloud = np.load(folder / f"{t}.npy")
    seen = np.flatnonzero(~np.isnan(cloud[:, 0]))
    return cloud[seen], seen


def saved(folder):
    for t, cloud in enumerate(points()):
        np.save(folder / f"{t}.npy", cloud)


def assert_same(result, gpa):
    assert result.landmarks_ == gpa.observations_.landmarks
    assert_allclose(result.map_, gpa.map_, rtol=0, atol=1e-9 * gpa.scales_[0])
    assert_allclose(result.eigenvalues_, gpa.eigenvalues_, rtol=1e-8)
    rotations, translations = result.poses()
    assert_allclose(rotations, gpa.rotations_, rtol=0, atol=1e-9)
    assert_allclose(translations, gpa.translations_, rtol=0, atol=1e-8)
    query = points()[203, :3]
    assert_allclose(result.transform(query, 203), gpa.transform(query, 203), rtol=0, atol=1e-8 * gpa.scales_[0])


@pytest.mark.parametrize("model", [fixed_kernel(), AffineGPA(), fixed_kernel(modes="program")], ids=repr)
def test_a_cluster_gives_what_one_process_gives(model, client, tmp_path):
    saved(tmp_path)
    result = kernelgpa_distributed.fit(model, client, [partial(read, tmp_path, t) for t in range(CLOUDS)])
    assert_same(result, model.fit(points()))


def test_a_worker_that_dies_changes_nothing(client, tmp_path):
    saved(tmp_path)
    worker = next(iter(client.run(os.getpid).values()))
    killer = Timer(1.0, os.kill, (worker, signal.SIGKILL))
    killer.start()
    sources = [partial(read, tmp_path, t, slowly=0.02) for t in range(CLOUDS)]  # about two seconds on two workers
    result = kernelgpa_distributed.fit(fixed_kernel(), client, sources)
    killer.join()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert_same(result, fixed_kernel().fit(points()))


def test_settings_are_tried_on_the_workers_through_joblib(client):
    grid = {"bandwidth": [0.2, 0.5, 1.0], "smoothing": [0.1, 1.0]}
    some = points()[:12]
    here = selection.tune(some, fixed_kernel(), grid, folds=4, rounds=1)
    with joblib.parallel_config("dask"):
        there = selection.tune(some, fixed_kernel(), grid, folds=4, rounds=1, n_jobs=-1)
    assert [trial.settings for trial in there.trials] == [trial.settings for trial in here.trials]
    assert_allclose([t.sensor_rms for t in there.trials], [t.sensor_rms for t in here.trials], rtol=1e-9)
    assert_allclose(there.best.map_, here.best.map_, rtol=0, atol=1e-9)


def test_what_cannot_be_distributed_is_refused(client):
    for model in (RigidGPA(), fixed_kernel(robust="tukey")):
        with pytest.raises(InvalidSetting, match="robust=None"):
            kernelgpa_distributed.fit(model, client, [])


def test_warnings_of_the_workers_are_given_here(client):
    some = points()[:8, :, :]
    some[2, :, 0] *= -1
    pairs = [(cloud[~np.isnan(cloud[:, 0])], np.flatnonzero(~np.isnan(cloud[:, 0]))) for cloud in some]
    with pytest.warns(KernelGPAWarning, match="mirror image"):
        result = kernelgpa_distributed.fit(fixed_kernel(), client, pairs)
    assert result.mirrored_ == [2]


def broken():
    raise OSError("no such scan")


def nothing():
    return None


@pytest.mark.parametrize(("source", "found"), [(broken, "no such scan"), (nothing, "NoneType"), (3, "int")])
def test_a_source_that_cannot_be_read_is_named(client, source, found):
    pair = (np.random.default_rng(0).standard_normal((8, 3)), range(8))
    with pytest.raises(InvalidObservations, match=f"source 2: .*{found}"):
        kernelgpa_distributed.fit(fixed_kernel(), client, [pair, pair, source])


def test_few_clouds_are_spread_and_found_again(client):
    some = points()[:5]
    pairs = [(cloud[~np.isnan(cloud[:, 0])], np.flatnonzero(~np.isnan(cloud[:, 0]))) for cloud in some]
    result, here = kernelgpa_distributed.fit(fixed_kernel(), client, pairs), fixed_kernel().fit(pairs)
    for t in range(5):
        assert_allclose(result.transform(pairs[t][0], t), here.transform(pairs[t][0], t), rtol=0, atol=1e-8)
    for cloud in ("a", None, 1.5, True, -1, 5):
        with pytest.raises(InvalidSetting, match="there are 5"):
            result.transform(pairs[0][0], cloud)


def test_more_landmarks_than_a_worker_can_add_up_are_refused(monkeypatch):
    monkeypatch.setattr(kernelgpa_distributed, "available_memory", lambda: 1000)
    pair = (np.random.default_rng(0).standard_normal((8, 3)), range(8))
    with pytest.raises(TooLarge, match="8 x 8 take"):
        kernelgpa_distributed._problem([[pair, pair]], "leave-out")


# -- clusters that are not there --


def few():
    rng = np.random.default_rng(0)
    body = rng.standard_normal((20, 3))
    return [(body + 0.01 * rng.standard_normal((20, 3)), range(20)) for _ in range(4)]


def late(pair):
    time.sleep(2.0)
    return pair


def made_cluster():
    """A cluster of one worker, to be closed."""
    return distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    )


@pytest.mark.parametrize("client", [None, "tcp://127.0.0.1:8786", 3], ids=repr)
def test_what_is_no_client_is_refused(client):
    with pytest.raises(InvalidSetting, match=r"client is .*; expected a dask.distributed.Client"):
        kernelgpa_distributed.fit(fixed_kernel(), client, few())


@pytest.mark.parametrize("timeout", [-1, None, float("nan"), True, "long"])
def test_a_timeout_is_a_number_of_seconds(client, timeout):
    with pytest.raises(InvalidSetting, match=r"timeout is .*; expected a number of seconds"):
        kernelgpa_distributed.fit(fixed_kernel(), client, few(), timeout=timeout)


@pytest.mark.parametrize("what", ["client", "cluster"])
def test_after_a_client_or_cluster_is_closed_everything_says_so(what):
    with made_cluster() as cluster, distributed.Client(cluster) as client:
        result = kernelgpa_distributed.fit(fixed_kernel(), client, few())
        (client if what == "client" else cluster).close()
        for call in (
            lambda: kernelgpa_distributed.fit(fixed_kernel(), client, few()),
            result.poses,
            lambda: result.transform(np.zeros((1, 3)), 0),
        ):
            with pytest.raises(Disconnected, match="is closed; make a new Client, and fit again"):
                call()


def test_without_workers_a_fit_waits_a_little_and_then_says_what_to_do():
    with made_cluster() as cluster, distributed.Client(cluster) as client:
        result = kernelgpa_distributed.fit(fixed_kernel(), client, few(), timeout=0.5)
        cluster.scale(0)
        while client.nthreads():
            time.sleep(0.05)
        found = r"no worker for 0.5 s; start workers, for example with cluster.scale\(2\)"
        start = time.monotonic()
        with pytest.raises(Disconnected, match=found):
            kernelgpa_distributed.fit(fixed_kernel(), client, few(), timeout=0.5)
        with pytest.raises(Disconnected, match=found):
            result.poses()
        assert time.monotonic() - start < 20
        cluster.scale(1)
        again = kernelgpa_distributed.fit(fixed_kernel(), client, few(), timeout=60).map_
        assert_allclose(again, result.map_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("what", ["close", "scale"])
def test_a_cluster_that_goes_in_the_middle_of_a_fit_ends_it(what):
    with made_cluster() as cluster, distributed.Client(cluster) as client:
        gone = Timer(1.0, cluster.close) if what == "close" else Timer(1.0, cluster.scale, (0,))
        gone.start()
        with pytest.raises(Disconnected, match=r"closed; make a new Client|no worker for 1 s; start workers"):
            kernelgpa_distributed.fit(fixed_kernel(), client, [partial(late, pair) for pair in few()], timeout=1.0)
        gone.join()
