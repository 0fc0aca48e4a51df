"""Pictures of the pose tasks: pinned random numbers, and pictures against objects turned by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from anyshot.errors import DataError, InputError
from anyshot.tasks import render as rendering
from anyshot.tasks.meshes import LONGEST_SIDE, Mesh
from anyshot.tasks.pose import pose
from anyshot.tasks.randomness import permutation
from anyshot.tasks.render import DISTANCE, FIELD_OF_VIEW, Camera, plan_scenes, render, render_all

pytestmark = pytest.mark.medium

SIDES = [(0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7)]
CUBE = Mesh(
    "cube",
    np.array([(x, y, z) for x in (-0.6, 0.6) for y in (-0.6, 0.6) for z in (-0.6, 0.6)]),
    # Every second triangle is wound inwards, as in many CAD models.
    np.array([(a, b, d) for a, *bc, d in SIDES for b in bc], dtype=np.int32),
)


@pytest.fixture(scope="module")
def opengl() -> None:
    try:
        render(CUBE, Camera(0.0, 0.5), np.zeros(1), size=8)
    except DataError as error:
        pytest.skip(str(error))


def test_scenes_are_the_same_on_every_machine() -> None:
    (scene,) = plan_scenes(["chair/04"], images=3, seed=7)
    # Computed from PCG64's raw output in plain Python.
    pinned = [4.113855452465812, 0.6296094644763771, 5.779202083999093, 2.302594506474379, 1.06866997991357]
    got = [scene.camera.azimuth, scene.camera.elevation, *scene.angles]
    np.testing.assert_allclose(got, pinned, rtol=1e-14)


def test_scenes_are_random_in_their_ranges() -> None:
    planned = plan_scenes([f"object {number}" for number in range(400)], images=5, seed=0)
    azimuths, elevations = np.array([(s.camera.azimuth, s.camera.elevation) for s in planned]).T
    elevations = np.degrees(elevations)
    angles = np.concatenate([scene.angles for scene in planned])
    for values, low, high in ((azimuths, 0, 2 * np.pi), (elevations, 15, 50), (angles, 0, 2 * np.pi)):
        assert low <= values.min() < values.max() < high
        counts, _ = np.histogram(values, bins=8, range=(low, high))
        expected = len(values) / 8
        assert (((counts - expected) ** 2) / expected).sum() < 24.3  # chi squared, 7 degrees of freedom, 0.1 %


def test_more_images_or_objects_change_nothing_of_the_others() -> None:
    few, many = plan_scenes(["a"], 100, seed=0), plan_scenes(["b", "a"], 150, seed=0)
    assert few[0].camera == many[1].camera
    np.testing.assert_array_equal(few[0].angles, many[1].angles[:100])
    assert many[0].camera != many[1].camera
    assert not np.isin(many[0].angles, many[1].angles).any()
    assert plan_scenes(["a"], 1, seed=1)[0].camera != few[0].camera
    with pytest.raises(InputError, match="images must be at least 1, got 0"):
        plan_scenes(["a"], 0, seed=0)


def turned(mesh: Mesh, angle: float) -> Mesh:
    """The vertices turned counter-clockwise about z, by hand."""
    x, y, z = mesh.vertices.T
    cos, sin = np.cos(angle), np.sin(angle)
    return Mesh(mesh.name, np.stack([cos * x - sin * y, sin * x + cos * y, z], axis=1), mesh.faces)


def assert_alike(first: np.ndarray, second: np.ndarray) -> None:
    differences = np.abs(first.astype(int) - second.astype(int))
    assert (differences <= 2).mean() > 0.995


@pytest.mark.usefixtures("opengl")
@pytest.mark.parametrize("name", ["aeroplane/03", "chair/05"])
def test_an_angle_turns_the_object_about_the_vertical(meshes: dict[str, Mesh], name: str) -> None:
    camera = Camera(1.0, 0.6)
    angles = np.array([0.3, 2.0, 4.5])
    drawn = render(meshes[name], camera, angles)
    by_hand = np.concatenate([render(turned(meshes[name], angle), camera, np.zeros(1)) for angle in angles])
    assert_alike(drawn, by_hand)
    assert (np.abs(drawn[0].astype(int) - drawn[1]) > 10).mean() > 0.05  # the comparison can tell
    assert_alike(*render(meshes[name], camera, np.array([0, 2 * np.pi])))
    # The light goes with the camera, so turning the camera the other way shows the same.
    assert_alike(drawn[0], render(meshes[name], Camera(camera.azimuth - angles[0], 0.6), np.zeros(1))[0])


@pytest.mark.usefixtures("opengl")
def test_a_positive_angle_is_counter_clockwise_from_above() -> None:
    pointer = Mesh("pointer", CUBE.vertices * (0.3, 0.05, 0.05) + (0.4, 0, 0), CUBE.faces)  # along the x axis
    camera = Camera(-np.pi / 2, np.radians(50))  # in front, x to its right: what is behind is higher up
    dark = 255.0 - render(pointer, camera, np.array([0, 0.5, 1, 1.5]) * np.pi, size=64)
    across, down = (np.arange(64) - 31.5, np.arange(64)[:, None] - 31.5)
    weights = dark.sum(axis=(1, 2))
    right, below = (dark * across).sum(axis=(1, 2)) / weights, (dark * down).sum(axis=(1, 2)) / weights
    np.testing.assert_array_equal(np.sign(right.round()), [1, 0, -1, 0])
    np.testing.assert_array_equal(np.sign(below.round()), [0, -1, 0, 1])


@pytest.mark.usefixtures("opengl")
def test_the_winding_of_triangles_is_not_seen() -> None:
    backwards = Mesh("cube", CUBE.vertices, CUBE.faces[:, ::-1].copy())
    first, second = (render(mesh, Camera(0.7, 0.6), np.zeros(1)) for mesh in (CUBE, backwards))
    np.testing.assert_array_equal(first, second)
    # Three faces are seen, each of one grey: 255 and those are nearly all there is.
    greys, counts = np.unique(first, return_counts=True)
    assert len(greys[counts > 200]) == 4
    assert greys[counts > 200].min() > 40


@pytest.mark.usefixtures("opengl")
def test_objects_fit_into_the_picture(meshes: dict[str, Mesh]) -> None:
    assert LONGEST_SIDE * np.sqrt(3) / 2 < DISTANCE * np.sin(np.radians(FIELD_OF_VIEW / 2))
    largest = [meshes[name] for name in ("tvmonitor/02", "chair/08", "sofa/06", "diningtable/03", "aeroplane/01")]
    for mesh in [CUBE, *largest]:
        for elevation in rendering.ELEVATION:
            pictures = render(mesh, Camera(2.0, np.radians(elevation)), np.arange(6) * np.pi / 3, size=64)
            border = np.concatenate([pictures[:, [0, -1]].ravel(), pictures[:, :, [0, -1]].ravel()])
            assert (border == 255).all(), mesh.name
            assert 0.03 < (pictures < 240).mean() < 0.7, mesh.name


@pytest.mark.usefixtures("opengl")
def test_the_same_bytes_each_time(meshes: dict[str, Mesh]) -> None:
    chosen = [meshes["chair/04"], meshes["bus/02"]]
    seen: list[int] = []
    pictures, targets = render_all(chosen, images=4, seed=3, update=seen.append)
    assert seen == [1, 2]
    assert (pictures.shape, pictures.dtype) == ((2, 4, 128, 128), np.uint8)
    again, fewer = render_all(chosen[::-1], images=4, seed=3), render_all(chosen[:1], images=2, seed=3)
    np.testing.assert_array_equal(pictures, again[0][::-1])
    np.testing.assert_array_equal(pictures[:1, :2], fewer[0])
    angles = np.array([scene.angles for scene in plan_scenes(["chair/04", "bus/02"], 4, seed=3)])
    np.testing.assert_array_equal(targets, (angles / (2 * np.pi)).astype(np.float32))


@pytest.mark.usefixtures("opengl")
def test_the_largest_mesh_is_drawn(meshes: dict[str, Mesh]) -> None:
    (picture,) = render(meshes["motorbike/04"], Camera(0.3, 0.4), np.zeros(1))
    assert (picture < 200).mean() > 0.05


def held_out_error(pictures: np.ndarray, angles: np.ndarray, labels: np.ndarray) -> float:
    """Degrees by which a small network, trained on the first 400 labels, misses the angles of the other pictures."""
    pooled = pictures.reshape(-1, 32, 4, 32, 4).mean(axis=(2, 4)).reshape(-1, 1024)
    x = jnp.asarray(1 - pooled / 255, jnp.float32)
    y = jnp.stack([jnp.sin(labels), jnp.cos(labels)], axis=1).astype(jnp.float32)
    network = eqx.nn.MLP(1024, 2, 64, 2, dtype=jnp.float32, key=jax.random.key(0))
    weights, rest = eqx.partition(network, eqx.is_array)
    optimiser = optax.adam(optax.cosine_decay_schedule(2e-3, 200))

    def predict(weights: Any, x: Any) -> Any:
        return jax.vmap(eqx.combine(weights, rest))(x)

    def step(state: Any, _: None) -> Any:
        weights, memory = state
        gradient = jax.grad(lambda w: jnp.mean((predict(w, x[:400]) - y) ** 2))(weights)
        updates, memory = optimiser.update(gradient, memory)
        return (optax.apply_updates(weights, updates), memory), None

    (weights, _), _ = jax.jit(lambda state: jax.lax.scan(step, state, length=200))((weights, optimiser.init(weights)))
    sin, cos = np.asarray(predict(weights, x[400:]), np.float64).T
    turn = np.arctan2(sin, cos) - angles[400:]
    return float(np.degrees(np.abs((turn + np.pi) % (2 * np.pi) - np.pi)).mean())


@pytest.mark.slow
@pytest.mark.usefixtures("opengl")
def test_a_small_network_recovers_the_angle(meshes: dict[str, Mesh]) -> None:
    # Of one object 400 pictures are about a degree apart, so a small error says that pictures and labels belong
    # together, not that the tasks are easy. With the labels in another order nothing can be learned: 90 is chance.
    (scene,) = plan_scenes(["aeroplane/03"], images=500, seed=0)
    pictures = render(meshes["aeroplane/03"], scene.camera, scene.angles)
    error = held_out_error(pictures, scene.angles, scene.angles[:400])
    control = held_out_error(pictures, scene.angles, scene.angles[:400][permutation(400, 0, "control")])
    print(f"mean absolute error on 100 unseen pictures: {error:.1f} degrees; labels shuffled: {control:.0f}")
    assert error < 15
    assert control > 60


def test_without_mujoco_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "find_spec", lambda _: None)
    with pytest.raises(DataError, match=r"pose needs MuJoCo: pip install 'anyshot\[pose\]'"):
        render(CUBE, Camera(0.0, 0.5), np.zeros(1))


def test_without_opengl_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")

    with (
        pytest.raises(DataError, match="install libegl1"),
        rendering._renderer(SimpleNamespace(Renderer=fails), None, 8),
    ):
        pass
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1))
    with pytest.raises(DataError, match="libosmesa6"):
        rendering._working_opengl()


@pytest.mark.usefixtures("opengl")
def test_the_environment_is_left_as_it_was() -> None:
    program = """if True:
    import os
    import numpy as np
    from anyshot.tasks.meshes import parse_off
    from anyshot.tasks.render import Camera, render
    before = dict(os.environ)
    for _ in range(2):
        render(parse_off("OFF 3 1 0  0 0 0  1 0 0  0 1 0  3 0 1 2", "t"), Camera(0.0, 0.5), np.zeros(1), size=8)
    assert dict(os.environ) == before, set(os.environ) ^ set(before)
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, check=True)


