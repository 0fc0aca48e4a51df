"""A learner on trial: random data for it, and comparisons of what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from anyshot.learners import Drawn, Learner
from anyshot.shots import Episodes, Shots


class LearnerError(AssertionError):
    """A promise that a learner does not keep; the message says which, and what to do."""


@dataclass
class Trial:
    """A learner with random data to try it on; the checks share what is slow to compute."""

    learner: Learner
    example: tuple[PyTree[Any], ...]
    classes: int | None
    max_shots: int
    order_matters: bool
    key: Key[Array, ""]

    def __post_init__(self) -> None:
        self.counts = range(self.max_shots + 1)
        self.many = self.shots(self.max_shots)
        self.query = self.shots(self.max_shots + 1, seed=1).x
        # The learner's own methods, compiled; every check uses these where it can. Shots have the same size whatever
        # their count, so that one program serves all of them.
        self.update = eqx.filter_jit(lambda state, drawn, key: self.learner.update(state, drawn, key))
        self.predict = eqx.filter_jit(lambda state, support, query: self.learner.predict(state, support, query))

    def shots(self, count: int, seed: int = 0, padding: int = 0) -> Shots:
        """Random shots of a task, the same for the same seed, with `padding` rows behind them, at least up to M + 1."""
        draw = np.random.default_rng([seed, *np.asarray(jax.random.key_data(self.key)).ravel().tolist()])
        behind = max(padding, self.max_shots + 1 - count)

        def random(leaf: Any, below: int = 256) -> Array:
            shape, dtype = (count, *leaf.shape), np.dtype(leaf.dtype)
            most = 2 if dtype == np.bool_ else min(below, largest(dtype))
            drawn: Any = draw.normal(size=shape) if is_float(dtype) else draw.integers(0, most, shape)
            return jnp.asarray(np.pad(drawn, [(0, behind)] + [(0, 0)] * (len(shape) - 1)).astype(dtype))

        x = jax.tree.map(random, self.example[0])
        y = random(self.example[1], self.classes) if self.classes else jax.tree.map(random, self.example[1])
        return Shots(x, y, jnp.asarray(count, jnp.int32))

    @cached_property
    def drawn(self) -> Drawn:
        """What the learner wants, and nothing else; episodes of zero, one and M shots."""
        return self.draw((0, 1, self.max_shots))

    def draw(self, counts: tuple[int, ...]) -> Drawn:
        """What the learner wants, with so many shots to adapt on in each episode."""
        train = [self.shots(count, seed=2 + task) for task, count in enumerate(counts)]
        val = [self.shots(2, seed=5 + task) for task in range(len(counts))]
        flat = {name: self.shots(self.max_shots, seed) for seed, name in enumerate(("batch", "current", "memory"), 8)}
        given: dict[str, Any] = {"episodes": Episodes(stacked(train), stacked(val)), **flat}
        wants = self.learner.wants
        # So that the memory holds something of every episode's own task.
        tasks = np.resize(np.arange(len(train), dtype=np.int32), flat["memory"].size)
        return Drawn(
            **{str(name): given[name] for name in wants},
            episode_task=jnp.asarray(tasks[: len(train)]) if "episodes" in wants else None,
            memory_task=jnp.asarray(tasks) if "memory" in wants else None,
        )

    @cached_property
    def state(self) -> PyTree[Any]:
        """The state before any data."""
        return self.learner.init(self.key)

    @cached_property
    def plainly_updated(self) -> tuple[PyTree[Any], dict[str, Any]]:
        """State and metrics after one update without jit."""
        with jax.disable_jit():
            return self.learner.update(self.learner.init(self.key), self.drawn, self.key)

    @cached_property
    def updated(self) -> tuple[PyTree[Any], dict[str, Any]]:
        """State and metrics after one update."""
        return self.update(self.state, self.drawn, self.key)


def demand(kept: Any, complaint: str) -> None:
    """Raise `LearnerError` unless a promise is kept."""
    if not kept:
        raise LearnerError(complaint)


# Small changes of data are made by NumPy: JAX would compile each of them.


def joined(a: Array, b: Array) -> Array:
    """Two arrays, one behind the other."""
    return jnp.asarray(np.concatenate([np.asarray(a), np.asarray(b)]))


def some_rows(tree: PyTree[Array], rows: slice) -> PyTree[Array]:
    """The same rows of every array."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[rows]), tree)


