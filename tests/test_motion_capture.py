"""C3D and TRC: frames are clouds, markers are landmarks, gaps are unseen, and corrupt files end in a FormatError."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kernelgpa import io
from kernelgpa.errors import FormatError, InvalidSetting
from kernelgpa.io import c3d, trc
from kernelgpa.io.c3d_parameters import BLOCK, read_parameters
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions
from landmark_files import assert_valid
from shared_data import SHARED
from test_binary_formats import mutated as mutated_bytes
from test_damaged_files import mutated as mutated_text

FUZZ = 200  # inputs per reader
MOCAP = SHARED / "data" / "mocap"
modules = pytest.mark.parametrize("module", [c3d, trc], ids=["c3d", "trc"])


def recording(frames=7, markers=5, hidden=0.3, rate=50.0, first=1, labels=None, unit="mm", seed=0):
    """Frames with gaps; coordinates are exact in single precision, which C3D stores."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((frames, markers, 3)).astype(np.float32).astype(np.float64)
    points[rng.random((frames, markers)) < hidden] = np.nan
    labels = tuple(labels or (f"M:{i}" for i in range(markers)))
    clouds = (
        LabelledCloud(f"frame {first + t}", one, labels, time=(first + t - 1) / rate, number=first + t)
        for t, one in enumerate(points)
    )
    return LandmarkFile(tuple(clouds), labelled=True, unit=unit)


def parsed(module, data, **options):
    data = data.decode() if module is trc and isinstance(data, bytes) else data
    return module.parse(data, "file", ReadOptions(name="walk", **options))


def assert_same_recording(found, given_):
    assert [one.name for one in found.clouds] == [one.name for one in given_.clouds]
    assert found.unit == given_.unit
    for a, b in zip(found.clouds, given_.clouds, strict=True):
        assert a.labels == b.labels
        assert a.number == b.number
        assert a.time == pytest.approx(b.time, rel=1e-6)  # C3D stores the rate in single precision
        assert_array_equal(a.points, b.points)


@modules
@given(
    st.integers(1, 9),
    st.integers(1, 300),
    st.sampled_from([0.0, 0.4]),
    st.integers(2, 60_000),
    st.sampled_from([60.0, 119.88]),
)
def test_a_recording_is_read_back(module, frames, markers, hidden, first, rate):
    made = recording(frames, markers, hidden, rate, first)
    assert_same_recording(parsed(module, module.render(made)), made)


@modules
def test_labels_and_units_are_read_back(module):
    made = recording(markers=3, labels=("Ann:L.ASIS", "*12", "größe 1"), unit=None)
    assert_same_recording(parsed(module, module.render(made)), made)


def test_c3d_counts_frames_beyond_65535():
    made = recording(3, 2, first=70_000)
    assert_same_recording(parsed(c3d, c3d.render(made)), made)


def test_c3d_written_here_is_read_alike_by_ezc3d(tmp_path):
    ezc3d = pytest.importorskip("ezc3d")
    made = recording(20, 300, rate=120.0, first=11)
    (tmp_path / "a.c3d").write_bytes(c3d.render(made))
    found = ezc3d.c3d(str(tmp_path / "a.c3d"))
    point = found["parameters"]["POINT"]
    assert_array_equal(found["data"]["points"][:3].transpose(2, 1, 0), [one.points for one in made.clouds])
    assert point["LABELS"]["value"] == list(made.clouds[0].labels[:255])
    assert (point["RATE"]["value"][0], point["UNITS"]["value"]) == (120.0, ["mm"])


@pytest.mark.parametrize("name", ["dribble.c3d", "freeform.c3d"])
def test_real_c3d_files_are_read_as_ezc3d_reads_them(name):
    if not (MOCAP / name).exists():
        pytest.skip(f"{name} is not beside this checkout")
    ezc3d = pytest.importorskip("ezc3d")
    ours, theirs = io.read(MOCAP / name), ezc3d.c3d(str(MOCAP / name))
    points = theirs["data"]["points"][:3].transpose(2, 1, 0)
    unmeasured = theirs["data"]["meta_points"]["residuals"][0].T < 0
    assert_allclose([one.points for one in ours.clouds], np.where(unmeasured[..., None], np.nan, points), rtol=1e-6)
    assert_same_recording(parsed(c3d, c3d.render(ours)), ours)  # integers too are written back as the same numbers
    assert list(ours.clouds[0].labels) == theirs["parameters"]["POINT"]["LABELS"]["value"]
    assert ours.unit == "mm"


@pytest.mark.parametrize(
    ("name", "frames", "markers", "unit"), [("walking.trc", 136, 51, "m"), ("walk_trimmed.trc", 131, 41, "mm")]
)
def test_real_trc_files_are_read_and_written(name, frames, markers, unit):
    if not (MOCAP / name).exists():
        pytest.skip(f"{name} is not beside this checkout")
    found = io.read(MOCAP / name)
    assert (len(found.clouds), found.clouds[0].points.shape, found.unit) == (frames, (markers, 3), unit)
    assert_same_recording(parsed(trc, trc.render(found)), found)


# -- gaps --


