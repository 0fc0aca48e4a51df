"""What all learners of the catalogue share: hyperparameters, an optimiser, and any callable PyTree as network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from anyshot import Episodes
from anyshot.learners import Drawn
from anyshot.runs import checkpoints
from anyshot.runs.state import restore_state, state_arrays
from tests.support import reference
from tests.support.learners import CLASS, INPUT, KEY, NAMES, N, build, some, stacked
from tests.support.refusals import assert_refused

pytestmark = pytest.mark.usefixtures("quick_compilation")

TRAIN, VAL = stacked(some(0, size=3), some(2, 1, size=3)), stacked(some(3, 2), some(3, 3))
EVERYTHING = Drawn(
    episodes=Episodes(TRAIN, VAL),
    batch=some(4, 4),
    current=some(4, 5),
    memory=some(4, 6),
    episode_task=jnp.asarray([0, 1], jnp.int32),
    memory_task=jnp.asarray([0, 0, 1, 2], jnp.int32),
)


def make_equinox_mlp(key: Any, outputs: int) -> Any:
    """Its activation function is a leaf of the tree that is no array."""
    return eqx.nn.MLP(N, outputs, N, 1, activation=jnp.tanh, key=key)


TRAINED = [name for name in NAMES if not name.startswith("scratch")]  # by updates
QUICK = ("toe", "ftml-vs", "mann", "protonet")  # one of each kind; the others are FTML with other rates, or TOE


@pytest.mark.medium
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in TRAINED]
)
def test_any_callable_tree_is_trained_and_survives_a_checkpoint(name: str, tmp_path: Path) -> None:
    learner = build(name, network=make_equinox_mlp, meta_rate=0.01, kl_coefficient=1e-3 if name == "ftml-vs" else 0.0)
    update, predict = eqx.filter_jit(learner.update), eqx.filter_jit(learner.predict)
    start = learner.init(KEY)
    assert any(callable(leaf) for leaf in jax.tree.leaves(start)), "there is a function in the state"
    state = start
    for step in range(2):
        state, metrics = update(state, EVERYTHING, jax.random.key(step))
        assert np.isfinite(metrics["loss"])
    assert jax.tree.structure(state) == jax.tree.structure(start)
    arrays = state_arrays(state)
    assert all(np.isfinite(array).all() for array in arrays.values())
    weights = [path for path in arrays if "layers" in path and path.endswith("weight") and "optimiser" not in path]
    assert len(weights) >= 2
    assert all((arrays[path] != state_arrays(start)[path]).any() for path in weights if "log_std" not in path)
    checkpoints.save(tmp_path, checkpoints.Checkpoint(1, arrays, {}, b""), "of this test")
    saved = checkpoints.load(tmp_path, "of this test", pytest.fail)
    again = restore_state(learner.init(jax.random.key(9)), saved.arrays)
    query = some(4, 7).x
    np.testing.assert_array_equal(predict(again, some(2, 8), query), predict(state, some(2, 8), query))


@pytest.mark.medium
@pytest.mark.parametrize("name", ["toe", "a-gem", "ftml-vs", "mann", "protonet"])
def test_an_own_optimiser_takes_the_place_of_adam(name: str) -> None:
    learner = build(name, optimiser=optax.set_to_zero())
    state = learner.init(KEY)
    assert jax.tree.leaves(state.optimiser) == []
    after, _ = jax.jit(learner.update)(state, EVERYTHING, KEY)
    model = "weights" if name == "ftml-vs" else "model"
    assert eqx.tree_equal(getattr(after, model), getattr(state, model))


def test_gradient_descent_moves_the_weights_against_the_gradient() -> None:
    learner = build("toe", optimiser=optax.sgd(0.5))
    state = learner.init(KEY)
    after, _ = jax.jit(learner.update)(state, EVERYTHING, KEY)
    gradient = jax.grad(reference.mean_cross_entropy)(state.model, EVERYTHING.batch.x, EVERYTHING.batch.y)
    expected = jax.tree.map(lambda weight, slope: weight - 0.5 * slope, state.model, gradient)
    for ours, theirs in zip(jax.tree.leaves(after.model), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_learners_made_alike_share_compiled_functions(name: str) -> None:
    def method(example: tuple[Any, Any] = (INPUT, CLASS), **changes: Any) -> Any:
        return build(name, example=example, **changes).predict

    one, same = method(), method()
    assert jax.tree.structure(one) == jax.tree.structure(same)
    assert hash(one) == hash(same)
    changed = method(
        meta_rate=0.5, regularisation=0.5, training_rate=0.5, learning_rate=0.5
    )  # each learner takes those that it has
    for other in (changed, method(max_shots=9), method((CLASS, CLASS)), method(loss=optax.l2_loss)):
        assert jax.tree.structure(one) != jax.tree.structure(other)
    if name not in ("scratch", "scratch-kernel", "anyshot"):  # they have no optimiser to choose
        assert jax.tree.structure(one) != jax.tree.structure(method(optimiser=optax.sgd(1.0)))
    hash(method(({"image": INPUT}, CLASS)))  # possible, although a dict has no hash


NUMBERS = ("meta_rate", "meta_clip", "inner_rate", "inner_clip", "eta")
NO_POSITIVE_NUMBERS = (0, 0.0, -1.0, float("nan"), float("inf"), True, "0.1", [1.0])
BAD = [
    *(("ftml-vs", name, wrong) for name in NUMBERS for wrong in NO_POSITIVE_NUMBERS),
    *(("toe", name, None) for name in ("meta_rate", "meta_clip")),
    *(("ftml", name, None) for name in ("inner_rate", "eta", "kl_coefficient", "inner_steps", "batching")),
    *(("ftml", "kl_coefficient", wrong) for wrong in (-1e-9, float("nan"), float("inf"), True, "x")),
    *(("ftml", "inner_steps", wrong) for wrong in (0, -1, 2.0, True, "5", 10**6)),
    *(("ftml", "second_order", wrong) for wrong in (1, "yes", None)),
    *(("ftml", "batching", wrong) for wrong in ("", "parallel", 1)),
    *(("ftml", "fixed_layers", wrong) for wrong in (-1, 1.0, True, "2", 10**6)),
    *(("ftml", "kl_layers", wrong) for wrong in ("", "first", "fixed", 1, None)),  # none of them is fixed
    *(("mann", "memory", wrong) for wrong in (0, 1.5, 10**9)),
    *(("mann", "head_hidden", wrong) for wrong in (-1, 1.5, 10**9)),
    *(("mann", "memory_kl_coefficient", wrong) for wrong in (-1e-9, float("nan"), None)),
    *(("protonet", name, wrong) for name in ("embedding", "remembered") for wrong in (0, True, 10**9)),
]


@pytest.mark.parametrize(("learner", "name", "value"), BAD, ids=str)
def test_hyperparameters_that_cannot_be_are_refused(learner: str, name: str, value: Any) -> None:
    assert_refused(lambda: build(learner, **{name: value}), [name, repr(value)])


def test_no_layer_that_adapts_is_refused() -> None:
    assert_refused(lambda: build("ftml", fixed_layers=2).init(KEY), ["fixed_layers", "2 layers", "got 2"])
    assert_refused(lambda: build("ftml-vs-closed-form", fixed_layers=1), ["fixed_layers", "closed-form", "1"])


def test_no_clipping_and_no_regularisation_are_possible() -> None:
    learner = build("ftml", inner_clip=None, kl_coefficient=0.0)
    assert learner.hyper.inner_clip is None
    assert learner.hyper.kl_coefficient == 0
