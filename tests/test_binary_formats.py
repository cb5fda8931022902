"""Meshes, NPZ and MATLAB cells are read back as they were written, and corrupt files end in a FormatError."""

from __future__ import annotations

import contextlib
import io
import random
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import savemat

from kernelgpa.errors import FormatError
from kernelgpa.io import mat, npz, obj, off, ply, stl, vtk
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions, numbered_labels
from landmark_files import AWKWARD, UNUSUAL, assert_same, assert_valid, contents, name_of

FUZZ = 200  # inputs per reader
MESHES = [ply, obj, off, vtk, stl]
every_mesh = pytest.mark.parametrize("module", MESHES, ids=name_of)
TETRAHEDRON = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
SIDES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], dtype=np.intp)


def mesh_of(vertices, faces, frame=None):
    return LandmarkFile(
        (LabelledCloud("skull", np.asarray(vertices), numbered_labels(len(vertices))),), False, frame, faces=faces
    )


def parsed(module, data):
    return module.parse(data, "file", ReadOptions(name="skull"))


def refused(module, data, match):
    with pytest.raises(FormatError, match=match):
        parsed(module, data)


@st.composite
def meshes(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(3, 20))
    vertices = rng.standard_normal((count, 3)) * 10.0 ** draw(st.integers(-6, 6))
    # every vertex in a face and in the order of its first appearance, so that STL holds it too
    faces = [[i, i + 1, i + 2] for i in range(count - 2)]
    return mesh_of(vertices, np.array(faces, dtype=np.intp))


@every_mesh
@given(given_=meshes())
def test_a_mesh_is_read_back(module, given_):
    found = parsed(module, module.render(given_))
    single = module is stl  # which holds single precision
    assert_allclose(found.clouds[0].points, given_.clouds[0].points, rtol=1e-6 if single else 0)
    assert_array_equal(found.faces, given_.faces)


@pytest.mark.parametrize("module", [ply, obj, off, vtk], ids=name_of)
def test_points_without_faces_are_read_back(module):
    found = parsed(module, module.render(mesh_of(TETRAHEDRON, None)))
    assert_array_equal(found.clouds[0].points, TETRAHEDRON)
    assert found.faces is None


@given(given_=contents(names=UNUSUAL | AWKWARD, labels=UNUSUAL | AWKWARD, weights=True))
def test_npz_holds_any_name_and_weights(given_):
    texts = [one.name for one in given_.clouds] + list(given_.clouds[0].labels)
    if any(text.endswith("\0") for text in texts):
        with pytest.raises(FormatError, match="zero character"):
            npz.render(given_)
    else:
        assert_same(parsed(npz, npz.render(given_)), given_)


@given(given_=contents())
def test_matlab_cells_are_read_back_with_numbered_clouds(given_):
    found = parsed(mat, mat.render(given_))
    renamed = [replace(one, name=f"skull_{t + 1}") for t, one in enumerate(given_.clouds)]
    assert_same(found, replace(given_, clouds=tuple(renamed)))


def test_matlab_files_of_either_kind_are_read():
    data, visible = np.empty((1, 2), dtype=object), np.empty((1, 2), dtype=object)
    data[0, :] = [np.arange(12.0).reshape(3, 4), np.arange(12, dtype=np.int16).reshape(3, 4)]
    visible[0, :] = [np.array([[1, 1, 0, 1]], dtype=np.uint8), np.ones((1, 4), dtype=bool)]
    for compressed in (False, True):
        buffer = io.BytesIO()
        variables = {"other": "text", "DataCell": data, "number": 3.0, "VisVecCell": visible, "cell": {"a": 1}}
        savemat(buffer, variables, do_compression=compressed)
        found = parsed(mat, buffer.getvalue())
        assert_array_equal(found.clouds[1].points, np.arange(12.0).reshape(3, 4).T)
        assert np.isnan(found.clouds[0].points[2]).all()
    refused(mat, b"MATLAB 7.3 MAT-file" + bytes(200), "version 7.3")


# -- the facts of the formats --


def test_ply_of_text_with_other_properties_and_a_frame():
    text = (
        b"ply\r\nformat ascii 1.0\r\ncomment SPACE=RAS\r\nelement vertex 4\r\nproperty uchar red\r\n"
        b"property float x\r\nproperty float y\r\nproperty float z\r\nelement face 1\r\n"
        b"property list uchar int vertex_indices\r\n"
        b"end_header\r\n9 1 2 3\r\n9 4 5 6\r\n9 7 8 9\r\n9 0 0 1\r\n4 0 1 2 3\r\n"
    )
    found = parsed(ply, text)
    assert_array_equal(found.clouds[0].points[0], [-1, -2, 3])  # LPS
    assert_array_equal(found.faces, [[0, 1, 2], [0, 2, 3]])
    assert found.frame == "LPS"
    assert found.notes == ("RAS converted to LPS",)
    refused(ply, text.replace(b"9 4 5 6", b"9 4 5"), r"line 13: found 3 numbers")
    refused(ply, text.replace(b"vertex 4", b"vertex 1000000000"), "truncated")


