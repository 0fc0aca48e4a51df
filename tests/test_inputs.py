"""Bad input is answered with one sentence that names the argument, the value and, where there is one, the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from anyshot import (
    ClosedForm,
    Constant,
    Episodes,
    GaussianWeights,
    InputError,
    MetaObjective,
    PerParameter,
    PerShot,
    Scaled,
    ScaledPerParameter,
    Shots,
    Update,
    cross_entropy,
    squared_error,
    stack_tasks,
    use_cpu_cores,
)
from anyshot.adaptation import GradientMoments, gradient_moments, optimal_rate
from anyshot.networks import MLP, Conv4, convolve

MODEL = MLP((2, 3), key=jax.random.key(0))
OTHER = MLP((2, 4, 3), key=jax.random.key(0))
UPDATE = Update(steps=1)
OBJECTIVE = MetaObjective(UPDATE)
RULES = {
    "Constant": Constant(),
    "PerShot": PerShot(),
    "Scaled": Scaled(),
    "PerParameter": PerParameter(MODEL),
    "ScaledPerParameter": ScaledPerParameter(MODEL),
    "ClosedForm": ClosedForm(),
}


@pytest.fixture(autouse=True)
def _as_a_user_runs_it() -> Iterator[None]:
    """The test run's type checking would answer first; a user has none."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


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


def adapt(given: Shots, model: Any = MODEL, rate: Any = RULES["Scaled"], update: Update = UPDATE) -> Any:
    return update(model, rate, given)


def meta(given: Episodes, model: Any = MODEL, rate: Any = RULES["Scaled"]) -> Any:
    return OBJECTIVE.value_and_grad(model, rate, given)


def conv4() -> Conv4:
    return Conv4((6, 6, 2), 3, channels=2, key=jax.random.key(0))


def moments(c1: float, c2: float) -> GradientMoments:
    return GradientMoments(jnp.asarray(c1), jnp.asarray(c2))


Case = tuple[str, Callable[[], Any], list[str]]

NUMBERS_OF_SHOTS: list[Case] = [
    (f"{name}({value!r})", lambda rule=rule, value=value: rule(value), fragments)
    for name, rule in RULES.items()
    for value, fragments in [
        (-1, ["shots", "-1", "negative", "zero shots is 0"]),
        (np.int32(-2), ["shots", "-2", "negative"]),
        (1.5, ["shots", "whole number", "float64", "convert it to int"]),
        (True, ["shots", "whole number", "bool"]),
        ("3", ["shots", "whole number"]),
        (None, ["shots", "whole number"]),
    ]
] + [
    (f"{name}([2, -3])", lambda name=name: RULES[name](jnp.array([2, -3])), ["shots", "-3", "negative"])
    for name in RULES
]

SHOTS: list[Case] = [
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
    ("count above size", lambda: adapt(raw(5)), ["shots.count is 5", "only 2", "lower it or add"]),
    ("negative count", lambda: adapt(raw(-1)), ["shots.count", "-1", "negative"]),
    ("float count", lambda: adapt(raw(1.0)), ["shots.count", "float64", "convert it to int"]),
    ("count with an axis", lambda: adapt(raw([1])), ["shots.y", "(2,)", "(1,)", "shots.count"]),
    ("plain count", lambda: adapt(Shots(jnp.ones((2, 2)), jnp.zeros(2, int), 1)), ["shots.count", "1", "Shots.of"]),
    ("lists", lambda: adapt(Shots([1.0], [0], jnp.asarray(1))), ["shots.x[0]", "1.0", "Shots.of"]),
    ("rows differ", lambda: adapt(raw(1, x=np.ones((3, 2)))), ["shots.x", "(3, 2)", "size 2"]),
    ("y without rows", lambda: adapt(raw(1, y=0)), ["shots.y", "()", "a row per datapoint"]),
    ("NaN past Shots.of", lambda: adapt(raw(1, x=[[1.0, np.nan], [1.0, 1.0]])), ["shots.x", "index (0, 1)", "NaN"]),
    ("no tasks", lambda: stack_tasks([]), ["tasks is empty", "at least one"]),
    ("shapes of tasks", lambda: stack_tasks([shots(), shots(features=3)]), ["tasks", "(2,) and (3,)"]),
    ("structures of tasks", lambda: stack_tasks([shots(), Shots.of({"a": [1.0]}, [0])]), ["tasks", "structure", "'a'"]),
    ("stacked twice", lambda: stack_tasks([stack_tasks([shots()])]), ["tasks", "single task", "(1,)"]),
    (
        "uint8 beside float images",
        lambda: stack_tasks([shots(), Shots.of(np.ones((1, 2), np.uint8), [0])]),
        ["tasks", "float64 and uint8", "convert"],
    ),
]

EPISODES: list[Case] = [
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
    (
        "target's shape",
        lambda: adapt(shots(y=np.ones((2, 2))), update=Update(squared_error, 1)),
        ["loss", "shots.y", "float64[2]"],
    ),
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
        "several counts to a rate per parameter",
        lambda: RULES["PerParameter"](jnp.array([1, 2])),
        ["shots", "(2,)", "vmap"],
    ),
    (
        "Gaussian weights, no key",
        lambda: OBJECTIVE(GaussianWeights(MODEL), RULES["Scaled"], episodes()),
        ["key", "jax.random"],
    ),
    ("moments of one task", lambda: gradient_moments(MODEL, cross_entropy, shots()), ["shots", "task axis", "()"]),
    (
        "moments of single shots",
        lambda: gradient_moments(MODEL, cross_entropy, stack_tasks([shots(1)])),
        ["shots", "at least two"],
    ),
    ("weight columns", lambda: convolve(jnp.ones((1, 4, 4, 1)), jnp.ones((1, 18))), ["weight", "18 columns", "need 9"]),
    ("stride", lambda: convolve(jnp.ones((1, 4, 4, 1)), jnp.ones((1, 9)), 3), ["stride", "1 or 2", "got 3"]),
]

