"""Shots and inputs of one task, brought into the form that a learner was trained on; other forms are refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anyshot.errors import InputError
from anyshot.inputs import check_finite
from anyshot.learners import Learner, NetworkLearner
from anyshot.shots import Shots


def prepare_inputs(name: str, x: Any, learner: Learner) -> Any:
    """Inputs with the shape and dtype of the learner's tasks."""
    if not isinstance(learner, NetworkLearner):  # only its author knows what it takes
        return jax.tree.map(jnp.asarray, x)
    rows, known = np.asarray(x), learner.spec.problem.example[0]
    if rows.ndim == 0 or rows.shape[1:] != known.shape:
        raise InputError(f"{name} must have one row of shape {known.shape} for each input, got shape {rows.shape}")
    if rows.dtype.kind != np.dtype(known.dtype).kind:
        raise InputError(
            f"{name} must be {known.dtype} as in training, got {rows.dtype}; images of 0..255 are not 0..1"
        )
    check_finite(name, rows)
    return rows.astype(known.dtype)


def prepare_shots(shots: Any, queries: Any, learner: Learner, max_shots: int) -> Shots:
    """Shots padded to `max_shots` rows, or to a power of two if there are more, so that few sizes are compiled.

    Args:
        shots: `Shots`, a pair (inputs, labels), or None for zero shots.
        queries: the inputs to predict, which zero shots are shaped like.
        learner: that is to adapt.
        max_shots: M.
    """
    if shots is None:
        return _pad(_no_shots(learner, queries), max_shots)
    if isinstance(shots, Shots):
        shots.check()
        count = int(shots.count)
        shots = (jax.tree.map(lambda leaf: leaf[:count], part) for part in (shots.x, shots.y))
    elif not (isinstance(shots, tuple | list) and len(shots) == 2):
        raise InputError(f"shots must be a pair (inputs, labels), Shots or None, got {type(shots).__name__}")
    inputs, labels = shots
    if np.shape(inputs) == np.shape(labels) == (0,):  # lists without an element, which do not know their shape
        return _pad(_no_shots(learner, queries), max_shots)
    x, y = prepare_inputs("the shots' inputs", inputs, learner), _prepare_labels(labels, learner)
    return _pad(Shots.of(x, y), max_shots)


def _prepare_labels(y: Any, learner: Learner) -> Any:
    if not isinstance(learner, NetworkLearner):
        return jax.tree.map(jnp.asarray, y)
    labels, problem = np.asarray(y), learner.spec.problem
    known = problem.example[1]
    if labels.ndim == 0 or labels.shape[1:] != known.shape:
        raise InputError(f"labels must have one row of shape {known.shape} for each shot, got shape {labels.shape}")
    if labels.dtype.kind not in ("biu" if problem.classification else "iuf"):
        right = f"whole numbers from 0 to {problem.outputs - 1}" if problem.classification else "numbers"
        raise InputError(f"labels must be {right}, got {labels.dtype}")
    wrong = labels[(labels < 0) | (labels >= problem.outputs)] if problem.classification else labels[:0]
    if wrong.size:
        raise InputError(f"labels must be from 0 to {problem.outputs - 1}, got {wrong.flat[0]}")
    check_finite("labels", labels)
    return labels.astype(known.dtype)


def _no_shots(learner: Learner, queries: Any) -> Shots:
    """Zero shots: one row of padding."""
    label = learner.spec.problem.example[1] if isinstance(learner, NetworkLearner) else np.zeros((), np.int32)
    x = jax.tree.map(lambda leaf: jnp.zeros((1, *leaf.shape[1:]), leaf.dtype), queries)
    return Shots(x, jnp.zeros((1, *label.shape), label.dtype), jnp.zeros((), jnp.int32))


def _pad(shots: Shots, most: int) -> Shots:
    size = most if shots.size <= most else 1 << (shots.size - 1).bit_length()

    def pad(leaf: Any) -> Any:
        return jnp.pad(leaf, [(0, size - leaf.shape[0])] + [(0, 0)] * (leaf.ndim - 1))

    return Shots(jax.tree.map(pad, shots.x), jax.tree.map(pad, shots.y), shots.count)