def test_ply_keeps_its_frame():
    assert parsed(ply, ply.render(mesh_of(TETRAHEDRON, SIDES, "LPS"))).frame == "LPS"
    assert parsed(ply, ply.render(mesh_of(TETRAHEDRON, SIDES))).frame is None


def test_big_endian_ply_with_quads():
    header = (
        b"ply\nformat binary_big_endian 1.0\nelement vertex 4\nproperty double x\nproperty double y\n"
        b"property double z\nproperty uchar red\nelement face 2\nproperty list uchar int vertex_index\nend_header\n"
    )
    rows = b"".join(np.array(v, dtype=">f8").tobytes() + b"\7" for v in TETRAHEDRON)
    faces = b"\4" + np.arange(4, dtype=">i4").tobytes() + b"\3" + np.arange(3, dtype=">i4").tobytes()
    found = parsed(ply, header + rows + faces)
    assert_array_equal(found.clouds[0].points, TETRAHEDRON)
    assert_array_equal(found.faces, [[0, 1, 2], [0, 2, 3], [0, 1, 2]])
    refused(ply, header + rows + faces[:-2], "truncated")


def test_obj_keeps_vertices_without_a_face_and_reads_negative_indices():
    text = b"# mesh\nv 0 0 0\nv 1 0 0 1.0\nv 1 1 0\nv 9 9 9\nvt 0 0\nvn 0 0 1\nf -4/1/1 -3/1/1 -2/1/1\nusemtl x\n"
    found = parsed(obj, text)
    assert len(found.clouds[0].points) == 4
    assert_array_equal(found.faces, [[0, 1, 2]])
    refused(obj, b"v 0 0 0\nv 1 0\n", "line 2: found 2 numbers")
    refused(obj, b"v 0 0 0\nf 1 2 3\n", "vertex 2 of 1")
    refused(obj, b"v 0 0 0\nf 1 x 3\n", "line 2: found 'x'")


def test_off_with_comments_and_colours():
    text = b"OFF # a mesh\n# counts\n3 1 0\n0 0 0\n1 0 0 # corner\n\n0 1 0\n3 0 1 2 255 0 0\n"
    found = parsed(off, text)
    assert_array_equal(found.faces, [[0, 1, 2]])
    refused(off, text.replace(b"3 1 0", b"999999999 1 0"), "truncated")
    refused(off, b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n", "the file is truncated|the file ends")
    refused(off, b"COFF\n", "expected OFF")


def test_stl_of_text_and_binary_files_that_begin_with_solid():
    corners = TETRAHEDRON[SIDES]
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n" + "".join(f"vertex {x} {y} {z}\n" for x, y, z in one) + "endloop\nendfacet\n"
        for one in corners
    )
    found = parsed(stl, f"solid t\n{facets}endsolid\n".encode())
    assert_array_equal(found.clouds[0].points[found.faces], corners)
    assert len(found.clouds[0].points) == 4
    assert "corners" in found.notes[0]
    binary = stl.render(mesh_of(TETRAHEDRON, SIDES))
    assert_array_equal(parsed(stl, b"solid" + binary[5:]).faces, found.faces)
    refused(stl, binary[:-3], "truncated, or is no STL")
    refused(stl, f"solid t\n{facets}endsolid\n".replace("vertex 1.0 0.0 0.0\n", "", 1).encode(), "three corners")


