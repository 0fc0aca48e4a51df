"""Shots and episodes: what they hold, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from anyshot.shots import Episodes, Shots, stack_tasks
from tests.support.refusals import Case, assert_refused, parametrized


def shots(n: int = 2, features: int = 2) -> Shots:
    return Shots.of(np.ones((n, features)), np.zeros(n, int))


def raw(count: Any, x: Any = None, y: Any = None) -> Shots:
    """Shots made past `Shots.of`: room for two datapoints."""
    x = np.ones((2, 2)) if x is None else x
    return Shots(jnp.asarray(x), jnp.zeros(2, int) if y is None else jnp.asarray(y), jnp.asarray(count))


REFUSED: list[Case] = [
    ("lengths", lambda: Shots.of(np.ones((3, 2)), [0, 1]), ["x has 3", "y has 2", "one row per datapoint"]),
    (
        "lengths in a tree",
        lambda: Shots.of({"a": np.ones(2), "b": np.ones(3)}, [0, 1]),
        ["x['a'] has 2", "x['b'] has 3"],
    ),
    ("NaN", lambda: Shots.of([[1.0], [np.nan]], [0, 1]), ["x", "index (1, 0)", "replace NaN"]),
    ("NaN in a JAX array", lambda: Shots.of(jnp.array([np.nan]), [0]), ["x", "index (0,)", "replace NaN"]),
    ("infinity", lambda: Shots.of([1.0, 2.0], [0.0, -np.inf]), ["y", "index (1,)", "infinity"]),
    ("objects", lambda: Shots.of(np.array([1, None], object), [0, 1]), ["x", "object", "array of numbers"]),
    ("strings", lambda: Shots.of([1.0, 2.0], ["cat", "dog"]), ["y", "<U3", "array of numbers"]),
    (
        "dates",
        lambda: Shots.of(np.array(["2020-01-01"], "datetime64[D]"), [0]),
        ["x", "datetime64", "array of numbers"],
    ),
    ("ragged", lambda: Shots.of([[1.0], [1.0, 2.0]], [0, 1]), ["x", "different shapes", "a row per datapoint"]),
    ("scalar x", lambda: Shots.of(1.5, [0]), ["x", "one row per datapoint", "single value 1.5"]),
    ("scalar y", lambda: Shots.of([1.0], 7), ["y", "one row per datapoint", "single value 7"]),
    ("no x", lambda: Shots.of(None, [0]), ["x", "None", "one row per datapoint"]),
    ("no y", lambda: Shots.of([1.0], {}), ["y", "{}", "one row per datapoint"]),
    ("small size", lambda: Shots.of([1.0, 2.0, 3.0], [0, 1, 1], size=2), ["size", "at least", "3", "got 2"]),
    ("float size", lambda: Shots.of([1.0], [0], size=2.0), ["size", "float64", "convert it to int"]),
    ("count above size", lambda: raw(5).check(), ["shots.count is 5", "only 2", "lower it or add"]),
    ("negative count", lambda: raw(-1).check(), ["shots.count", "-1", "negative"]),
    ("float count", lambda: raw(1.0).check(), ["shots.count", "float64", "convert it to int"]),
    ("count with an axis", lambda: raw([1]).check(), ["shots.y", "(2,)", "(1,)", "shots.count"]),
    ("plain count", lambda: Shots(jnp.ones((2, 2)), jnp.zeros(2, int), 1).check(), ["shots.count", "1", "Shots.of"]),
    ("lists", lambda: Shots([1.0], [0], jnp.asarray(1)).check(), ["shots.x[0]", "1.0", "Shots.of"]),
    ("rows differ", lambda: raw(1, x=np.ones((3, 2))).check(), ["shots.x", "(3, 2)", "size 2"]),
    ("y without rows", lambda: raw(1, y=0).check(), ["shots.y", "()", "a row per datapoint"]),
    ("NaN past Shots.of", lambda: raw(1, x=[[1.0, np.nan], [1.0, 1.0]]).check("own"), ["own.x", "index (0, 1)", "NaN"]),
    ("no tasks", lambda: stack_tasks([]), ["tasks is empty", "at least one"]),
    ("numbers as tasks", lambda: stack_tasks([1]), ["tasks[0]", "Shots.of", "int"]),
    ("pairs as tasks", lambda: stack_tasks([shots(), ([1.0], [0])]), ["tasks[1]", "Shots.of", "tuple"]),
    ("one task's shots", lambda: stack_tasks(shots()), ["tasks", "list", "Shots"]),
    ("a number", lambda: stack_tasks(3), ["tasks", "list", "int"]),
    ("shapes of tasks", lambda: stack_tasks([shots(), shots(features=3)]), ["tasks", "(2,) and (3,)"]),
    ("structures of tasks", lambda: stack_tasks([shots(), Shots.of({"a": [1.0]}, [0])]), ["tasks", "structure", "'a'"]),
    ("stacked twice", lambda: stack_tasks([stack_tasks([shots()])]), ["tasks", "single task", "(1,)"]),
    (
        "uint8 beside float images",
        lambda: stack_tasks([shots(), Shots.of(np.ones((1, 2), np.uint8), [0])]),
        ["tasks", "float64 and uint8", "convert"],
    ),
]


@parametrized(REFUSED)
def test_bad_shots_are_refused(call: Callable[[], Any], words: list[str]) -> None:
    assert_refused(call, words)


def test_stacked_tasks_keep_their_datapoints() -> None:
    one, two = Shots.of([[1.0]], [3]), Shots.of([[2.0], [4.0]], [1, 0])
    both = stack_tasks([one, two])
    np.testing.assert_array_equal(both.count, [1, 2])
    np.testing.assert_array_equal(both.x[:, :, 0], [[1.0, 0.0], [2.0, 4.0]])
    np.testing.assert_array_equal(both.y, [[3, 0], [1, 0]])
    assert Episodes(both, both).num_tasks == 2


def test_padding_content_becomes_the_first_datapoint_or_zero() -> None:
    x = np.array([[1.0, 2.0], [np.nan, np.inf]])
    np.testing.assert_array_equal(raw(1, x=x, y=[5, -9]).without_padding_content().x, [[1.0, 2.0], [1.0, 2.0]])
    np.testing.assert_array_equal(raw(1, x=x, y=[5, -9]).without_padding_content().y, [5, 5])
    np.testing.assert_array_equal(raw(0, x=x[::-1], y=[5, -9]).without_padding_content().x, np.zeros((2, 2)))