def with_points(module, numbers):
    """A recording of two frames and one marker, written and then changed to hold these numbers (2, 4)."""
    made = recording(2, 1, hidden=0)
    if module is trc:
        rows = "".join(f"{i + 1}\t{i / 50}\t" + "\t".join(map(str, one[:3])) + "\n" for i, one in enumerate(numbers))
        return trc.render(made).rsplit("\n", 3)[0] + "\n" + rows
    data = bytearray(c3d.render(made))
    start = BLOCK * (int.from_bytes(data[16:18], "little") - 1)
    data[start : start + 32] = np.array(numbers, "<f4").tobytes()
    return bytes(data)


@modules
@pytest.mark.parametrize("gap", [(np.nan, np.nan, np.nan, 0), (0, 0, 0, 0)])
def test_nan_and_zeros_are_gaps_and_are_counted(module, gap):
    found = parsed(module, with_points(module, [gap, (1, 0, 2, 0)]))
    assert np.isnan(found.clouds[0].points).all()
    assert_array_equal(found.clouds[1].points, [[1, 0, 2]])
    assert any(note.startswith("points of the file not measured") and note.endswith(": 1") for note in found.notes)


def test_a_negative_residual_is_a_gap_whatever_the_coordinates_are():
    found = parsed(c3d, with_points(c3d, [(1, 2, 3, -1), (4, 5, 6, 0.5)]))
    assert np.isnan(found.clouds[0].points).all()
    assert_array_equal(found.clouds[1].points, [[4, 5, 6]])


@modules
def test_a_point_at_the_origin_is_not_written_as_a_gap(module):
    made = LandmarkFile((LabelledCloud("a", np.zeros((1, 3)), ("m",)),), labelled=True)
    with pytest.raises(FormatError, match="0 0 0 would be read as not measured"):
        module.render(made)


# -- C3D of other computers --


def integer_c3d(order):
    """Two frames of two markers as integers with a scale of 0.25, and analogue values, in this byte order."""
    data = bytearray(c3d.render(recording(2, 2, hidden=0, labels=("a", "b"))))
    blocks = len(data) // BLOCK - 1
    values = np.array([[[4, 8, -12, 0], [1, 2, 3, -1]], [[5, 6, 7, 1], [0, 4, 0, 0]]])
    with_analogue = np.concatenate([values.reshape(2, 8), np.full((2, 3), 77)], axis=1)
    frames = with_analogue.astype(">i2" if order == ">" else "<i2").tobytes()
    if order == ">":
        data = bytearray(big_endian(data))
    data = data[: BLOCK * blocks] + frames.ljust(BLOCK, b"\0")
    number = "big" if order == ">" else "little"
    data[4:6] = (3).to_bytes(2, number)
    data[12:16], data[20:24] = encoded(0.25, order), encoded(50.0, order)
    data[BLOCK + 3] = 84 + ("<", "VAX", ">").index(order)
    return bytes(data)


def encoded(value, order):
    if order == "VAX":
        return np.array([4 * value], "<f4").view("<u2")[::-1].tobytes()
    return np.array([value], f"{order}f4").tobytes()


def big_endian(data):
    """The header words and the offsets of the parameters with their bytes exchanged."""
    data[:BLOCK] = data[:2] + np.frombuffer(bytes(data[2:BLOCK]), "<u2").astype(">u2").tobytes()
    at = BLOCK + 4
    while data[at]:
        offset_at = at + 2 + data[at]
        offset = int.from_bytes(data[offset_at : offset_at + 2], "little")
        data[offset_at : offset_at + 2] = offset.to_bytes(2, "big")
        if data[at + 1] < 128 and data[offset_at + 2] in (2, 4):
            size = data[offset_at + 2]
            first = offset_at + 4 + data[offset_at + 3]
            content = np.frombuffer(bytes(data[first : offset_at + offset - 1]), f"<u{size}")
            data[first : offset_at + offset - 1] = content.astype(f">u{size}").tobytes()
        at = offset_at + offset
    return data


@pytest.mark.parametrize("order", ["<", "VAX", ">"])
def test_c3d_of_every_processor_and_of_integers(order):
    found = parsed(c3d, integer_c3d(order))
    assert_array_equal(found.clouds[0].points, [[1, 2, -3], [np.nan] * 3])
    assert_array_equal(found.clouds[1].points, [[1.25, 1.5, 1.75], [0, 1, 0]])
    assert found.clouds[0].labels == ("a", "b")
    assert found.clouds[1].time == pytest.approx(1 / 50)
    assert any("3 analogue values" in note for note in found.notes)


def test_c3d_markers_without_labels_and_with_equal_ones_are_named_and_noted():
    data = c3d.render(recording(1, 3, hidden=0, labels=("ab", "xy", "cd")))
    found = parsed(c3d, data.replace(b"abxycd", b"ab  ab"))
    assert found.clouds[0].labels == ("ab", "*2", "ab#2")
    assert len(found.notes) == 2
    assert ("POINT", "LABELS") in read_parameters(data, "file")[1]


# -- frames and markers --


