"""Descriptions of values: the same in another process, and another once the value would compute something else."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from anyshot.runs.describe import describe, describe_part, digest
from tests.support.toy_runs import ROOT

# A module of own code in many forms. Each change of CHANGES must change the description of `thing` named beside it, and
# no other one may.
SOURCE = """
import dataclasses, functools
import equinox as eqx, jax, jax.numpy as jnp, numpy as np, optax
import helpers

SCALE = 2.0
WEIGHTS = np.arange(3.0)
SIZES = {"hidden": [8, 8]}

def helper(x):
    return x + 1

def uses_helper(x):
    def inner(y):
        return helper(y)
    return inner(x)

def uses_module(x):
    return helpers.twice(x) * jnp.ones(3)

def uses_constant(x, y=3):
    return SCALE * x

def uses_array(x, *, z=4):
    return WEIGHTS * x

def uses_dict(x):
    return x * SIZES["hidden"][0]

def recursive(n):
    return n if n < 1 else other(n - 1)

def other(n):
    return recursive(n)

def make_closure(array):
    def closure(x):
        return array @ x
    return closure

closure = make_closure(np.ones((2, 2)))
partial = functools.partial(uses_constant, y=5)
first, second = (lambda x: x * 2), (lambda x: x + 2)
jitted = jax.jit(helper)
filtered = eqx.filter_jit(helper)
mapped = jax.vmap(helper, in_axes=0)
gradient = jax.grad(helper)

class Base:
    def scaled(self, x):
        return 3 * x

class Net(eqx.Module, Base):
    weight: jax.Array
    depth: int = 2

    def __call__(self, x):
        return helper(self.scaled(self.weight * x))

    @property
    def size(self):
        return WEIGHTS.size

    @staticmethod
    def build(key, outputs):
        return Net(jnp.ones(outputs))

@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float = 0.1
    names: frozenset = frozenset({"a", "b", "c"})

class Plain:
    __slots__ = ("a",)
    def __init__(self, a):
        self.a = a
    def method(self, x):
        return self.a * x

net, settings, method = Net(jnp.ones(2)), Settings(), Plain(4).method
optimiser = optax.chain(optax.clip(1.0), optax.adamw(optax.cosine_decay_schedule(0.01, 10)))
THINGS = dict(helper=helper, uses_helper=uses_helper, uses_module=uses_module, uses_constant=uses_constant)
THINGS |= dict(uses_array=uses_array, uses_dict=uses_dict, recursive=recursive, closure=closure, partial=partial)
THINGS |= dict(first=first, second=second, jitted=jitted, filtered=filtered, mapped=mapped, gradient=gradient)
THINGS |= dict(Net=Net, build=Net.build, net=net, settings=settings, method=method, optimiser=optimiser)
THINGS |= dict(key=jax.random.key(1), sizes={(1, 2): {"x", "y", "z"}}, infinite=float("inf"))
"""
HELPERS = "def twice(x):\n    return 2 * x\n\ndef unused(x):\n    return 7 * x\n"
USE_HELPER = {"helper", "uses_helper", "jitted", "filtered", "mapped", "gradient", "Net", "build", "net"}
CHANGES: dict[str, tuple[str, str, set[str]]] = {
    "helper function": ("return x + 1", "return x + 2", USE_HELPER),
    "function of an own module": ("return 2 * x\n\n", "return 4 * x\n\n", {"uses_module"}),
    "unused function of an own module": ("return 7 * x\n", "return 5 * x\n", set()),
    "global number": ("SCALE = 2.0", "SCALE = 2.5", {"uses_constant", "partial"}),
    "global array": ("np.arange(3.0)", "np.arange(4.0)", {"uses_array", "Net", "net", "build"}),
    "number in a global dict": ("[8, 8]", "[8, 9]", {"uses_dict"}),
    "default argument": ("y=3", "y=6", {"uses_constant", "partial"}),
    "default of a keyword": ("z=4", "z=5", {"uses_array"}),
    "one of two that call each other": ("return recursive(n)", "return recursive(n) + 1", {"recursive"}),
    "closed-over array": ("np.ones((2, 2))", "np.eye(2)", {"closure"}),
    "argument of a partial": ("y=5", "y=7", {"partial"}),
    "one of two lambdas of a line": ("x * 2)", "x - 2)", {"first", "second"}),
    "order of two lambdas": ("first, second =", "second, first =", {"first", "second"}),
    "axis of vmap": ("in_axes=0", "in_axes=1", {"mapped"}),
    "method of an own base class": ("return 3 * x\n\nclass Net", "return 4 * x\n\nclass Net", {"Net", "net", "build"}),
    "field of an object": ("Net(jnp.ones(2))", "Net(jnp.ones(3))", {"net"}),
    "default of a field": ("rate: float = 0.1", "rate: float = 0.2", {"settings"}),
    "object of a method": ("Plain(4)", "Plain(5)", {"method"}),
    "number of a schedule": ("0.01, 10", "0.01, 11", {"optimiser"}),
    "key": ("jax.random.key(1)", "jax.random.key(2)", {"key"}),
}
PROGRAM = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); from own import THINGS; "
    "from anyshot.runs.describe import describe; print(json.dumps({n: describe(THINGS[n]) for n in THINGS}))"
)


def describe_things(folder: Path, old: str = "", new: str = "", seed: str = "0") -> dict[str, Any]:
    """The descriptions of the things in a process of their own, with one change in the source."""
    folder.mkdir()
    source, helpers = SOURCE, HELPERS
    if old:
        assert (source + helpers).count(old) == 1, old
        source, helpers = source.replace(old, new), helpers.replace(old, new)
    (folder / "own.py").write_text(source)
    (folder / "helpers.py").write_text(helpers)
    return run_program(PROGRAM, folder, seed)


def run_program(program: str, folder: Path, seed: str = "0") -> Any:
    words = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": seed}, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return describe_things(tmp_path_factory.mktemp("own") / "a")


def test_unchanged_values_have_the_same_description_in_another_process(
    unchanged: dict[str, Any], tmp_path: Path
) -> None:
    assert describe_things(tmp_path / "b", seed="12345") == unchanged
    assert unchanged["first"] != unchanged["second"]
    assert unchanged["helper"] != unchanged["jitted"]
    assert len({json.dumps(unchanged[name]) for name in ("helper", "mapped", "gradient")}) == 3


def test_every_change_is_noticed_and_no_other_thing_suspected(unchanged: dict[str, Any], tmp_path: Path) -> None:
    """All changes in one process, which imports the changed module under other names."""
    for number, (old, new, _) in enumerate(CHANGES.values()):
        assert (SOURCE + HELPERS).count(old) == 1, old
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "own.py").write_text(SOURCE.replace(old, new))
        (folder / "helpers.py").write_text(HELPERS.replace(old, new))
    program = f"""
