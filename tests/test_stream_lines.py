"""Lines of JSON become frames; a malformed line is reported with its number and what was expected."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from kernelgpa.errors import FormatError
from kernelgpa.observations.arrays import finite_rows
from kernelgpa.streaming.frames import Drop, End, parse

POINTS = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]


def parsed(text):
    return parse(text.encode() if isinstance(text, str) else text, "in", 7)


def test_a_frame_is_read_with_all_optional_keys():
    rotation = Rotation.from_euler("z", 30, degrees=True)
    motion = {"translation": [1, 2, 3], "accuracy": 0.5, "degrees": 0.2}
    frame = parsed(
        json.dumps(
            {
                "frame": "a",
                "time": 1.5,
                "ids": [1, "x", "y", "z", "u", "v"],
                "points": [*POINTS, None, [None, None, None]],
                "weights": [1, 1, 1, 2, 1, 1],
                "odometry": {**motion, "quaternion": rotation.as_quat().tolist(), "from": "b"},
                "pose": {**motion, "rotation": rotation.as_matrix().tolist()},
            }
        )
    )
    assert (frame.name, frame.time, frame.ids[:2]) == ("a", 1.5, ["1", "x"])
    assert finite_rows(frame.points).tolist() == [True] * 4 + [False] * 2
    assert frame.weights.tolist() == [1, 1, 1, 2, 1, 1]
    assert frame.odometry.start == "b"
    assert_allclose(frame.odometry.rotation, frame.pose.rotation, atol=1e-15)
    assert frame.pose.measured().source == "tracker"
    assert parsed('{"drop": 3}') == Drop(3)
    assert parsed('{"end": true}') == End()


def frame_with(**other):
    return json.dumps({"ids": ["a", "b", "c", "d"], "points": POINTS, **other})


def motion_with(**other):
    return {"rotation": np.eye(3).tolist(), "translation": [0, 0, 0], "accuracy": 1, "degrees": 1, **other}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the line is not JSON (Expecting property name enclosed in double quotes at column 2)"),
        (b'{"ids": "\xff"}', "the line is not UTF-8"),
        ("[1, 2]", "found '[1, 2]'; expected an object"),
        ("[" * 100_000, "brackets are nested too deeply"),
        ('{"time": ' + "9" * 5000 + "}", "a number has too many digits"),
        ('{"time": 1, "time": 2}', "the key 'time' is repeated"),
        (frame_with(points=[[float("nan")] * 3] * 4), "found NaN, which is not JSON; write null"),
        (frame_with().replace("[1, 0, 0]", "[1e999, 0, 0]"), "point 2 has 'Infinity'; expected a finite number"),
        (frame_with(points=[*POINTS[:3], [0, None, 1]]), "point 4 has missing; expected a finite number"),
        (frame_with(points=[*POINTS[:3], [0, True, 1]]), "point 4 has 'true'; expected a finite number"),
        (frame_with(points=POINTS[:3]), "3 points for 4 ids; expected one point per id"),
        (frame_with(points=[*POINTS[:3], [0, 1]]), "point 4 has 2 values; expected 3 numbers"),
        (frame_with(points=[[0], [1], [2], [3]]), "the first point has 1 coordinates; expected 2 or 3"),
        (frame_with(points=[*POINTS[:3], None]), "3 points are seen; expected at least 4 in 3D"),
        (frame_with(points=7), "points is '7' for 4 ids; expected one point per id"),
        (frame_with(ids=["a", "b", "a", "d"]), "the id 'a' is given more than once"),
        (frame_with(ids=[1, 2, "1", 3]), "the id '1' is given more than once"),
        (frame_with(ids=["a", "b", "c", 1.5]), "an id is '1.5'; expected an integer or a string"),
        (frame_with(ids=None), "ids is missing; expected a list"),
        (frame_with(frame=[1]), "frame is '[1]'; expected an integer or a string"),
        (frame_with(time="now"), "time has '\"now\"'; expected a finite number"),
        (frame_with(weights=[1, 1, 1]), "weights has 3 values; expected 4 numbers"),
        (frame_with(weights=[1, 1, 1, -1]), "a weight is -1; expected 0 or more"),
        (frame_with(point=1), "a frame has the key 'point'; expected frame, time, ids"),
        (frame_with(pose=[1]), "pose is '[1]'; expected an object with rotation"),
        (frame_with(pose=motion_with(accuracy=0)), "pose has accuracy 0 and degrees 1; expected numbers above 0"),
        (frame_with(pose=motion_with(rotation=[[2, 0, 0], [0, 1, 0], [0, 0, 1]])), "rotation of pose is not a rot"),
        (frame_with(pose=motion_with(quaternion=[0, 0, 0, 1])), "pose has both or none of rotation and quaternion"),
        (frame_with(pose=motion_with(**{"from": 1})), "pose has the key 'from'"),
        (frame_with(odometry=motion_with(translation=[0, 0])), "translation of odometry has 2 values"),
        ('{"drop": true}', "drop is 'true'; expected an integer or a string"),
        ('{"drop": 1, "frame": 2}', "a drop has the key 'frame'; expected drop"),
        ('{"end": 1}', "end is '1'; expected true"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_reported_with_its_number_and_what_was_expected(text, message):
    with pytest.raises(FormatError) as caught:
        parsed(text)
    assert str(caught.value).startswith("in, line 7: ")
    assert message in str(caught.value)
