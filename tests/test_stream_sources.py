"""The page on streams shows how to feed one from a socket or a ROS 2 topic: its code runs here, without ROS."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from conftest import scene
from kernelgpa import StreamingGPA
from stream_runs import CLOUDS, PROGRAM, TIMEOUT, assert_same_shape, batch_map, lines_in, map_in

PAGE = (Path(__file__).parents[1] / "docs" / "tutorials" / "streaming.md").read_text()


def test_a_socket_feeds_a_stream_as_a_file_does(texts, liver, tmp_path):
    """As ``nc sensor.local 9000 | kernelgpa stream -`` does, with the socket itself as standard input."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sensor = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    options = ["-", "--window", "8", "-o", "out", "--checkpoint", "state.npz"]
    with (
        receiver,
        subprocess.Popen(
            [*PROGRAM, *options], stdin=receiver.fileno(), stdout=subprocess.PIPE, cwd=tmp_path, text=True
        ) as program,
    ):
        with sensor:
            for line in texts:
                half = len(line) // 2  # a packet need not end where a line does
                sensor.sendall(line[:half].encode())
                sensor.sendall(line[half:].encode())
        printed, _ = program.communicate(timeout=TIMEOUT)
    assert program.returncode == 0
    assert [line["frame"] for line in lines_in(printed)] == list(range(CLOUDS))
    assert_same_shape(map_in(tmp_path / "out"), batch_map(liver.points[-8:], tmp_path / "state.npz"))


class Node:
    """Stands in for a node of rclpy: it keeps what the code of the page registers, publishes and logs."""

    def __init__(self):
        self.published, self.warnings, self.receive = [], [], None

    def create_publisher(self, kind, topic, depth):
        return SimpleNamespace(publish=self.published.append)

    def create_subscription(self, kind, topic, callback, depth):
        self.receive = callback

    def get_logger(self):
        return SimpleNamespace(warning=self.warnings.append)


def module(name, **contents):
    made = ModuleType(name)
    made.__dict__.update(contents)
    return made


def pose_stamped(header=None):
    pose = SimpleNamespace(position=SimpleNamespace(), orientation=SimpleNamespace())
    return SimpleNamespace(header=header, pose=pose)


def read_points(message, fields, skip_nans):
    assert skip_nans
    rows = message.rows[np.isfinite(message.rows["x"])]
    return rows[list(fields)]


@pytest.fixture
def node(monkeypatch):
    """The node of the page, after its code has run up to the loop that waits for messages."""
    found = Node()
    rclpy = module("rclpy", init=lambda: None, create_node=lambda name: found, spin=lambda node: None)
    stand_ins = [
        rclpy,
        *(module(name) for name in ("geometry_msgs", "sensor_msgs", "sensor_msgs_py")),
        module("geometry_msgs.msg", PoseStamped=pose_stamped),
        module("sensor_msgs.msg", PointCloud2=object),
        module("sensor_msgs_py.point_cloud2", read_points=read_points),
    ]
    for one in stand_ins:
        monkeypatch.setitem(sys.modules, one.__name__, one)
    (code,) = re.findall(r"```text\n(import rclpy.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(code, names)
    assert found.receive is not None
    found.stream = names["stream"]
    return found


def message_of(points, stamp):
    kinds = [("x", np.float32), ("y", np.float32), ("z", np.float32), ("intensity", np.float32), ("id", np.uint32)]
    rows = np.zeros(len(points), dtype=kinds)
    rows["x"], rows["y"], rows["z"], rows["id"] = *points.T, np.arange(len(points))
    return SimpleNamespace(rows=rows, header=stamp)


@pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")
def test_a_ros_2_node_publishes_the_pose_of_each_frame(node):
    points, _ = scene(n=8, m=30, hidden=0.1, noise=0.005, bend=0.05)
    for t, cloud in enumerate(points):
        node.receive(message_of(cloud, t))
    node.receive(message_of(points[0][:2], "too few"))
    assert len(node.warnings) == 2
    assert [one.header for one in node.published] == list(range(1, 8))  # two frames make a map
    expected = StreamingGPA(window=100)
    for t, cloud in enumerate(points):
        seen = np.flatnonzero(np.isfinite(cloud[:, 0]))
        key = expected.add(cloud[seen].astype(np.float32), seen.tolist())
        if t:
            expected.update()
    rotation, translation = expected.pose(key)
    pose = node.published[-1].pose
    position, q = pose.position, pose.orientation
    size = np.nanmax(np.abs(points))
    # float32 rounds the points, and the list of the page is in float64: resolutions differ and nothing else
    assert_allclose([position.x, position.y, position.z], translation, rtol=0, atol=1e-6 * size)
    assert_allclose(Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix(), rotation, rtol=0, atol=1e-6)
    assert node.stream.landmarks_ == expected.landmarks_
