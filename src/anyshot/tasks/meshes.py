"""The 65 objects of the pose tasks: CAD models of PASCAL3D+ (Xiang et al. 2014) without the symmetric bottle and train.

PASCAL3D+ has 67 such models; the task set has 65, as in Yin et al. (2020). Two archives can be read:

- the official `PASCAL3D+_release1.1.zip`: the 63 models below, then `car/09` and `car/02`;
- the smaller `pascal3d_cad.zip`, made from public copies, which lacks four cars: the same 63 models, then a re-mesh of
  `car/09` and an object of ObjectNet3D, `toilet/01`. Of the spare objects in that archive the toilet shows its
  orientation best: it is solid and upright, with the tank at the back and the bowl in front. (Bed, piano, printer and
  telephone are boxes from many sides, laptop and guitar are flat, the iron stands on end, and bench, faucet and
  wheelchair have parts too thin for a small picture.)
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int32

from anyshot.errors import DataError

OBJECTS = 65
LONGEST_SIDE = 1.2  # of the bounding box, in units of MuJoCo, as in Yin et al.

# The models in both archives. Cars 07 and 10 are only in the official archive and left out to keep the number at 65.
_NUMBERS = {
    "aeroplane": range(1, 9),
    "bicycle": range(1, 7),
    "boat": range(1, 7),
    "bus": range(1, 7),
    "car": (1, 3, 4, 5, 6, 8),
    "chair": range(1, 11),
    "diningtable": range(1, 7),
    "motorbike": range(1, 6),
    "sofa": range(1, 7),
    "tvmonitor": range(1, 5),
}
_NAMES = [f"{category}/{number:02}" for category, numbers in _NUMBERS.items() for number in numbers]
# The last two objects: names and paths, the first choice first. The name of a re-mesh says so.
_LAST = [
    [("car/09", "CAD/car/09"), ("car/09-remeshed", "CAD_remeshed/car/09")],
    [("car/02", "CAD/car/02"), ("toilet/01", "extra/toilet/01")],
]


@dataclass(frozen=True)
class Mesh:
    """A triangle mesh, z up.

    Attributes:
        name: category and number, such as `chair/04`.
        vertices: one point per row.
        faces: three rows of `vertices` per triangle; their order does not tell inside from outside.
    """

    name: str
    vertices: Float[np.ndarray, "vertices 3"]
    faces: Int32[np.ndarray, "faces 3"]


def parse_off(text: str, name: str) -> Mesh:
    """Parse a triangle mesh in the ASCII OFF format.

    Args:
        text: `OFF`, the numbers of vertices, faces and edges, then `x y z` for each vertex and `3 a b c` for each
            triangle; `#` starts a comment.
        name: of the mesh, also used in error messages.

    >>> print(parse_off("OFF 3 1 0  0 0 0  1 0 0  0 1 0  3 0 1 2", "triangle").faces)
    [[0 1 2]]
    """
    words = re.sub(r"#.*", "", text).split()
    if not words or words[0] != "OFF":
        raise DataError(f"{name} is not an ASCII OFF file: it starts with {' '.join(words[:1])[:20]!r}, not with 'OFF'")
    try:
        vertex_count, face_count, _ = (int(word) for word in words[1:4])
    except ValueError as error:
        raise DataError(
            f"{name} must say its numbers of vertices, faces and edges after 'OFF', got {words[1:4]}"
        ) from error
    expected = 4 + 3 * vertex_count + 4 * face_count
    if vertex_count < 3 or face_count < 1 or len(words) != expected:
        raise DataError(
            f"{name} announces {vertex_count} vertices and {face_count} triangles, {expected} words in all, "
            f"but has {len(words)}; it is cut off, empty or not made of triangles only"
        )
    middle = 4 + 3 * vertex_count
    try:
        vertices = np.array(words[4:middle], dtype=np.float64).reshape(-1, 3)
        rows = np.array([int(word) for word in words[middle:]], dtype=np.int64).reshape(-1, 4)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{name} holds something that is not a number: {error}") from error
    if not np.isfinite(vertices).all():
        raise DataError(f"{name} has a vertex that is not finite: number {np.argwhere(~np.isfinite(vertices))[0][0]}")
    if (rows[:, 0] != 3).any():
        raise DataError(f"{name} has a face of {rows[rows[:, 0] != 3][0, 0]} corners; only triangles can be read")
    faces = rows[:, 1:]
    if faces.min() < 0 or faces.max() >= vertex_count:
        wrong = faces.min() if faces.min() < 0 else faces.max()
        raise DataError(f"{name} has a triangle at vertex {wrong}, but its vertices are 0..{vertex_count - 1}")
    return Mesh(name, vertices, faces.astype(np.int32))


def normalise(mesh: Mesh) -> Mesh:
    """Move the centre of the bounding box to the origin and scale its longest side to 1.2 units.

    >>> print(normalise(parse_off("OFF 3 1 0  0 0 0  3 0 0  0 1 0  3 0 1 2", "triangle")).vertices)
    [[-0.6 -0.2  0. ]
     [ 0.6 -0.2  0. ]
     [-0.6  0.2  0. ]]
    """
    drawn = mesh.vertices[np.unique(mesh.faces)]  # vertices of no triangle are not drawn and must not count
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    longest = (high - low).max()
    if not longest > 0:
        raise DataError(f"{mesh.name} has no extent: all its triangles are a single point")
    return Mesh(mesh.name, (mesh.vertices - (low + high) / 2) * (LONGEST_SIDE / longest), mesh.faces)


def read_meshes(archive: Path) -> list[Mesh]:
    """Read the 65 objects of an archive, always in the same order, centred and scaled.

    Args:
        archive: `pascal3d_cad.zip` or `PASCAL3D+_release1.1.zip`, not unpacked.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            members = _members(file)
            places = [(name, f"CAD/{name}") for name in _NAMES]
            places += [next((place for place in choice if place[1] in members), choice[0]) for choice in _LAST]
            missing = [place for _, place in places if place not in members]
            if missing:
                raise DataError(
                    f"{archive} lacks {len(missing)} of the {OBJECTS} meshes, the first is {missing[0]}.off"
                )
            return [_read(file, members[place], name) for name, place in places]
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{archive} cannot be read as a zip archive: {error}; replace it") from error


def _members(file: zipfile.ZipFile) -> dict[str, str]:
    """The full name of each member by its short one, such as `CAD/car/09`; the official archive has an outer folder."""
    pattern = re.compile(r"(?:.*/)?((?:CAD|CAD_remeshed|extra)/[a-z]+/\d\d)\.off")
    return {match[1]: match[0] for match in map(pattern.fullmatch, file.namelist()) if match}


def _read(file: zipfile.ZipFile, member: str, name: str) -> Mesh:
    try:
        content = file.read(member)
    except Exception as error:  # damaged or encrypted members raise many types: zlib.error, RuntimeError
        raise DataError(f"{file.filename} is damaged: {member} cannot be read ({error}); replace it") from error
    # Bytes that are not text become words that are not numbers, which the parser reports.
    mesh = normalise(parse_off(content.decode("ascii", errors="replace"), f"{member} of {file.filename}"))
    return Mesh(name, mesh.vertices, mesh.faces)