def test_vtk_of_version_5_and_unstructured_grids():
    begin = b"# vtk DataFile Version 5.1\nt\nBINARY\nDATASET POLYDATA\nPOINTS 3 float\n"
    points = np.arange(9).astype(">f4").tobytes()
    cells = np.array([0, 3]).astype(">i8").tobytes(), np.array([0, 1, 2]).astype(">i8").tobytes()
    middle = b"\nPOLYGONS 2 3\nOFFSETS vtktypeint64\n" + cells[0] + b"\nCONNECTIVITY vtktypeint64\n" + cells[1]
    found = parsed(vtk, begin + points + middle + b"\nPOINT_DATA 3\nanything")
    assert_array_equal(found.clouds[0].points, np.arange(9.0).reshape(3, 3))
    assert_array_equal(found.faces, [[0, 1, 2]])
    grid = (
        b"# vtk DataFile Version 3.0\nt\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 double\n0 0 0 1 0 0\n0 1 0 0 0 1\n"
        b"CELLS 2 8\n3 0 1 2\n3 1 2 3\nCELL_TYPES 2\n5 3\n"
    )
    assert_array_equal(parsed(vtk, grid).faces, [[0, 1, 2]])
    refused(vtk, grid.replace(b"POINTS 4", b"POINTS 4000000000"), "cannot hold that")
    refused(vtk, grid.replace(b"0 1 0 0 0 1", b"0 1 x 0 0 1"), "found 'x'")
    refused(vtk, grid.replace(b"0 1 0 0 0 1", b"0 1_0 0 0 0 1"), "found '1_0'")


def test_vtk_skips_metadata_and_divides_strips():
    begin = b"# vtk DataFile Version 4.2\n3D Slicer output. SPACE=RAS\nASCII\nDATASET POLYDATA\nPOINTS 4 float\n"
    points = (
        b"0 0 0 1 0 0 0 1 0 1 1 2\nMETADATA\nINFORMATION 1\nNAME L2_NORM_RANGE LOCATION vtkDataArray\nDATA 2 0 1\n\n"
    )
    found = parsed(vtk, begin + points + b"LINES 1 3\n2 0 1\nTRIANGLE_STRIPS 1 5\n4 0 1 2 3\n")
    assert_array_equal(found.faces, [[0, 1, 2], [2, 1, 3]])
    assert_array_equal(found.clouds[0].points[3], [-1, -1, 2])
    assert found.frame == "LPS"
    assert found.notes == ("RAS converted to LPS", "1 lines ignored")


@pytest.mark.parametrize("module", [ply, obj, vtk, stl], ids=name_of)
def test_meshes_keep_their_frame(module):
    found = parsed(module, module.render(mesh_of(TETRAHEDRON, SIDES, "LPS")))
    assert found.frame == "LPS"
    data = module.render(mesh_of(TETRAHEDRON, SIDES, "LPS")).replace(b"SPACE=LPS", b"SPACE=RAS")
    turned = parsed(module, data).clouds[0].points
    assert_allclose(turned, found.clouds[0].points * [-1, -1, 1], rtol=0, atol=0)


def test_archives_that_are_empty_or_expand_too_much_are_refused():
    refused(npz, archive(points=np.zeros((10**6, 0, 3))), "shape")
    refused(npz, archive(points=np.zeros((1, 10**7, 3), dtype=np.int8)), "claims")
    cells = np.empty((1, 1), dtype=object)
    cells[0, 0] = np.zeros((3, 10**7), dtype=np.int8)
    buffer = io.BytesIO()
    savemat(buffer, {"DataCell": cells}, do_compression=True)
    refused(mat, buffer.getvalue(), "expands too much")
    refused(npz, archive(points=np.zeros((1, 3, 3)), names=np.array([""])), "empty name")


# -- files with false claims --


def archive(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def test_an_archive_is_never_unpickled():
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    refused(npz, archive(points=np.array([Bomb()], dtype=object)), "holds Python objects")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as pack:
        pack.writestr("points.npy", b"\x80\x04cos\nsystem\n.")
    refused(npz, buffer.getvalue(), "not a readable NPZ file")


def test_an_archive_that_claims_too_much_is_refused_before_memory_is_allocated():
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 100, 3)})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as pack:
        pack.writestr("points.npy", header.getvalue() + bytes(100))
    refused(npz, buffer.getvalue(), r"claims shape \(1000000000, 100, 3\)")


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({}, "expected an array 'points'"),
        ({"points": np.zeros((3, 4))}, r"shape \(3, 4\)"),
        ({"points": np.zeros((3, 4, 5))}, r"shape \(3, 4, 5\)"),
        ({"points": np.array([["a"]])}, "expected numbers"),
        ({"points": np.full((1, 2, 2), np.inf)}, "infinite"),
        ({"points": np.array([[[np.nan, 1.0]]])}, "NaN in some coordinates only"),
        ({"points": np.zeros((2, 3, 2)), "names": np.array(["a", "a"])}, "occurs twice"),
        ({"points": np.zeros((2, 3, 2)), "names": np.array(["a"])}, "expected 2 texts"),
        ({"points": np.zeros((2, 3, 2)), "weights": -np.ones((2, 3))}, "at least 0"),
    ],
)
def test_wrong_arrays_are_named(arrays, match):
    refused(npz, archive(**arrays), match)