import json, sys
from anyshot.runs.describe import describe
found = []
for number in range({len(CHANGES)}):
    for name in ("own", "helpers"):
        sys.modules.pop(name, None)
    sys.path.insert(0, f"{{sys.argv[1]}}/{{number}}")
    from own import THINGS
    found.append({{name: describe(THINGS[name]) for name in THINGS}})
    sys.path.pop(0)
print(json.dumps(found))
"""
    found = run_program(program, tmp_path)
    for (what, (_, _, expected)), things in zip(CHANGES.items(), found, strict=True):
        assert {name for name in things if things[name] != unchanged[name]} == expected, what


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.sin, "numpy.sin"),
        (jnp.tanh, "tanh"),
        (jax.nn.relu, "relu"),
        (optax.squared_error, "squared_error"),
        (json.dumps, "json.dumps"),
        (len, "builtins.len"),
        (eqx.nn.MLP, "MLP"),
        (describe, "anyshot.runs.describe.describe"),
    ],
)
def test_what_comes_from_a_package_is_only_named(value: Any, name: str) -> None:
    assert list(describe(value)) == ["name"]
    assert describe(value)["name"].endswith(name)
    assert describe_part(value) == describe(value)


def test_own_code_in_a_wrapper_of_a_package_is_noticed() -> None:
    def loss(scale: float) -> Callable[..., Any]:
        return lambda output, label: scale * (output - label)

    for wrap in (jax.jit, eqx.filter_jit, jax.checkpoint, lambda f: functools.partial(f, label=1.0)):
        assert describe_part(wrap(loss(1.0))) == describe_part(wrap(loss(1.0)))
        assert describe_part(wrap(loss(1.0))) != describe_part(wrap(loss(2.0)))
        wrapped = wrap(loss(1.0))
        before = describe(wrapped)
        wrapped(1.0, label=2.0)  # which fills caches
        assert describe(wrapped) == before


def test_arrays_are_told_apart_by_content_shape_and_dtype() -> None:
    arrays = [
        np.zeros(4),
        np.zeros((2, 2)),
        np.zeros(4, np.float32),
        np.zeros(4, int),
        np.ones(4),
        np.zeros(4) + 1e-300,
    ]
    arrays += [np.zeros(0), np.zeros((0, 2)), np.zeros(()), np.array(["a", None], object), np.array(["a", 1], object)]
    assert len({digest(array) for array in arrays}) == len(arrays)
    assert describe(jnp.zeros(4)) == describe(np.zeros(4))
    assert describe(np.zeros((4, 4))[:, 0]) == describe(np.zeros(4))


def test_values_that_json_would_confuse_are_told_apart() -> None:
    values = [1, 1.0, True, "1", None, "None", [1], {"1": 1}, {1: 1}, {1}, float("nan"), float("inf"), "nan", b"1", 1j]
    assert len({json.dumps(describe(value), allow_nan=False) for value in values}) == len(values)


def test_a_value_that_holds_itself_and_one_with_an_address_have_a_description() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert json.dumps(describe(ring))
    assert describe(object()) == describe(object())
    assert describe(np.random.default_rng(0)) == describe(np.random.default_rng(0))


def test_many_functions_that_use_each_other_take_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [" + ".join(f"f{other}(x)" for other in range(30) if other != number) for number in range(30)]
    source = "".join(f"def f{number}(x):\n    return {body}\n" for number, body in enumerate(bodies))
    (tmp_path / "web_of_functions.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    web = importlib.import_module("web_of_functions")
    assert digest(web.f0) != digest(web.f1)


def test_functions_typed_at_a_prompt_are_told_apart(tmp_path: Path) -> None:
    program = (
        "import json; from anyshot.runs.describe import describe\n"
        "def f(x): return x + 1 if x in {'a', 'b', 'c'} else x\n"
        "found = [describe(f)]\n"
        "def f(x): return x + 2 if x in {'a', 'b', 'c'} else x\n"
        "print(json.dumps([*found, describe(f)]))"
    )
    (one, two), again = run_program(program, ROOT, "1"), run_program(program, ROOT, "2")
    assert [one, two] == again
    assert one != two
    assert one["name"] == two["name"] == "__main__.f"