POSITIVE: list[Case] = [
    (f"{name}({value!r})", lambda make=make, value=value: make(value), [name.split()[-1], "positive", f"got {value}"])
    for name, make in [
        ("Constant alpha", lambda value: Constant(value)),
        ("PerShot alpha", lambda value: PerShot(value)),
        ("PerParameter alpha", lambda value: PerParameter(MODEL, value)),
        ("Scaled beta", lambda value: Scaled(beta=value)),
        ("Scaled eta", lambda value: Scaled(eta=value)),
        ("ScaledPerParameter beta", lambda value: ScaledPerParameter(MODEL, value)),
        ("ClosedForm beta", lambda value: ClosedForm(value)),
        ("optimal_rate beta", lambda value: optimal_rate(value, moments(1.0, 1.0), 2)),
        ("GaussianWeights std", lambda value: GaussianWeights(MODEL, value)),
        ("Update clip", lambda value: Update(clip=value)),
    ]
    for value in (0, -1.0, np.nan, np.inf, "0.1", [0.1, 0.2])
]

SETTINGS: list[Case] = [
    ("steps", lambda: Update(steps=0), ["steps", "at least 1", "got 0"]),
    ("kl", lambda: MetaObjective(kl_coefficient=-0.5), ["kl_coefficient", "negative", "-0.5", "0 switches it off"]),
    ("tasks", lambda: MetaObjective(tasks="fast"), ["tasks", '"together"', '"in turn"', "'fast'"]),
    *(
        (
            f"{name} max_shots={value!r}",
            lambda make=make, value=value: make(max_shots=value),
            ["max_shots", repr(value)],
        )
        for name, make in [
            ("PerShot", PerShot),
            ("Scaled", Scaled),
            ("ClosedForm", ClosedForm),
            ("ScaledPerParameter", lambda max_shots: ScaledPerParameter(MODEL, max_shots=max_shots)),
        ]
        for value in (0, 2.5, True, "3")
    ),
    ("C1", lambda: ClosedForm(gradient_variance=-2.0), ["gradient_variance", "at least 0", "-2.0"]),
    ("C2", lambda: ClosedForm(squared_mean_gradient=np.nan), ["squared_mean_gradient", "at least 0", "nan"]),
    ("moments", lambda: optimal_rate(0.1, moments(1.0, -1.0), 2), ["squared_mean_gradient", "at least 0", "-1.0"]),
    ("one size", lambda: MLP((3,), key=jax.random.key(0)), ["sizes", "(3,)", "input's and the output's"]),
    ("size 0", lambda: MLP((3, 0, 1), key=jax.random.key(0)), ["sizes", "(3, 0, 1)", "at least 1"]),
    ("no cores", lambda: use_cpu_cores(0), ["cores", "at least 1", "got 0"]),
    # JAX has started: this module's models are made of its arrays.
    ("cores too late", lambda: use_cpu_cores(3), ["use_cpu_cores(3)", "before the first JAX computation"]),
]


# The float labels reach JAX's one_hot, which warns, before they are refused.
@pytest.mark.filterwarnings("ignore:jax.nn.one_hot input should be integer-typed")
@pytest.mark.parametrize(
    ("call", "fragments"),
    [
        pytest.param(call, fragments, id=name)
        for name, call, fragments in [*NUMBERS_OF_SHOTS, *SHOTS, *EPISODES, *MODELS, *POSITIVE, *SETTINGS]
    ],
)
def test_bad_input_is_named(call: Callable[[], Any], fragments: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert isinstance(caught.value, ValueError)
    for fragment in fragments:
        assert fragment in message
    assert "\n" not in message
    assert len(message) < 400


def test_shapes_are_checked_even_where_values_are_unknown() -> None:
    """Inside `jax.jit` nothing is known but shapes and dtypes; those still lead to the sentence."""
    with pytest.raises(InputError, match=r"shots\.count must be a whole number"):
        jax.eval_shape(adapt, raw(1.0))
    with pytest.raises(InputError, match=r"model does not take one example of shots\.x, here float64\[3\]"):
        jax.eval_shape(adapt, shots(features=3))
    with pytest.raises(InputError, match="episodes holds no tasks"):
        jax.eval_shape(meta, no_tasks())


def test_padding_may_hold_anything() -> None:
    """What is refused among the datapoints is nobody's business behind them."""
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
        lambda model: OBJECTIVE(model, RULES["Scaled"], several),
        lambda model: gradient_moments(model, cross_entropy, several.train),
        lambda _: optimal_rate(0.1, c1_and_c2, numbers),
        lambda _: [rule(3) for rule in RULES.values()],
    ]
    for function in functions:
        jax.eval_shape(function, MODEL)
    with pytest.raises(InputError, match="label 3"):
        jax.eval_shape(lambda model: adapt(bad, model), MODEL)
