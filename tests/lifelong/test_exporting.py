"""An exported predictor agrees with its task where there is no anyshot, and says how many inputs it holds."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from anyshot.errors import DataError, InputError
from anyshot.lifelong import Lifelong, Task
from tests.support.lives import draw_task, make_life

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.slow]
SIZES, LABELS = (1, 7, 300), (0, 3, 30)  # of which 30 are more than the learner adapts to
OUTSIDE = """
import sys
from pathlib import Path
class Refuse:
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("anyshot", "equinox", "jaxtyping", "optax", "pandas", "safetensors", "sklearn"):
            raise ImportError(name + " is not there")
sys.meta_path.insert(0, Refuse())
import numpy as np
lines = Path(sys.argv[1]).read_text()
for path in Path(sys.argv[2]).glob("*.zip"):
    inputs, found = np.load(path.with_suffix(".npz")), {}
    for name, x in inputs.items():
        exec(lines)
        assert list(x.shape[1:]) == about["shape"] and x.dtype == about["dtype"]
        found[name] = np.asarray(probabilities)
    np.savez(path.with_suffix(".found.npz"), **found)
assert "anyshot" not in sys.modules
"""


def draw_inputs(count: int, shape: tuple[int, ...] = (3,), dtype: str = "float32") -> np.ndarray:
    draw = np.random.default_rng(count)
    return (draw.integers(0, 256, (count, *shape)) if dtype == "uint8" else draw.normal(size=(count, *shape))).astype(
        dtype
    )


def classes(folder: Path, labels: int) -> tuple[Lifelong, Task]:
    life = make_life(folder)
    for number in range(3):
        life.task(f"before {number}").observe(*draw_task(number))
    life.learn(updates=20)
    x, y = draw_task(5, labels)
    task = life.task("it", classes=["maybe", "yes", "no"])  # two of them have labels
    if labels:
        task.observe(x, y)
    return life, task


def targets(folder: Path, labels: int, outputs: int = 1) -> tuple[Lifelong, Task]:
    life = make_life(folder)
    x = draw_inputs(40)
    y = x @ np.random.default_rng(0).normal(size=(3, outputs)) + 5.0
    y = y[:, 0] if outputs == 1 else y
    life.task("before").observe(x[-10:], y[-10:])
    life.learn(updates=20)
    task = life.task("it")
    if labels:
        task.observe(x[:labels], y[:labels])
    return life, task


def images(folder: Path, labels: int) -> tuple[Lifelong, Task]:
    life = make_life(folder, network={"kind": "conv4", "channels": 4})
    task = life.task("it", classes=[0, 1, 2, 3])
    x = draw_inputs(labels, (8, 8, 1), "uint8")
    task.observe(x, np.arange(labels) % 4)
    life.learn(updates=2)
    return life, task


def mann(folder: Path, labels: int) -> tuple[Lifelong, Task]:
    life = Lifelong(folder, learner="mann", max_shots=4, network={"kind": "mlp", "hidden": [4]})
    task = life.task("it", classes=["no", "yes"])
    task.observe(*draw_task(5, labels))
    return life, task


CASES: dict[str, Any] = {
    **{f"{make.__name__}-{count}": (make, count) for make in (classes, targets) for count in LABELS},
    "several-targets-3": (lambda folder, labels: targets(folder, labels, 2), 3),
    "images-6": (images, 6),
    "mann-3": (mann, 3),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each task predicts here, and what its file predicts in a process that has no anyshot."""
    folder, expected = tmp_path_factory.mktemp("exported"), {}
    with jax.enable_x64(False):  # as anyone has it who has not asked for more
        for name, (make, labels) in CASES.items():
            life, task = make(folder / name, labels)
            with life:
                setup = life._home.setup
                inputs = {str(n): draw_inputs(n, setup.shape, setup.dtype) for n in SIZES}
                np.savez(folder / f"{name}.npz", **inputs)
                predict = task.predict_proba if setup.classification else task.predict
                expected[name] = {size: predict(x) for size, x in inputs.items()}
                assert task.export(folder / f"{name}.zip") == folder / f"{name}.zip"
                assert min(task.weights.values()) > 1e-3, "both experts are seen in what is predicted"
    lines = folder / "lines.py"
    documented = inspect.cleandoc(Task.export.__doc__ or "").split("anyshot:\n", 1)[1].split("\n\nHere x is")[0]
    lines.write_text(textwrap.dedent(documented))
    subprocess.run([sys.executable, "-c", OUTSIDE, str(lines), str(folder)], check=True, timeout=300)
    return {
        name: {"folder": folder, "expected": expected[name], "found": dict(np.load(folder / f"{name}.found.npz"))}
        for name in CASES
    }


@pytest.mark.parametrize("name", CASES)
def test_it_predicts_without_anyshot_what_the_task_predicts(exported: dict[str, Any], name: str) -> None:
    for size in map(str, SIZES):
        expected, found = exported[name]["expected"][size], exported[name]["found"][size]
        assert found.shape == expected.shape
        assert np.ptp(expected, axis=0).max() > 1e-2 or size == "1", "inputs differ in what is predicted of them"
        np.testing.assert_allclose(found, expected, rtol=1e-6 if "targets" in name else 0, atol=1e-5)


@pytest.mark.parametrize("name", ["classes-3", "images-6", "mann-3"])
def test_it_says_what_it_is_and_how_many_inputs_it_holds(exported: dict[str, Any], name: str) -> None:
    with zipfile.ZipFile(exported[name]["folder"] / f"{name}.zip") as file:
        about, program = json.loads(file.read("about.json")), file.read("predictor.bin")
    labels = CASES[name][1]
    assert (about["task"], about["labels"], about["kind"]) == ("it", labels, "classes")
    assert about["inputs_held"] == labels
    assert about["classes"] == {"classes-3": ["maybe", "yes", "no"], "images-6": [0, 1, 2, 3]}.get(name, ["no", "yes"])
    of_tasks = [draw_inputs(6, (8, 8, 1), "uint8")] if name == "images-6" else [draw_task(n)[0] for n in range(6)]
    x = np.concatenate(of_tasks)
    held = [row for row in x if row.tobytes() in program or row.astype(np.float32).tobytes() in program]
    assert held == [], "those of the kernel are shifted and scaled, and no others are there"
    assert {"cpu", "cuda", "tpu"} <= set(jax.export.deserialize(bytearray(program)).platforms)


def test_what_cannot_be_exported_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        task = life.task("new", classes=["no", "yes"])
        with pytest.raises(InputError, match=r"nothing to export yet.*'new'"):
            task.export(tmp_path / "a.zip")
        task.observe(*draw_task(0))
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match=r"cannot write into .*file"):
            task.export(tmp_path / "file" / "a.zip")
    with pytest.raises(InputError, match="was closed"):
        task.export(tmp_path / "a.zip")
    assert not list(tmp_path.glob("*.zip"))