@pytest.mark.parametrize("target", ["turns", "10-turns", "sin-cos"])
def test_targets_say_the_angle_that_was_drawn(target: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"object {number}" for number in range(3)]
    meshes = [Mesh(name, CUBE.vertices, CUBE.faces) for name in names]
    monkeypatch.setattr("anyshot.tasks.pose.read_meshes", lambda archive: meshes)
    monkeypatch.setattr(rendering, "render", lambda mesh, camera, angles, size: np.zeros((len(angles), size, size)))
    built = pose({"meshes": tmp_path}, 5, train_rows=3, test_rows=1, size=8, target=target)
    y, rows = built.arrays["y"], np.concatenate([built.arrays["train_rows"], built.arrays["test_rows"]], axis=1)
    assert y.dtype == np.float32
    for of_object, scene in zip(rows, plan_scenes(names, 4, 5), strict=True):
        found = y[of_object]
        angles = {
            "turns": lambda y: 2 * np.pi * y[:, 0],
            "10-turns": lambda y: 2 * np.pi * y[:, 0] / 10,
            "sin-cos": lambda y: np.arctan2(y[:, 0], y[:, 1]) % (2 * np.pi),
        }[target](found.astype(float))
        np.testing.assert_allclose(angles, scene.angles, atol=2e-6)
