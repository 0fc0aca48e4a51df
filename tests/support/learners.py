"""Tiny learners for tests, and shots for them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anyshot import Shots, cross_entropy, squared_error
from anyshot.learners import LEARNERS, LearnerSpec, NetworkLearner, Problem, build_learner
from anyshot.learners.catalogue import hyperparameters_of
from anyshot.networks import MLP

M = 3
N = 3  # inputs, hidden units, outputs and the embedding alike: XLA compiles fewer different operations
INPUT = jax.ShapeDtypeStruct((N,), jnp.float64)
CLASS = jax.ShapeDtypeStruct((), jnp.int32)
KEY = jax.random.key(0)
NAMES = [name for name in LEARNERS if not name.startswith("maml")]  # those are other names of the same learners
RULED = [name for name in NAMES if str(LEARNERS[name].target).startswith("anyshot.rates.")]
SMALL = {"inner_steps": 2, "training_steps": 2, "embedding": N, "memory": N, "batching": "together"}


def make_mlp(key: Any, outputs: int) -> MLP:
    return MLP((N, N, outputs), key=key)


def build(
    name: str,
    *,
    network: Any = make_mlp,
    outputs: int = N,
    loss: Any = None,
    example: tuple[Any, Any] = (INPUT, CLASS),
    max_shots: int = M,
    optimiser: Any = None,
    **hyperparameters: Any,
) -> NetworkLearner:
    """A learner of the catalogue. Of `SMALL` and the hyperparameters it is given those that it has."""
    problem = Problem(example, outputs, max_shots)
    usual = cross_entropy if problem.classification else squared_error
    known = hyperparameters_of(name).__dataclass_fields__
    own = {key: value for key, value in (SMALL | hyperparameters).items() if key in known}
    learner = build_learner(LearnerSpec(name, problem, network, loss or usual, optimiser), own)
    assert isinstance(learner, NetworkLearner)
    return learner


def some(count: int, seed: int = 0, size: int | None = None) -> Shots:
    """Random shots with classes."""
    draw = np.random.default_rng(seed)
    return Shots.of(draw.normal(size=(count, N)), draw.integers(0, N, count).astype(np.int32), size=size or count)


def stacked(*tasks: Any) -> Any:
    """Several tasks as one, with an axis in front."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