def test_what_a_mesh_cannot_hold_is_refused():
    flat = LandmarkFile((LabelledCloud("a", np.zeros((3, 2)), numbered_labels(3)),), False)
    unseen = mesh_of(np.where(np.eye(4, 3) > 0, np.nan, 1.0) * np.array([[np.nan], [1], [1], [1]]), None)
    several = LandmarkFile(
        (LabelledCloud("a", TETRAHEDRON, numbered_labels(4)), LabelledCloud("b", TETRAHEDRON, numbered_labels(4))),
        False,
    )
    labelled = LandmarkFile((LabelledCloud("a", TETRAHEDRON, ("a", "b", "c", "d")),), True)
    for module in MESHES:
        for wrong in (flat, unseen, several, labelled):
            with pytest.raises(FormatError):
                module.render(wrong)


# -- fuzzing --


TOKENS = [b"999999999999", b"-1", b"NaN", b"1e999", b"\0", b"\n", b" ", b"1000000000", b"\xff\xff\xff\xff", b"\x7f\xf0"]


def mutated(data, chance):
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        kind, at = chance.randrange(6), chance.randrange(len(data) + 1)
        if kind == 0 and data:
            data[at % len(data)] = chance.randrange(256)
        elif kind == 1:
            del data[at : at + chance.randrange(1, 20)]
        elif kind == 2:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            begin = chance.randrange(len(data) + 1)
            data[at:at] = data[begin : begin + chance.randrange(1, 40)]
        else:
            data[at : at + 4] = chance.choice(TOKENS)
    return bytes(data)


def seeds(module):
    rng = np.random.default_rng(1)
    if module in MESHES:
        faces = np.array([[i, i + 1, i + 2] for i in range(7)], dtype=np.intp)
        first = [module.render(mesh_of(rng.standard_normal((9, 3)), faces))]
        return first + [one for kind, one in MORE if kind is module]
    points = rng.standard_normal((3, 6, 3))
    points[0, 2] = np.nan
    clouds = LandmarkFile(tuple(LabelledCloud(f"c{t}", points[t], numbered_labels(6)) for t in range(3)), False)
    plain = io.BytesIO()
    cells = np.empty((1, 3), dtype=object)
    cells[0, :] = [np.nan_to_num(one.T) for one in points]
    savemat(plain, {"DataCell": cells})
    return [module.render(clouds), *([plain.getvalue()] if module is mat else [archive_of(points)])]


def archive_of(points):
    buffer = io.BytesIO()
    np.savez(buffer, points=points, names=np.array(["a", "b", "c"]), weights=np.ones(6))
    return buffer.getvalue()


MORE = [
    (ply, b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement "
     b"face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n1 1 0\n3 0 1 2\n"),
    (vtk, b"# vtk DataFile Version 5.1\nt\nASCII\nDATASET POLYDATA\nPOINTS 3 float\n0 0 0 1 1 1 2 0 2\nPOLYGONS 2 3\n"
     b"OFFSETS vtktypeint64\n0 3\nCONNECTIVITY vtktypeint64\n0 1 2\n"),
    (stl, b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n"),
]  # fmt: skip


@pytest.mark.parametrize("module", [*MESHES, npz, mat], ids=name_of)
def test_corrupt_files_take_memory_in_proportion_to_their_size(module):
    chance, valid = random.Random(8), seeds(module)
    tracemalloc.start()
    try:
        for _ in range(100):
            data = mutated(chance.choice(valid), chance)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with contextlib.suppress(FormatError):
                parsed(module, data)
            # some objects per byte, and what a reader needs however small the file is
            assert tracemalloc.get_traced_memory()[1] - before < 500 * len(data) + 1_000_000
    finally:
        tracemalloc.stop()


def fuzz(module, count):
    """Read damaged files; each is refused or holds valid clouds."""
    chance, valid, refused = random.Random(f"{name_of(module)} {count}"), seeds(module), 0
    for one in valid:
        assert_valid(parsed(module, one))
    for _ in range(count):
        data = mutated(chance.choice(valid), chance)
        try:
            assert_valid(parsed(module, data))
        except FormatError:
            refused += 1
    assert 0 < refused < count


@pytest.mark.parametrize("module", [*MESHES, npz, mat], ids=name_of)
def test_corrupt_files_are_refused_or_valid(module):
    fuzz(module, FUZZ)


@pytest.mark.slow
@pytest.mark.parametrize("module", [*MESHES, npz, mat], ids=name_of)
def test_twenty_thousand_corrupt_files_are_refused_or_valid(module):
    fuzz(module, 20_000)
