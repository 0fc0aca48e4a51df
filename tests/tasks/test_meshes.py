"""Meshes of the pose tasks, from files as written by hand and from the real archive."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import DataError
from anyshot.tasks.meshes import LONGEST_SIDE, Mesh, normalise, parse_off, read_meshes

pytestmark = pytest.mark.medium

TETRAHEDRON = "OFF\n4 4 0\n0 0 0\n2 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"


def test_off_is_read_as_written() -> None:
    mesh = parse_off(TETRAHEDRON, "t")
    np.testing.assert_array_equal(mesh.vertices, [[0, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(mesh.faces, [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
    windows = "# a comment\r\n" + TETRAHEDRON.replace("\n", "\r\n") + "# the end"
    np.testing.assert_array_equal(parse_off(windows, "t").faces, mesh.faces)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("OFF", "PLY", "starts with 'PLY'"),
        ("4 4 0", "four 4 0", "numbers of vertices, faces and edges"),
        ("4 4 0", "4 -4 0", "announces 4 vertices and -4 triangles"),
        ("4 4 0", "4 5 0", "cut off"),
        ("3 1 2 3\n", "", "cut off"),
        ("3 1 2 3", "4 0 1 2 3", "not made of triangles only"),
        ("3 1 2 3", "2 1 2 3", "face of 2 corners"),
        ("3 1 2 3", "3 1 2 4", r"vertex 4, but its vertices are 0\.\.3"),
        ("3 1 2 3", "3 1 2 -1", "vertex -1"),
        ("3 1 2 3", "3 1 2 2.5", "not a number"),
        ("2 0 0", "2 0 x", "not a number"),
        ("2 0 0", "2 0 nan", "not finite: number 1"),
        (TETRAHEDRON, "", "starts with ''"),
        (TETRAHEDRON, "OFF", "numbers of vertices, faces and edges"),
    ],
)
def test_a_malformed_file_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=f"chair/99.off.*{message}"):
        parse_off(TETRAHEDRON.replace(old, new, 1), "chair/99.off")


def box(mesh: Mesh) -> tuple[Any, Any]:
    drawn = mesh.vertices[mesh.faces].reshape(-1, 3)
    return drawn.min(axis=0), drawn.max(axis=0)


def assert_normalised(mesh: Mesh) -> None:
    low, high = box(mesh)
    np.testing.assert_allclose(low + high, 0, atol=1e-12)
    np.testing.assert_allclose((high - low).max(), LONGEST_SIDE, rtol=1e-12)


@given(st.lists(st.tuples(*3 * [st.integers(-1000, 1000)]), min_size=4, max_size=4, unique=True))
def test_the_longest_side_is_scaled_and_the_box_centred(corners: list[tuple[int, int, int]]) -> None:
    unused = (5000.0, 5000.0, 5000.0)  # of no triangle, so it must not count
    mesh = Mesh("m", np.array([*corners, unused]), np.array([[0, 1, 2], [1, 2, 3]], np.int32))
    assert_normalised(normalise(mesh))


def test_a_point_cannot_be_scaled() -> None:
    with pytest.raises(DataError, match="m has no extent"):
        normalise(Mesh("m", np.ones((3, 3)), np.array([[0, 1, 2]], np.int32)))


def test_the_65_objects(meshes: dict[str, Mesh]) -> None:
    names = list(meshes)
    assert len(names) == 65
    assert names[:63] == sorted(names[:63])
    assert names[63:] == ["car/09-remeshed", "toilet/01"]
    assert not [name for name in names if name.startswith(("bottle", "train"))]
    assert len(meshes["motorbike/04"].faces) == 237_006
    for mesh in meshes.values():
        assert_normalised(mesh)


def test_the_official_archive(tmp_path: Path) -> None:
    categories = {"aeroplane": 8, "bicycle": 6, "boat": 6, "bottle": 8, "bus": 6, "car": 10, "chair": 10}
    categories |= {"diningtable": 6, "motorbike": 5, "sofa": 6, "train": 4, "tvmonitor": 4}
    names = [f"{category}/{number:02}" for category, count in categories.items() for number in range(1, count + 1)]
    assert len(names) == 79

    def pack(names: list[str], text: str = TETRAHEDRON) -> Path:
        with zipfile.ZipFile(tmp_path / "pascal.zip", "w") as archive:
            archive.writestr("PASCAL3D+_release1.1/CAD/car.mat", b"\0")
            for name in names:
                archive.writestr(f"PASCAL3D+_release1.1/CAD/{name}.off", text)
        return tmp_path / "pascal.zip"

    got = [mesh.name for mesh in read_meshes(pack(names[::-1]))]
    assert got[63:] == ["car/09", "car/02"]
    skipped = {"car/02", "car/07", "car/09", "car/10"}
    assert got[:63] == [n for n in names if n not in skipped and not n.startswith(("bottle", "train"))]
    with pytest.raises(DataError, match=r"lacks 1 of the 65 meshes, the first is CAD/sofa/03\.off"):
        read_meshes(pack([name for name in names if name != "sofa/03"]))
    with pytest.raises(DataError, match=r"PASCAL3D\+_release1\.1/CAD/aeroplane/01\.off of .*pascal\.zip announces"):
        read_meshes(pack(names, TETRAHEDRON[:-10]))
    whole = pack(names).read_bytes()
    entry = whole.rfind(b"PK\1\2", 0, whole.rfind(b"aeroplane/03.off"))  # of the archive's directory
    start = whole.find(b"aeroplane/03.off") + len("aeroplane/03.off")
    for place, damage, why in ((8, b"\1", "encrypted"), (10, b"\x63", "not supported"), (10, b"\x08", "decompressing")):
        damaged = bytearray(whole)
        damaged[entry + place : entry + place + 1] = damage
        damaged[start : start + 6] = b"\xff" * 6
        (tmp_path / "pascal.zip").write_bytes(damaged)
        with pytest.raises(DataError, match=rf"pascal\.zip is damaged: .*aeroplane/03\.off cannot be read \(.*{why}"):
            read_meshes(tmp_path / "pascal.zip")
    (tmp_path / "pascal.zip").write_text("no zip")
    with pytest.raises(DataError, match="cannot be read as a zip archive"):
        read_meshes(tmp_path / "pascal.zip")