@pytest.mark.parametrize("suffix", [".c3d", ".trc", ".npz"])
def test_frames_and_markers_are_chosen_by_number_and_by_pattern(tmp_path, suffix):
    made = recording(20, 4, hidden=0, first=101, labels=("LA", "LB", "RA", "C7"))
    io.write(tmp_path / f"walk{suffix}", made)
    first = 101 if suffix != ".npz" else 0  # an archive does not number its clouds
    options = ReadOptions(frames=f"{first + 2}:{first + 11}:4", markers=("L*", "C7"))
    found = io.read(tmp_path / f"walk{suffix}", options)
    assert [one.labels for one in found.clouds] == [("LA", "LB", "C7")] * 3
    for a, b in zip(found.clouds, made.clouds[2:11:4], strict=True):
        assert_array_equal(a.points, b.points[[0, 1, 3]])
        assert suffix == ".npz" or (a.number, a.time) == (b.number, pytest.approx(b.time))


@pytest.mark.parametrize("frames", ["", "5", "a:b", "1:2:0", "-1:5", "1:2:3:4", "1.5:2"])
def test_frames_that_are_no_range_are_an_error(tmp_path, frames):
    io.write(tmp_path / "walk.trc", recording())
    with pytest.raises(InvalidSetting, match=r"expected first:end|at least 1"):
        io.read(tmp_path / "walk.trc", ReadOptions(frames=frames))


def test_frames_and_patterns_that_are_not_in_the_file_are_an_error(tmp_path):
    io.write(tmp_path / "walk.trc", recording(first=5))
    with pytest.raises(FormatError, match="no frame in 0:5, but the frames 5 to 11"):
        io.read(tmp_path / "walk.trc", ReadOptions(frames="0:5"))
    with pytest.raises(FormatError, match=r"no label matches 'X\*'"):
        io.read(tmp_path / "walk.trc", ReadOptions(markers=("M*", "X*")))
    io.write(tmp_path / "many.trc", recording(markers=8))
    with pytest.raises(FormatError, match=r"the labels are 'M:0', .* 'M:7';"):
        io.read(tmp_path / "many.trc", ReadOptions(markers=("X*",)))


def test_every_fourth_frame_is_written_with_its_own_times(tmp_path):
    io.write(tmp_path / "a.c3d", recording(20, 4, rate=120.0, first=41))
    chosen = io.read(tmp_path / "a.c3d", ReadOptions(frames="::4"))
    io.write(tmp_path / "b.c3d", chosen)
    found = io.read(tmp_path / "b.c3d")
    assert_allclose([one.time for one in found.clouds], [one.time for one in chosen.clouds], rtol=1e-6)
    uneven = LandmarkFile((*chosen.clouds[:2], chosen.clouds[4]), labelled=True)
    with pytest.raises(FormatError, match="not evenly spaced in time"):
        c3d.render(uneven)
    assert [one.time for one in parsed(trc, trc.render(uneven)).clouds] == [one.time for one in uneven.clouds]


# -- corrupt files --


def seeds(module):
    made = [module.render(recording(3, 4)), module.render(recording(2, 3, labels=("a", "*2", "c"), unit=None))]
    return made + ([integer_c3d(order) for order in ("<", "VAX", ">")] if module is c3d else [])


def fuzz(module, count):
    chance, valid = random.Random(f"{module.__name__} {count}"), seeds(module)
    for one in valid:
        assert_valid(parsed(module, one))
    refused = 0
    for _ in range(count):
        one = chance.choice(valid)
        data = mutated_bytes(one, chance) if module is c3d else mutated_text(one, chance)
        try:
            assert_valid(parsed(module, data))
        except FormatError:
            refused += 1
    assert 0 < refused < count


@modules
def test_corrupt_files_are_refused_or_valid(module):
    fuzz(module, FUZZ)


@pytest.mark.slow
@modules
def test_twenty_thousand_corrupt_files_are_refused_or_valid(module):
    fuzz(module, 20_000)


def test_corrupt_c3d_files_take_memory_in_proportion_to_their_size():
    chance, valid = random.Random(8), seeds(c3d)
    tracemalloc.start()
    try:
        for _ in range(100):
            data = mutated_bytes(chance.choice(valid), chance)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with contextlib.suppress(FormatError):
                parsed(c3d, data)
            assert tracemalloc.get_traced_memory()[1] - before < 500 * len(data) + 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("old", "new", "line", "match"),
    [
        ("PathFileType", "File", 1, "begins with PathFileType"),
        ("DataRate", "Rate", 3, "no DataRate"),
        ("Frame#", "Number", 4, "expected Frame#"),
        ("M:1", "M:0", 4, "occurs twice"),
        ("M:0", "", 4, "no name"),
        ("\n2\t", "\nx\t", 8, "number of a frame"),
        ("\n2\t", "\n1\t", 9, "occurs twice"),
    ],
)
def test_trc_errors_are_on_their_line(old, new, line, match):
    text = trc.render(recording(3, 2, hidden=0))
    with pytest.raises(FormatError, match=match) as caught:
        parsed(trc, text.replace(old, new, 1) if old != "DataRate" else text.replace(old, new))
    assert caught.value.line == line
