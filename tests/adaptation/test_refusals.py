"""What adaptation and the meta-objective refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.adaptation import (
    GaussianWeights,
    GradientMoments,
    MetaObjective,
    Update,
    cross_entropy,
    gradient_moments,
    optimal_rate,
    squared_error,
)
from anyshot.errors import InputError
from anyshot.networks import MLP, Conv4
from anyshot.rates import PerParameter, Scaled, ScaledPerParameter
from anyshot.shots import Episodes, Shots, stack_tasks
from tests.support.refusals import Case, as_a_user_runs_it, assert_refused, parametrized

MODEL = MLP((2, 3), key=jax.random.key(0))
OTHER = MLP((2, 4, 3), key=jax.random.key(0))
UPDATE = Update(steps=1)
OBJECTIVE = MetaObjective(UPDATE)


def shots(n: int = 2, y: Any = None, features: int = 2) -> Shots:
    return Shots.of(np.ones((n, features)), np.zeros(n, int) if y is None else np.asarray(y))


def raw(count: Any, x: Any = None, y: Any = None) -> Shots:
    """Shots made past `Shots.of`: room for two datapoints."""
    x = np.ones((2, 2)) if x is None else x
    return Shots(jnp.asarray(x), jnp.zeros(2, int) if y is None else jnp.asarray(y), jnp.asarray(count))


def episodes(train: Any = None, val: Any = None) -> Episodes:
    """Of lists of tasks; each is one task of two shots unless given."""
    return Episodes(stack_tasks(train or [shots()]), stack_tasks(val or [shots()]))


def no_tasks() -> Episodes:
    return jax.tree.map(lambda leaf: leaf[:0], episodes())


def adapt(given: Any, model: Any = MODEL, rate: Any = None, update: Update = UPDATE) -> Any:
    return update(model, Scaled() if rate is None else rate, given)


def meta(given: Any, model: Any = MODEL, rate: Any = None) -> Any:
    return OBJECTIVE.value_and_grad(model, Scaled() if rate is None else rate, given)


def conv4() -> Conv4:
    return Conv4((6, 6, 2), 3, channels=2, key=jax.random.key(0))


def moments(c1: float, c2: float) -> GradientMoments:
    return GradientMoments(jnp.asarray(c1), jnp.asarray(c2))


SHOTS_AND_EPISODES: list[Case] = [
    ("count above size", lambda: adapt(raw(5)), ["shots.count is 5", "only 2", "lower it or add"]),
    ("NaN", lambda: adapt(raw(1, x=[[1.0, np.nan], [1.0, 1.0]])), ["shots.x", "index (0, 1)", "NaN"]),
    ("no shots", lambda: adapt(None), ["shots", "Shots.of", "NoneType"]),
    ("no shots to risk", lambda: UPDATE.risk(MODEL, ([1.0], [0])), ["shots", "Shots.of", "tuple"]),
    ("several tasks", lambda: adapt(stack_tasks([shots()])), ["shots", "(1,)", "jax.vmap"]),
    ("episodes=None", lambda: meta(None), ["episodes", "Episodes(train, val)", "NoneType"]),
    ("shots as episodes", lambda: meta(shots()), ["episodes", "Episodes(train, val)", "Shots"]),
    ("nothing to validate on", lambda: meta(Episodes(stack_tasks([shots()]), None)), ["episodes.val", "NoneType"]),
    ("no episodes", lambda: meta(no_tasks()), ["episodes", "no tasks", "at least one"]),
    (
        "numbers of tasks",
        lambda: meta(episodes([shots()] * 2, [shots()] * 3)),
        ["episodes.train", "2 tasks", "episodes.val 3", "both for every task"],
    ),
    (
        "empty validation",
        lambda: meta(episodes([shots()] * 2, [shots(), shots(0)])),
        ["episodes.val", "task 1", "at least one"],
    ),
    ("no task axis", lambda: meta(Episodes(shots(), shots())), ["episodes.train", "one task axis", "()"]),
    (
        "NaN in the second task",
        lambda: meta(
            Episodes(
                Shots(jnp.ones((2, 3, 2)).at[1, 0, 1].set(jnp.nan), jnp.zeros((2, 3), int), jnp.array([2, 2])),
                stack_tasks([shots()] * 2),
            )
        ),
        ["episodes.train.x", "index (1, 0, 1)"],
    ),
    ("moments of one task", lambda: gradient_moments(MODEL, cross_entropy, shots()), ["shots", "task axis", "()"]),
    ("moments of nothing", lambda: gradient_moments(MODEL, cross_entropy, None), ["shots", "NoneType"]),
    (
        "moments of single shots",
        lambda: gradient_moments(MODEL, cross_entropy, stack_tasks([shots(1)])),
        ["shots", "at least two"],
    ),
]

MODELS: list[Case] = [
    ("label too high", lambda: adapt(shots(y=[0, 3])), [".y", "label 3", "0..2", "check the labels"]),
    ("label negative", lambda: adapt(shots(y=[0, -1])), [".y", "label -1", "0..2", "check the labels"]),
    ("label to risk", lambda: UPDATE.risk(MODEL, shots(y=[0, 9])), [".y", "label 9", "0..2"]),
    ("label in train", lambda: meta(episodes([shots(y=[0, 5])])), [".y", "label 5", "0..2"]),
    ("label in val", lambda: meta(episodes(val=[shots(y=[-7, 0])])), [".y", "label -7", "0..2"]),
    ("float label", lambda: adapt(shots(y=[0.0, 1.0])), [".y", "float64", "integer class labels 0..2"]),
    (
        "float label in val",
        lambda: meta(episodes(val=[shots(y=[0.0, 1.0])])),
        [".y", "float64", "integer class labels"],
    ),
    ("x for another MLP", lambda: adapt(shots(features=3)), ["model", ".x", "float64[3]"]),
    ("x for another MLP in val", lambda: meta(episodes(val=[shots(features=3)])), ["model", ".x", "float64[3]"]),
    (
        "x for another Conv4",
        lambda: adapt(Shots.of(np.ones((1, 6, 6, 3)), [0]), conv4()),
        ["model", "shots.x", "[6, 6, 3]", "weight has 18 columns"],
    ),
    ("no model", lambda: adapt(shots(), {"w": jnp.ones(2)}), ["model", "callable", "dict"]),
    (
        "Gaussian weights to Update",
        lambda: adapt(shots(), GaussianWeights(MODEL)),
        ["model", "callable", "GaussianWeights"],
    ),
    (
        "loss not scalar",
        lambda: adapt(shots(), update=Update(lambda o, y: o, 1)),
        ["loss", "one floating-point number", "(3,)"],
    ),
    (
        "loss of nothing",
        lambda: adapt(shots(), update=Update(lambda o, y: None, 1)),
        ["loss", "one floating-point number", "None"],
    ),
    *(
        (
            f"{name}'s shape in squared error",
            lambda y=y: adapt(shots(y=y), update=Update(squared_error, 1)),
            ["loss", "shots.y", "(3,)", str(y.shape[1:])],
        )
        for name, y in [
            ("another target", np.ones((2, 2))),
            ("a single target", np.ones((2, 1))),
            ("a scalar target", np.ones(2)),
            ("a matrix", np.ones((2, 3, 3))),
        ]
    ),
    ("rate=0.1", lambda: adapt(shots(), rate=0.1), ["rate", "Constant(0.1)", "got 0.1"]),
    ("rate=0.1 in the objective", lambda: meta(episodes(), rate=0.1), ["rate", "Constant(0.1)", "got 0.1"]),
    ("rate='scaled'", lambda: meta(episodes(), rate="scaled"), ["rate", "'scaled'"]),
    (
        "rate of another model",
        lambda: adapt(shots(), rate=PerParameter(OTHER)),
        ["rate", "not of this model", "make it from this model"],
    ),
    (
        "scaled rate of another model",
        lambda: meta(episodes(), rate=ScaledPerParameter(OTHER)),
        ["rate", "not of this model", "make it from this model"],
    ),
    (
        "Gaussian weights, no key",
        lambda: OBJECTIVE(GaussianWeights(MODEL), Scaled(), episodes()),
        ["key", "jax.random"],
    ),
]

SETTINGS: list[Case] = [
    *(
        (f"{name}={value!r}", lambda make=make, value=value: make(value), [name, "positive", f"got {value}"])
        for name, make in [
            ("beta", lambda value: optimal_rate(value, moments(1.0, 1.0), 2)),
            ("std", lambda value: GaussianWeights(MODEL, value)),
            ("clip", lambda value: Update(clip=value)),
        ]
        for value in (0, -1.0, np.nan, np.inf, "0.1", [0.1, 0.2])
    ),
    ("loss", lambda: Update("mse"), ["loss", "function", "'mse'"]),
    ("no loss", lambda: Update(None), ["loss", "function", "None"]),
    ("steps", lambda: Update(steps=0), ["steps", "at least 1", "got 0"]),
    ("steps as a word", lambda: Update(steps="5"), ["steps", "at least 1", "'5'"]),
    ("no update", lambda: MetaObjective(squared_error), ["update", "Update", "squared_error"]),
    *(
        (f"kl={value!r}", lambda value=value: MetaObjective(kl_coefficient=value), ["kl_coefficient", str(value)])
        for value in (-0.5, np.nan, np.inf, "0.1", None)
    ),
    ("batching", lambda: MetaObjective(batching="fast"), ["batching", '"together"', '"in turn"', "'fast'"]),
    ("moments", lambda: optimal_rate(0.1, moments(1.0, -1.0), 2), ["squared_mean_gradient", "at least 0", "-1.0"]),
]


@parametrized([*SHOTS_AND_EPISODES, *MODELS, *SETTINGS])
def test_bad_input_is_refused(call: Callable[[], Any], words: list[str]) -> None:
    assert_refused(call, words)


def test_shapes_are_checked_even_where_values_are_unknown() -> None:
    """Inside `jax.jit` nothing is known but shapes and dtypes; those still lead to the sentence."""
    with as_a_user_runs_it():
        with pytest.raises(InputError, match=r"shots\.count must be a whole number"):
            jax.eval_shape(adapt, raw(1.0))
        with pytest.raises(InputError, match=r"model does not take one example of shots\.x, here float64\[3\]"):
            jax.eval_shape(adapt, shots(features=3))
        with pytest.raises(InputError, match="episodes holds no tasks"):
            jax.eval_shape(meta, no_tasks())


def test_padding_may_hold_anything() -> None:
    """Behind the datapoints there may be NaN and labels of no class."""
    junk = raw(1, x=[[1.0, 1.0], [np.nan, np.inf]], y=[2, -9])
    for leaf in jax.tree.leaves(adapt(junk)):
        assert np.isfinite(leaf).all()


def test_data_may_be_constants_of_a_compiled_function() -> None:
    """Known values are checked with NumPy: any JAX operation inside `jax.jit` would make them unknown."""
    given, several, bad = shots(), episodes(), shots(y=[0, 3])
    c1_and_c2, numbers = moments(1.0, 1.0), jnp.array([2, 3])
    functions: list[Callable[[Any], Any]] = [
        lambda model: adapt(given, model),
        lambda model: UPDATE.risk(model, given),
        lambda model: OBJECTIVE(model, Scaled(), several),
        lambda model: gradient_moments(model, cross_entropy, several.train),
        lambda _: optimal_rate(0.1, c1_and_c2, numbers),
    ]
    for function in functions:
        jax.eval_shape(function, MODEL)
    with pytest.raises(InputError, match="label 3"):
        jax.eval_shape(lambda model: adapt(bad, model), MODEL)
