"""Pictures of the pose tasks: an object turned about the vertical by a random angle, seen by its own camera.

`plan_scenes` draws everything random, without MuJoCo and the same on every machine. MuJoCo then renders the scenes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Shaped, UInt8
from PIL import Image

from anyshot.errors import DataError, InputError
from anyshot.tasks.meshes import Mesh
from anyshot.tasks.progress import Update
from anyshot.tasks.randomness import uniforms

ELEVATION = (15.0, 50.0)  # degrees above the horizon: from the side, but high enough to show depth
FIELD_OF_VIEW = 45.0  # degrees
# A box of sides up to 1.2 lies within 1.04 of its centre, at every angle; 2.8 sin(45/2 degrees) is 1.07.
DISTANCE = 2.8
OVERSAMPLING = 4  # drawn four times as large and scaled down, which makes edges smooth


@dataclass(frozen=True)
class Camera:
    """A camera that looks at the origin from `DISTANCE`.

    Attributes:
        azimuth: where it stands, in radians counter-clockwise from the x axis.
        elevation: how far above the horizon, in radians.
    """

    azimuth: float
    elevation: float


@dataclass(frozen=True)
class Scene:
    """What to draw of one object: its camera, and the angles in radians by which the object is turned."""

    camera: Camera
    angles: Float[np.ndarray, " images"]


def plan_scenes(names: Sequence[str], images: int, seed: int) -> list[Scene]:
    """Draw a random camera for each object, and angles ~ U(0, 2 pi).

    The random numbers of an object depend on its name and the seed only; more images leave the first ones as they are.

    >>> (scene,) = plan_scenes(["chair/04"], images=2, seed=0)
    >>> print(f"{scene.camera.azimuth:.4f} {scene.camera.elevation:.4f}", scene.angles)
    0.7139 0.8569 [0.33305561 3.91579007]
    """
    if images < 1:
        raise InputError(f"images must be at least 1, got {images}")
    return [Scene(_camera(name, seed), 2 * np.pi * uniforms(images, seed, "pose angles", name)) for name in names]


def _camera(name: str, seed: int) -> Camera:
    around, above = uniforms(2, seed, "pose camera", name)
    low, high = ELEVATION
    return Camera(float(2 * np.pi * around), float(np.radians(low + (high - low) * above)))


def render(
    mesh: Mesh, camera: Camera, angles: Float[np.ndarray, " images"], size: int = 128
) -> UInt8[np.ndarray, "images {size} {size}"]:
    """Draw one object in grey, turned by each angle about the vertical, counter-clockwise as seen from above.

    The result is the same each time on one machine. Another graphics driver may round a few pixels differently.

    Args:
        mesh: centred and scaled, as `read_meshes` gives it.
        camera: from where it is seen.
        angles: in radians.
        size: pixels per side.
    """
    mujoco = _import_mujoco()
    large = OVERSAMPLING * size
    model = mujoco.MjModel.from_xml_string(_mjcf(camera, large), {"object.msh": _msh(mesh)})
    data = mujoco.MjData(model)
    pictures = np.empty((len(angles), size, size), np.uint8)
    with _renderer(mujoco, model, large) as renderer:
        for picture, angle in zip(pictures, angles, strict=True):
            data.qpos[0] = angle
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera="camera")
            colours = renderer.render()
            # Only the background is black, as the light reaches all of the object; a white sky would take longer.
            colours[colours == 0] = 255
            grey = Image.fromarray(colours).convert("L")  # ITU-R 601 luma
            picture[:] = np.asarray(grey.resize((size, size), Image.Resampling.LANCZOS))
    return pictures


def render_all(
    meshes: Sequence[Mesh], images: int, seed: int, size: int = 128, update: Update | None = None
) -> tuple[UInt8[np.ndarray, "objects {images} {size} {size}"], Float32[np.ndarray, "objects {images}"]]:
    """Draw all pictures of all objects; returns them and their targets, angle / 2 pi.

    Args:
        meshes: as `read_meshes` gives them.
        images: number of pictures of each object.
        seed: of the cameras and angles.
        size: pixels per side.
        update: called with the number of objects done, after each.
    """
    plan = plan_scenes([mesh.name for mesh in meshes], images, seed)
    pictures = np.empty((len(meshes), images, size, size), np.uint8)
    for index, (mesh, scene) in enumerate(zip(meshes, plan, strict=True)):
        pictures[index] = render(mesh, scene.camera, scene.angles, size)
        if update is not None:
            update(index + 1)
    angles = np.array([scene.angles for scene in plan])
    return pictures, (angles / (2 * np.pi)).astype(np.float32)


def _msh(mesh: Mesh) -> bytes:
    """The mesh in MuJoCo's binary format, with every triangle twice: for each side, with its own corners and normal.

    The winding of CAD models is not consistent, and MuJoCo draws a triangle only from the side that its winding gives.
    Normals averaged over triangles of opposite winding would cancel.
    """
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    seen = areas > 1e-12  # a triangle without area has no normal and is not visible
    if not seen.any():
        raise DataError(f"{mesh.name} has no triangle with an area")
    corners, normals = corners[seen], normals[seen] / areas[seen, None]
    both = np.concatenate([corners, corners[:, ::-1]]).reshape(-1, 3)
    outward = np.concatenate([normals, -normals]).repeat(3, axis=0)
    counts = (len(both), len(outward), 0, len(both) // 3)  # vertices, normals, texture coordinates, faces
    parts = [(counts, "<i4"), (both, "<f4"), (outward, "<f4"), (np.arange(len(both)), "<i4")]
    return b"".join(np.asarray(part, dtype).tobytes() for part, dtype in parts)


def _mjcf(camera: Camera, size: int) -> str:
    """The scene for MuJoCo: a light over the left shoulder of the camera, and a hinge about the vertical.

    MuJoCo moves a mesh into its frame of inertia and moves the geom back, so the hinge stays at the origin of the mesh.
    Nothing is simulated: the geom does not collide, which would need a convex hull, and the inertia of the body is
    arbitrary, because MuJoCo refuses that of a flat mesh. Shadows would take most of the time.
    """
    (sin_a, cos_a), (sin_e, cos_e) = ((np.sin(x), np.cos(x)) for x in (camera.azimuth, camera.elevation))
    right, up = np.array([-sin_a, cos_a, 0]), np.array([-sin_e * cos_a, -sin_e * sin_a, cos_e])
    towards = np.array([cos_e * cos_a, cos_e * sin_a, sin_e])
    light = 0.5 * right - 0.7 * up - 0.5 * towards
    return f"""
    <mujoco>
      <statistic center="0 0 0" extent="1"/>
      <visual>
        <global offwidth="{size}" offheight="{size}"/>
        <quality offsamples="0"/>
        <map znear="1" zfar="10"/>
        <headlight ambient="0.25 0.25 0.25" diffuse="0.25 0.25 0.25" specular="0 0 0"/>
      </visual>
      <asset>
        <mesh name="object" file="object.msh" inertia="shell"/>
      </asset>
      <worldbody>
        <light directional="true" castshadow="false" dir="{_words(light)}" diffuse="0.7 0.7 0.7" specular="0 0 0"/>
        <camera name="camera" fovy="{FIELD_OF_VIEW}" pos="{_words(DISTANCE * towards)}" xyaxes="{_words(right, up)}"/>
        <body>
          <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
          <joint type="hinge" axis="0 0 1"/>
          <geom type="mesh" mesh="object" contype="0" conaffinity="0" rgba="0.7 0.7 0.7 1"/>
        </body>
      </worldbody>
    </mujoco>"""


def _words(*vectors: Shaped[np.ndarray, "3"]) -> str:
    return " ".join(repr(float(number)) for number in np.concatenate(vectors))


@contextmanager
def _renderer(mujoco: Any, model: Any, size: int) -> Iterator[Any]:
    try:
        renderer = mujoco.Renderer(model, size, size)
    except Exception as error:  # the type depends on the library whose driver is missing
        raise DataError(f"{_NO_OPENGL} ({error})") from error
    with renderer:
        yield renderer


_NO_OPENGL = (
    "pose needs OpenGL without a screen: install libegl1 (or libosmesa6), or set MUJOCO_GL to one that works on this "
    "machine (egl, osmesa, glfw) before Python starts"
)


def _import_mujoco() -> ModuleType:
    """Import MuJoCo with an OpenGL that needs no screen, unless the user has set MUJOCO_GL or imported it before.

    MuJoCo chooses its OpenGL once, when it is imported. Therefore each choice is tried in another process, and the
    environment variable is set during the import only.
    """
    if find_spec("mujoco") is None:
        raise DataError("pose needs MuJoCo: pip install 'anyshot[pose]'")
    choose = sys.platform == "linux" and "mujoco" not in sys.modules and not os.environ.get("MUJOCO_GL")
    before = {name: os.environ.get(name) for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    chosen = {"MUJOCO_GL": _working_opengl()} if choose else {}
    try:
        os.environ.update(chosen)
        return import_module("mujoco")
    except (ImportError, AttributeError, RuntimeError) as error:  # see _renderer
        raise DataError(f"{_NO_OPENGL} ({error})") from error
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _working_opengl() -> str:
    """The name of an OpenGL without a screen that works on this machine."""
    program = "import mujoco; mujoco.GLContext(8, 8).make_current()"
    for name in ("egl", "osmesa"):
        environment = {**os.environ, "MUJOCO_GL": name}
        attempt = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)  # noqa: S603
        if attempt.returncode == 0:
            return name
    raise DataError(_NO_OPENGL)
