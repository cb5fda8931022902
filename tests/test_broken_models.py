"""A model or checkpoint that is corrupt or forged is refused when it is loaded, or it works."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from conftest import scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import (
    AffineGPA,
    FormatError,
    KernelGPAError,
    Measured,
    Observations,
    RigidGPA,
    StreamingGPA,
    report,
)
from kernelgpa.io.archive import pack_arrays, read_arrays
from kernelgpa.io.model_file import from_arrays, from_bytes, to_bytes
from kernelgpa.report import Assessment, Metadata, summarise
from kernelgpa.streaming import checkpoint

MODELS = {
    "rigid": RigidGPA(scaling=True),
    "affine": AffineGPA(modes="program"),
    "thin-plate": fixed_tps(control_points=3),
    "kernel": fixed_kernel(),
    "robust": fixed_kernel(inducing=8, robust="tukey", modes=5),
}
VALUES = [
    None, True, -1, 0, 7, 10**9, 10**400, float("nan"), float("inf"), 1e308, "", "abc", "\ud800", [], [1, 2], [["a"]],
    {"a": 1},
]  # fmt: skip
NUMBERS = [np.nan, np.inf, -1.0, 0.0, 1e9, 1e308, -1e308, 1e-308]
EVERY = 10  # the slow part is run once per this many files


def mutants_of_array(array):
    """An array with changed entries, shape or type."""
    if array.dtype.kind == "U":
        return
    for value in NUMBERS:
        with np.errstate(all="ignore"):
            for where in (slice(-1, None), slice(None)):
                changed = array.astype(np.float64)
                changed.reshape(-1)[where] = value
                yield changed
                if array.dtype.kind in "iu" and abs(value) < 1e10:
                    yield changed.astype(array.dtype)
    yield from (array[:0], array[1:], array[:-1], array[None], np.concatenate([array, array]), array.astype(str))
    yield from (array * 2, -array, array + 1, array[::-1].copy(), np.zeros(()), np.zeros_like(array))
    yield np.swapaxes(array, 0, -1).copy()
    yield array.astype(np.float32)
    yield np.full(array.shape, array.reshape(-1)[0] if array.size else 0)


def mutants_of_header(header, deep=2):
    """A header with one entry, at any level, changed or removed."""
    for key in header:
        for value in VALUES:
            yield {**header, key: value}
        yield {other: value for other, value in header.items() if other != key}
        inner = header[key]
        if isinstance(inner, dict) and deep:
            yield from ({**header, key: changed} for changed in mutants_of_header(inner, deep - 1))
            yield {**header, key: {**inner, "unknown": 1}}
        if isinstance(inner, list) and inner:
            for value in VALUES:
                yield {**header, key: [value, *inner[1:]]}
            yield from ({**header, key: changed} for changed in (inner[1:], inner[::-1], inner + inner, inner[:1]))


def mutants_of(data):
    """(what was changed, the arrays of the file) for every array and every entry of the header."""
    arrays = read_arrays(data, "model")
    header = json.loads(str(arrays["header"]))
    for name, array in arrays.items():
        for changed in mutants_of_array(array):
            yield name, {**arrays, name: changed}
        yield name, {other: value for other, value in arrays.items() if other != name}
    for changed in mutants_of_header(header):
        names = [key for key in header if changed.get(key, ...) != header[key] or key not in changed]
        yield f"header {names}", {**arrays, "header": np.array(json.dumps(changed))}


def observations(d=3):
    points = scene(n=4, m=16, d=d, noise=0.01, hidden=0.2, seed=5)[0]
    return Observations.from_array(points, clouds=["a", "b", "c", 3], landmarks=[*"abcdefgh", *range(8)])


def use(gpa, about, everything=True):
    """Call everything that a loaded model offers."""
    d = gpa.observations_.dimension
    points = gpa.observations_.clouds[0].points[:3]
    for cloud in gpa.observations_.names:
        assert gpa.transform(points, cloud).shape == (3, d)
        assert gpa.inverse_transform(gpa.transform(points, cloud), cloud).shape == (3, d)
    gpa.diagnose(points, gpa.observations_.names[0])
    assessment, metadata = Assessment.of(gpa), Metadata.from_stored(about)
    summarise(assessment, metadata).to_json()
    if everything:
        report.render(assessment, metadata)
        to_bytes(gpa, about)
    gpa.suspicious_observations(3)
    gpa.suspicious_landmarks()
    if gpa._deforms:
        gpa._reduced_cloud(gpa.observations_.names[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_changed_model_is_refused_or_works(name):
    d = 2 if name in ("affine", "thin-plate") else 3
    data = to_bytes(MODELS[name].fit(observations(d)), {"unit": "mm", "frame": None, "title": "t", "notes": ["n"]})
    counts = {"refused": 0, "usable": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        use(*from_bytes(data, "model"))
        for what, arrays in mutants_of(data):
            end = end_of(arrays, what, counts["usable"] % EVERY == 0)
            counts[end] += 1
    assert counts["refused"] > 500
    assert counts["usable"] > 50


def end_of(arrays, what, everything):
    try:
        gpa, about = from_arrays(arrays, "model")
    except KernelGPAError:
        return "refused"
    except Exception as error:
        raise AssertionError(f"{what}: loading it ended in {error!r}") from error
    try:
        use(gpa, about, everything)
    except KernelGPAError:  # such as warps that a setting makes impossible
        pass
    except Exception as error:
        raise AssertionError(f"{what}: using it ended in {error!r}") from error
    return "usable"


def first(name, value):
    """The change of the first number of an array."""

    def changed(arrays):
        array = arrays[name].copy()
        array.reshape(-1)[0] = value
        return {name: array}

    return changed


def headed(**changes):
    """The change of entries of the header."""
    return lambda arrays: {"header": np.array(json.dumps({**json.loads(str(arrays["header"])), **changes}))}


def first_mirrored(arrays):
    rotations = arrays["rotations"].copy()
    rotations[0, :, 0] *= -1
    return {"rotations": rotations}


N, D = 4, 3  # clouds and dimension of observations()
# values that once were loaded and failed in use, each with its message
IMPOSSIBLE = [
    (first("gauge_scales", np.nan), "gauge_scales holds nan"),
    (first("warp_rank", 10**9), "warp_rank holds 1000000000, and must lie between 1 and 3"),
    (headed(clouds=[["a"], "b", "c", "d"]), "clouds has the name"),
    (headed(landmarks=["a"] * 16), "landmarks has a name twice"),
    (first("kernel_sigma", 1e308), "kernel_sigma holds 1e"),
    (first("cloud_seen", -1), "cloud_seen holds -1"),
    (first("cloud_seen", 99), "cloud_seen holds 99"),
    (
        lambda arrays: {"cloud_seen": arrays["cloud_seen"][[1, *range(1, arrays["cloud_seen"].size)]]},
        "cloud_seen is not in ascending order",
    ),
    (first("cloud_weights", -1.0), "cloud_weights holds -1"),
    (first("cloud_weights", np.nan), "cloud_weights holds nan"),
    (first("warp_axes", 2.0), "warp_axes holds a matrix that is not orthonormal"),
    (first("rotations", 2.0), "rotations holds a matrix that is not orthonormal"),
    (first_mirrored, "rotations holds a reflection"),
    (headed(dimension=7), "the dimension is 7"),
    (
        headed(settings={**fixed_kernel().get_params(), "inducing": 4}),
        "inducing is None, which differs from the settings",
    ),
    (lambda arrays: {"spectrum_values": arrays["spectrum_values"][:1]}, "the spectrum has 1 values"),
    (lambda arrays: {"spectrum_vectors": arrays["spectrum_vectors"][1:]}, "spectrum_vectors has shape"),
    (first("map", np.nan), "map has no position for a landmark that was seen"),
    (lambda arrays: {"map": np.ones_like(arrays["map"])}, "all landmarks of map coincide"),
    (first("cloud_sizes", 5), "its sizes add up to"),
    (first("kernel_sizes", 1), "its sizes add up to"),
    (first("part", 1), "part is not in ascending order"),
    (lambda arrays: {"part": np.arange(N + 1)}, "part holds 4"),
    (lambda arrays: {"warp_size": np.zeros(N)}, "warp_size holds 0"),
    (first("weights", np.inf), "weights holds inf"),
    (lambda arrays: {"weights": arrays["weights"] * 1e-9}, "weights contradict the weights that were given"),
    (lambda arrays: {"translations": np.zeros((N, D), dtype="U3")}, "translations is of type"),
    (headed(**{"class": "AffineGPA", "settings": {}, "used": {}}), "which differs from the settings"),
    (headed(about={"unit": 3}), "the unit, frame, title and notes are not texts"),
]


@pytest.fixture(scope="module")
def kernel_model():
    return read_arrays(to_bytes(fixed_kernel().fit(observations())), "model")


@pytest.mark.parametrize(("change", "found"), IMPOSSIBLE, ids=[found for _, found in IMPOSSIBLE])
def test_an_impossible_value_is_named(kernel_model, change, found):
    with pytest.raises(FormatError, match=r"it is corrupt .*; register again with settings.toml") as caught:
        from_arrays({**kernel_model, **change(kernel_model)}, "model.npz")
    assert found in str(caught.value)


# -- streams --


def stream_of(model):
    stream, points = StreamingGPA(model, window=6), scene(n=8, m=16, noise=0.01, hidden=0.2, seed=5)[0]
    points[3, :, 0] *= -1  # a mirror image
    for t, cloud in enumerate(points):
        seen = np.flatnonzero(~np.isnan(cloud[:, 0]))
        motion = [Measured(np.eye(3), np.zeros(3), 0.1, 1.0, t - 1)] if t in (5, 6) else []
        stream.add(cloud[seen], [int(j) if j % 2 else f"L{j}" for j in seen], measured=motion)
        if t > 1 and t != 7:
            stream.update()
    return stream


def use_stream(stream):
    """Call everything that a stream offers."""
    points = np.zeros((2, 3))
    for key in stream.keys_:
        stream.pose(key)
        try:
            stream.transform(points, key)
            stream.inverse_transform(points, key)
        except KernelGPAError:  # it shares too little with the map
            pass
    assert len(stream.map_) == len(stream.landmarks_)
    stream.diagnose()
    assert len(stream.warps_) == len(stream.keys_)
    checkpoint.to_bytes(stream, {})
    rng = np.random.default_rng(0)
    stream.add(rng.standard_normal((8, 3)), range(8))
    stream.update()
    stream.drop(stream.keys_[0])
    stream.update()


@pytest.mark.slow
@pytest.mark.parametrize("model", [fixed_kernel(), RigidGPA()], ids=repr)
def test_a_changed_checkpoint_is_refused_or_works(model, tmp_path):
    counts = {"refused": 0, "usable": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = checkpoint.to_bytes(stream_of(model), {})
        (tmp_path / "state.npz").write_bytes(data)
        use_stream(StreamingGPA.resume(tmp_path / "state.npz"))
        for what, arrays in mutants_of(data):
            (tmp_path / "state.npz").write_bytes(pack_arrays(arrays))
            try:
                stream = StreamingGPA.resume(tmp_path / "state.npz")
            except KernelGPAError:
                counts["refused"] += 1
                continue
            except Exception as error:
                raise AssertionError(f"{what}: loading it ended in {error!r}") from error
            try:
                use_stream(stream)
            except KernelGPAError:  # clouds that cannot be solved
                pass
            except Exception as error:
                raise AssertionError(f"{what}: using it ended in {error!r}") from error
            counts["usable"] += 1
    assert counts["refused"] > 300
    assert counts["usable"] > 50