def stacked(trees: list[Any]) -> Any:
    """Trees of the same structure as one, with an axis in front."""
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])), *trees)


def is_float(dtype: Any) -> bool:
    """Whether a dtype is of floating-point numbers."""
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def largest(dtype: Any) -> int:
    """The largest whole number of a dtype."""
    return 1 if dtype == np.bool_ or is_float(dtype) else int(np.iinfo(dtype).max)


def with_spoilt_padding(node: Any) -> Any:
    """Shots (of one task or of several) with NaN, or the largest integer, behind `count`; anything else as it is."""
    if not isinstance(node, Shots):
        return node
    present = np.arange(node.size) < np.asarray(node.count)[..., None]

    def spoilt(leaf: Array) -> Array:
        rows = present.reshape(present.shape + (1,) * (leaf.ndim - present.ndim))
        garbage = np.nan if is_float(leaf.dtype) else largest(leaf.dtype)
        return jnp.asarray(np.where(rows, np.asarray(leaf), np.asarray(garbage, leaf.dtype)))

    return Shots(jax.tree.map(spoilt, node.x), jax.tree.map(spoilt, node.y), node.count)


def snapshot(tree: PyTree[Any]) -> list[Any]:
    """Everything in a tree as it is now, comparable; an array that was donated is gone."""

    def content(leaf: Any) -> Any:
        if not is_numeric(leaf):  # a function may be made anew by every call of `init`
            return (type(leaf), getattr(leaf, "__qualname__", None)) if callable(leaf) else leaf
        if isinstance(leaf, jax.Array):
            if leaf.is_deleted():
                return "deleted"
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                leaf = jax.random.key_data(leaf)
        array = np.asarray(leaf)
        return array.dtype, array.shape, array.tobytes()

    return [jax.tree.structure(tree), *map(content, jax.tree.leaves(tree))]


def is_numeric(leaf: Any) -> bool:
    """Whether a leaf is an array or a number; a model may hold other things, such as functions."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex)


def finite(tree: PyTree[Any]) -> bool:
    """Whether every number is finite."""
    numeric = filter(is_numeric, jax.tree.leaves(tree))
    leaves = [leaf if isinstance(leaf, jax.Array) else np.asarray(leaf) for leaf in numeric]
    floats = [np.asarray(leaf) for leaf in leaves if is_float(leaf.dtype)]
    return all(bool(np.isfinite(leaf).all()) for leaf in floats)


def same_structure(a: PyTree[Any], b: PyTree[Any]) -> bool:
    """Whether two trees have the same structure; shapes and dtypes may differ."""
    structures: list[Any] = [jax.tree.structure(tree) for tree in (a, b)]
    return bool(structures[0] == structures[1])


def same(a: PyTree[Any], b: PyTree[Any]) -> bool:
    """Whether two trees are equal bit for bit."""
    return snapshot(a) == snapshot(b)


def close(a: PyTree[Any], b: PyTree[Any]) -> bool:
    """Whether two trees are equal up to rounding, relative to the largest entry of each array."""

    def close(a: Any, b: Any) -> bool:
        a, b = np.asarray(a), np.asarray(b)
        tolerance = 1e-6 if b.dtype == np.float64 else 1e-3
        size = float(np.max(np.abs(b), initial=0)) + tolerance
        return a.shape == b.shape and bool(np.all(np.abs(a - b) <= tolerance * size))

    return same_structure(a, b) and all(map(close, jax.tree.leaves(a), jax.tree.leaves(b)))
