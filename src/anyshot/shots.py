"""Labelled datapoints of a task in arrays of a fixed size: what a model adapts to, and what validates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree, Shaped

from anyshot.errors import InputError
from anyshot.inputs import check_count, check_finite, check_numeric


class Shots(eqx.Module):
    """Labelled datapoints: the first `count` rows. The rows behind them are padding, whose content never matters.

    A shot is one labelled datapoint of the task (not one per class). Padding keeps shapes static, so that one compiled
    program serves every number of shots from 0 to the size. Several tasks are one `Shots` with a leading task axis.

    >>> shots = Shots.of([[0.0], [1.0], [2.0]], [0, 1, 1], size=5)
    >>> print(shots.x.shape, shots.count, shots.present())
    (5, 1) 3 [ True  True  True False False]
    """

    x: PyTree[Shaped[Array, "..."]]
    y: PyTree[Shaped[Array, "..."]]
    count: Int[Array, "..."]

    @classmethod
    def of(cls, x: PyTree[Any], y: PyTree[Any], size: int | None = None) -> Shots:
        """Make the shots of one task from arrays with one row per datapoint, padded to `size` rows with zeros."""
        x, y = _as_arrays("x", x), _as_arrays("y", y)
        lengths = {name: leaf.shape[0] for name, leaf in _named_leaves(x=x, y=y)}
        count = next(iter(lengths.values()))
        if len(set(lengths.values())) > 1:
            rows = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise InputError(f"x and y must have one row per datapoint each, but {rows}")
        size = count if size is None else size
        check_count("size", size)
        if size < count:
            raise InputError(f"size must be at least the number of datapoints {count}, got {size}")

        def padded(leaf: Array) -> Array:
            return jnp.pad(leaf, [(0, size - count)] + [(0, 0)] * (leaf.ndim - 1))

        return cls(jax.tree.map(padded, x), jax.tree.map(padded, y), jnp.asarray(count, jnp.int32))

    @property
    def size(self) -> int:
        """The number of rows of each array, padding included (of one task)."""
        return int(jax.tree.leaves(self.y)[0].shape[self.count.ndim])

    def present(self) -> Bool[Array, " size"]:
        """A mask of the rows that are datapoints (of one task)."""
        return jnp.arange(self.size) < self.count

    def first(self, size: int) -> Shots:
        """The shots cut to their first `size` rows (of one task). `count` must be at most `size`."""
        return Shots(jax.tree.map(lambda a: a[:size], self.x), jax.tree.map(lambda a: a[:size], self.y), self.count)

    def last(self, size: int) -> Shots:
        """The last datapoints, at most `size` of them (of one task).

        >>> print(Shots.of([1.0, 2.0, 3.0], [0, 1, 1], size=9).last(2).x)
        [2. 3.]
        """
        if self.size <= size:
            return self
        start = jnp.maximum(self.count - size, 0)

        def cut(leaf: Array) -> Array:
            return lax.dynamic_slice_in_dim(leaf, start, size)

        return Shots(jax.tree.map(cut, self.x), jax.tree.map(cut, self.y), jnp.minimum(self.count, size))

    def without_padding_content(self) -> Shots:
        """The shots with padding replaced by copies of the first datapoint (zeros if there is none), without NaN."""
        present = self.present()

        def filled(leaf: Array) -> Array:
            filler = jnp.where(self.count > 0, leaf[0], jnp.zeros_like(leaf[0]))
            return jnp.where(present.reshape((-1,) + (1,) * (leaf.ndim - 1)), leaf, filler)

        if self.size == 0:
            return self
        return Shots(jax.tree.map(filled, self.x), jax.tree.map(filled, self.y), self.count)

    def check(self, name: str = "shots") -> None:
        """Raise `InputError` for a count that cannot be, or for NaN among the datapoints (not among the padding)."""
        for leaf_name, leaf in _named_leaves(x=self.x, y=self.y, count=self.count):
            if not hasattr(leaf, "shape"):
                raise InputError(f"{name}.{leaf_name} must be an array, got {leaf!r}; make shots with Shots.of")
        for leaf_name, leaf in _named_leaves(x=self.x, y=self.y):
            if leaf.ndim <= self.count.ndim:
                raise InputError(
                    f"{name}.{leaf_name} has shape {leaf.shape}; it needs a row per datapoint behind the axes "
                    f"{self.count.shape} of {name}.count"
                )
        check_count(f"{name}.count", self.count, self.size)
        for leaf_name, leaf in _named_leaves(x=self.x, y=self.y):
            if leaf.shape[: self.count.ndim + 1] != (*self.count.shape, self.size):
                raise InputError(
                    f"{name}.{leaf_name} has shape {leaf.shape}; count {self.count.shape} and size {self.size} "
                    f"ask for {(*self.count.shape, self.size)} in front"
                )
            if not (isinstance(leaf, jax.core.Tracer) or isinstance(self.count, jax.core.Tracer)):
                rows = np.arange(self.size) < np.asarray(self.count)[..., None]
                rows = rows.reshape(rows.shape + (1,) * (leaf.ndim - rows.ndim))
                check_finite(f"{name}.{leaf_name}", np.where(rows, np.asarray(leaf), 0))


class Episodes(eqx.Module):
    """For each of several tasks: shots to adapt on (D^tr) and shots to validate on (D^val)."""

    train: Shots
    val: Shots

    @property
    def num_tasks(self) -> int:
        """The number of tasks."""
        return int(self.train.count.shape[0])


def stack_tasks(tasks: Sequence[Shots]) -> Shots:
    """Join the shots of several tasks into one `Shots` with a leading task axis, padded to the longest.

    >>> both = stack_tasks([Shots.of([[1.0]], [0]), Shots.of([[2.0], [3.0]], [1, 0])])
    >>> print(both.x.shape, both.count)
    (2, 2, 1) [1 2]
    """
    if not isinstance(tasks, Sequence):
        raise InputError(f"tasks must be a list with the Shots of each task, got {type(tasks).__name__}")
    for number, shots in enumerate(tasks):
        check_is_shots(f"tasks[{number}]", shots)
    if not tasks:
        raise InputError("tasks is empty; give the shots of at least one task")
    structures = {str(jax.tree.structure((shots.x, shots.y))): None for shots in tasks}
    if len(structures) > 1:
        raise InputError(f"tasks must hold x and y of one structure, got {' and '.join(structures)}")
    for shots in tasks:
        if shots.count.ndim:
            raise InputError(
                f"tasks must each be a single task's shots, got one with count of shape {shots.count.shape}"
            )
    size = max(shots.size for shots in tasks)

    def padded(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, size - leaf.shape[0])] + [(0, 0)] * (leaf.ndim - 1))

    def stacked(*leaves: Array) -> Array:
        shapes = {leaf.shape[1:] for leaf in leaves}
        if len(shapes) > 1:
            raise InputError(f"tasks must hold datapoints of one shape, got {' and '.join(map(str, sorted(shapes)))}")
        if len({jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves}) > 1:
            # uint8 images turned into floats would no longer be brought to 0..1 by the networks.
            dtypes = sorted({str(leaf.dtype) for leaf in leaves})
            raise InputError(f"tasks must not mix integers and floats, got {' and '.join(dtypes)}; convert one of them")
        return jnp.stack([padded(leaf) for leaf in leaves])

    return Shots(
        jax.tree.map(stacked, *(shots.x for shots in tasks)),
        jax.tree.map(stacked, *(shots.y for shots in tasks)),
        jnp.stack([shots.count for shots in tasks]),
    )


def check_is_shots(name: str, value: Any) -> None:
    """Raise `InputError` for anything but `Shots`."""
    if not isinstance(value, Shots):
        raise InputError(f"{name} must be Shots, made with Shots.of or stack_tasks, got {type(value).__name__}")


def _as_arrays(name: str, tree: PyTree[Any]) -> PyTree[Array]:
    """Convert lists and NumPy arrays to JAX arrays; refuse what is not numbers or not finite."""

    def converted(leaf: Any) -> Array:
        try:
            array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
        except ValueError as error:
            raise InputError(f"{name} has rows of different shapes; give one array with a row per datapoint") from error
        check_numeric(name, array)
        if array.ndim == 0:
            raise InputError(f"{name} must have one row per datapoint, got the single value {array}")
        check_finite(name, array)
        return jnp.asarray(array)

    # A list of numbers is data here, not a tree of scalars.
    arrays = jax.tree.map(converted, tree, is_leaf=lambda node: isinstance(node, list))
    if not jax.tree.leaves(arrays):
        raise InputError(f"{name} holds no array, got {tree}; give an array with one row per datapoint")
    return arrays


def _named_leaves(**trees: PyTree[Array]) -> list[tuple[str, Array]]:
    return [
        (name + jax.tree_util.keystr(path), leaf)
        for name, tree in trees.items()
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]
