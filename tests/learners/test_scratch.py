"""Models from scratch are those of scikit-learn, whatever the shots; online they are fitted to all labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.core import jaxprs_in_params
from sklearn.linear_model import Ridge

import anyshot
from anyshot import Shots, load_tasks, make_experiment
from anyshot.adaptation import cross_entropy
from anyshot.learners.linear import fit_logistic
from anyshot.learners.scratch import with_missing_classes
from anyshot.runs import estimate_regret
from anyshot.runs.reading import read_run
from anyshot.runs.timing import time_experiment
from tests.support.learners import CLASS, INPUT, KEY, N, build, make_mlp, some
from tests.support.logistic import fit_reference
from tests.support.online_cases import RUN, Case, counted, run, stream_of
from tests.support.refusals import assert_refused
from tests.support.tiny_tasks import classification, regression

pytestmark = pytest.mark.usefixtures("quick_compilation")

CLASSES, QUERIES, SIZE = 4, 5, 8
FEATURES = (3, 11)  # fewer and more than there are shots
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-6}


@st.composite
def tasks(draw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and labels of shots, and queries: copies among them, constant features, offsets, few classes."""
    count = draw(st.integers(1, SIZE))
    features = draw(st.sampled_from(FEATURES))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    x = random.normal(size=(count + QUERIES, features)) * draw(st.sampled_from((0.1, 1.0, 2.0)))
    x += draw(st.sampled_from((0.0, 3.0)))
    x[:, draw(st.lists(st.integers(0, features - 1), max_size=2))] = 0.5
    if draw(st.booleans()):
        x[count - 1] = x[0]
    y = random.integers(0, draw(st.integers(1, CLASSES)), count)
    return x[:count], y, x[count:]


def learner(features: int, dtype: Any = np.float64, classes: bool = True, **hyperparameters: Any) -> Any:
    label = CLASS if classes else jax.ShapeDtypeStruct((2,), dtype)
    example = (jax.ShapeDtypeStruct((features,), dtype), label)
    return build("scratch", outputs=CLASSES if classes else 2, example=example, max_shots=SIZE, **hyperparameters)


@eqx.filter_jit
def predict(made: Any, shots: Shots, query: Any) -> Any:
    return made.predict((), shots, query)


def logistic(x: np.ndarray, y: np.ndarray, query: np.ndarray, classes: int, regularisation: float) -> np.ndarray:
    """Probabilities by scikit-learn, and by Laplace's rule for the classes without a shot."""
    seen, total = np.unique(y), len(y) + classes
    found = np.full((len(query), classes), 1 / total)
    share = np.ones((len(query), 1))
    if len(seen) > 1:
        share = fit_reference(x, y, 1 / regularisation).predict_proba(query)
    found[:, seen] = share * (1 - (classes - len(seen)) / total)
    return found


@pytest.mark.medium
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
@given(task=tasks(), regularisation=st.sampled_from((0.3, 1.0, 10.0)))
@settings(max_examples=60)
def test_classes_have_the_probabilities_of_scikit_learn(dtype: Any, task: Any, regularisation: float) -> None:
    x, y, query = (array.astype(np.int32) if array.ndim == 1 else array.astype(dtype) for array in task)
    made = learner(x.shape[1], dtype, regularisation=regularisation)
    found = predict(made, Shots.of(x, y, size=SIZE), jnp.asarray(query))
    assert found.dtype == dtype
    expected = logistic(x.astype(float), y, query.astype(float), CLASSES, regularisation)
    np.testing.assert_allclose(np.exp(found), expected, atol=TOLERANCE[dtype])


@pytest.mark.medium
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
@given(task=tasks(), regularisation=st.sampled_from((0.3, 1.0, 10.0)))
@settings(max_examples=60)
def test_targets_are_those_of_scikit_learns_ridge(dtype: Any, task: Any, regularisation: float) -> None:
    x, y, query = (array.astype(dtype) for array in task)
    y = np.stack([y, np.sin(3 * y) - 5], axis=1)
    made = learner(x.shape[1], dtype, classes=False, regularisation=regularisation)
    found = predict(made, Shots.of(x, y, size=SIZE), jnp.asarray(query))
    expected = Ridge(alpha=regularisation, solver="svd").fit(x.astype(float), y).predict(query.astype(float))
    np.testing.assert_allclose(found, expected, atol=20 * TOLERANCE[dtype])


@pytest.mark.medium
@pytest.mark.slow
def test_real_images_in_float32_agree_with_scikit_learn_at_the_size_of_an_experiment() -> None:
    digits, size = load_tasks("rainbow-digits"), 120
    train, test = digits.train_rows[3][:size], digits.test_rows[3][:50]
    x, y = (np.asarray(digits.x) / 255).astype(np.float32).reshape(len(digits.x), -1), np.asarray(digits.y)
    example = (jax.ShapeDtypeStruct(x.shape[1:], np.float32), CLASS)
    made = build("scratch", outputs=10, example=example)
    for count in (4, 33, size):
        shots = Shots(jnp.asarray(x[train]), jnp.asarray(y[train]), jnp.asarray(count, jnp.int32))
        # The weights lie in the span of the shots. With these few coordinates scikit-learn can afford Newton's method.
        given, queries = x[train][:count].astype(float), x[test].astype(float)
        basis = np.linalg.svd(given, full_matrices=False)[2].T
        expected = logistic(given @ basis, y[train][:count], queries @ basis, 10, 1.0)
        np.testing.assert_allclose(np.exp(predict(made, shots, x[test])), expected, atol=1e-4)
    by_bytes = build("scratch", outputs=10, example=(jax.ShapeDtypeStruct(digits.x.shape[1:], np.uint8), CLASS))
    shots = Shots(jnp.asarray(digits.x[train]), shots.y, shots.count)
    np.testing.assert_allclose(np.exp(predict(by_bytes, shots, jnp.asarray(digits.x[test]))), expected, atol=1e-6)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=6), st.integers(0, 100))
def test_a_class_without_a_shot_follows_laplace_and_is_never_the_first_choice(counts: list[int], seed: int) -> None:
    logits = 5 * np.random.default_rng(seed).normal(size=(3, len(counts)))
    p = np.exp(with_missing_classes(jnp.asarray(logits), jnp.asarray(counts)))
    seen, total = np.asarray(counts) > 0, sum(counts) + len(counts)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(p[:, ~seen], 1 / total)
    if seen.any():
        within = np.exp(logits[:, seen]) / np.exp(logits[:, seen]).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(p[:, seen] / p[:, seen].sum(axis=1, keepdims=True), within)
        assert (p[:, seen].max(axis=1) > 1 / total - 1e-12).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zero_shots_say_nothing(dtype: Any) -> None:
    query = jnp.full((QUERIES, FEATURES[0]), 7, dtype)
    none = Shots(jnp.full((SIZE, FEATURES[0]), jnp.nan, dtype), jnp.full(SIZE, 2, jnp.int32), jnp.zeros((), jnp.int32))
    np.testing.assert_allclose(np.exp(predict(learner(FEATURES[0], dtype), none, query)), 1 / CLASSES, rtol=1e-6)
    targets = Shots(none.x, jnp.full((SIZE, 2), jnp.nan, dtype), none.count)
    assert not predict(learner(FEATURES[0], dtype, classes=False), targets, query).any()


@pytest.mark.medium
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_inputs_that_nobody_has_scaled_give_numbers(features: int, scale: float) -> None:
    random = np.random.default_rng(0)
    x = (scale * (random.normal(size=(SIZE, features)) + 100)).astype(np.float32)
    y, query = (np.arange(SIZE) % 3).astype(np.int32), jnp.asarray(x)
    found = predict(learner(features, np.float32), Shots.of(x, y), query)
    targets = predict(learner(features, np.float32, classes=False), Shots.of(x, np.stack([x[:, 0]] * 2, 1)), query)
    assert np.isfinite(found).all()
    assert np.isfinite(targets).all()
    if scale > 1 and features > SIZE:  # then a linear model can separate anything
        assert (np.argmax(found, axis=1) == y).all()
        np.testing.assert_allclose(targets[:, 0], x[:, 0], rtol=1e-4)


# In the loops


@pytest.mark.medium
@pytest.mark.parametrize("tasks", [classification, regression])
def test_an_evaluation_fits_all_labels_that_have_arrived(tasks: Any) -> None:
    changes = (("advance", False), ("max_steps", 4), ("max_shots", 2), ("points_per_shot", 2))
    case = Case("scratch", tasks, changes)
    stream, loop = stream_of(case), case.loop()
    _, records, done = run(loop, stream, loop.start(stream, KEY), RUN, counted(8))
    assert int(done) == 8
    assert not records.metrics, "it has no updates to report"
    x, y = np.asarray(tasks().x), np.asarray(tasks().y)
    for number in range(8):
        position, labels = int(records.position[number]), int(records.received[number])
        assert records.shots[number] == labels == min(2 * int(records.round[number]), stream.capacity)
        train, test = stream.train_rows[position][:labels], stream.test_rows[position]
        if tasks is classification:
            p = logistic(x[train], y[train], x[test], 3, 1.0)
            expected = -np.log(p[np.arange(len(test)), y[test]]).mean()
        else:
            found = Ridge().fit(x[train], y[train]).predict(x[test]) if labels else np.zeros_like(y[test])
            expected = ((found - y[test]) ** 2).mean()
        assert records.loss[number] == pytest.approx(expected, abs=1e-6)
    assert max(records.shots) > loop.protocol.max_shots
    learning = Case("toe", tasks, changes).loop()
    _, records, _ = run(learning, stream, learning.start(stream, KEY), RUN, counted(5))
    assert max(records.shots) == 2, "others adapt to M shots at most"


@pytest.mark.medium
def test_a_run_goes_from_start_to_regret(tmp_path: Path) -> None:
    small = {"protocol.num_tasks": 3, "protocol.max_steps": 20, "protocol.threshold": 0.5}
    experiment = make_experiment("sinusoid", "scratch", settings=small)
    done = anyshot.run(experiment, tmp_path / "run", progress=False)
    assert anyshot.load_run(tmp_path / "run").learner == experiment.learner
    assert estimate_regret(tmp_path / "run", steps=10)["regret"] == pytest.approx(0, abs=1e-6), "it learns nothing"
    x = np.linspace(-3, 3, 20, dtype=np.float32)[:, None]
    expected = Ridge().fit(x, 2 * x[:, 0]).predict(x)
    np.testing.assert_allclose(done.predict((x, 2 * x), x)[:, 0], expected, atol=1e-5)


@pytest.mark.medium
def test_offline_nothing_is_trained_and_the_test_gives_the_shots_it_names(tmp_path: Path) -> None:
    small = {"protocol.test_shots": (0, 2), "protocol.max_episodes": 20, "protocol.test_queries": 10}
    experiment = make_experiment("sinusoid-offline", "scratch", settings=small)
    anyshot.run(experiment, tmp_path / "run", progress=False)
    summary: Any = read_run(tmp_path / "run")[2]
    assert summary.steps == 0
    assert [test.shots for test in summary.tests] == [0, 2]
    zero, two = (test.loss for test in summary.tests)
    assert zero == pytest.approx((np.asarray(experiment.tasks.y) ** 2).mean(), rel=0.5), "that of always saying 0"
    assert two > 1.1 * zero, "a line through two points of a wave"


def test_there_is_nothing_to_time() -> None:
    assert_refused(lambda: time_experiment(make_experiment("sinusoid", "scratch")), ["learner", "scratch"])


# The network


@pytest.mark.medium
def test_the_network_is_trained_by_adam_on_the_shots_alone() -> None:
    made = build("scratch-network", training_steps=7, training_rate=0.05)
    model, shots, query = made.init(KEY), some(2, size=5), some(4, 1).x
    padded = Shots(shots.x.at[2:].set(jnp.nan), shots.y.at[2:].set(9), shots.count)
    arrays, optimiser = eqx.filter(model, eqx.is_array), optax.adam(0.05)
    state = optimiser.init(arrays)

    @jax.grad
    def gradient(model: Any) -> Any:
        return jnp.mean(jax.vmap(lambda x, y: cross_entropy(model(x), y))(shots.x[:2], shots.y[:2]))

    for _ in range(7):
        change, state = optimiser.update(gradient(arrays), state)
        arrays = optax.apply_updates(arrays, change)
    counts = np.bincount(shots.y[:2], minlength=N)
    expected = with_missing_classes(jax.vmap(arrays)(query), jnp.asarray(counts))
    np.testing.assert_allclose(jax.jit(made.predict)(model, padded, query), expected, rtol=1e-8)
    assert made.inner_steps == 7


def test_without_shots_the_network_keeps_its_initial_weights_whatever_the_optimiser() -> None:
    decaying = optax.adamw(0.1, weight_decay=0.5)
    made = build("scratch-network", example=(INPUT, INPUT), optimiser=decaying)
    query = some(4, 1).x
    none = Shots(query, query, jnp.zeros((), jnp.int32))
    np.testing.assert_array_equal(made.predict(made.init(KEY), none, query), jax.vmap(make_mlp(KEY, N))(query))
    one = eqx.tree_at(lambda shots: shots.count, none, jnp.ones((), jnp.int32))
    assert (made.predict(made.init(KEY), one, query) != jax.vmap(make_mlp(KEY, N))(query)).all()


REFUSED = [
    *(("scratch", {"regularisation": wrong}) for wrong in (0, -1.0, float("inf"), True, "1")),
    *(("scratch-network", {"training_steps": wrong}) for wrong in (0, 1.5, 10**9)),
    *(("scratch-network", {"training_rate": wrong}) for wrong in (0.0, float("nan"), None)),
]


@pytest.mark.parametrize(("name", "wrong"), REFUSED, ids=str)
def test_hyperparameters_that_cannot_be_are_refused(name: str, wrong: dict[str, Any]) -> None:
    assert_refused(lambda: build(name, **wrong), [*wrong, *map(repr, wrong.values())])


def test_a_solution_in_closed_form_takes_no_optimiser() -> None:
    assert_refused(lambda: build("scratch", optimiser=optax.sgd(0.1)), ["scratch", "optimiser"])


@pytest.mark.parametrize("regularisation", [1.0, 0.1])
def test_a_gpu_finds_the_same_weights_without_eigenvalues(
    monkeypatch: pytest.MonkeyPatch, regularisation: float
) -> None:
    """Fewer labels than features, and padding: the program for a GPU, run here."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(12, 30)), draw.integers(0, 3, 12).astype(np.int32)
    arguments = (jnp.asarray(x), jnp.asarray(y), jnp.arange(12) < 9, 3, regularisation)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *arguments, cpu, default: default(*arguments))
    found = fit_logistic(*arguments)
    theirs = fit_reference(x[:9], y[:9], 1 / regularisation)
    expected = theirs.coef_ - theirs.coef_.mean(axis=0)
    np.testing.assert_allclose(found.weight.T, expected, atol=1e-5)
    np.testing.assert_allclose(jax.nn.softmax(found(jnp.asarray(x))), theirs.predict_proba(x), atol=1e-5)


def test_conditions_of_loops_compute_nothing() -> None:
    """`jax.vmap` copies a condition into the body; rounded differently there, a loop on a GPU never ended."""

    def find_loops(jaxpr: Any) -> Any:
        for equation in jaxpr.eqns:
            if equation.primitive.name == "while":
                yield equation.params["cond_jaxpr"].jaxpr
            for inner in jaxprs_in_params(equation.params):
                yield from find_loops(inner)

    x, y, present = jnp.zeros((5, 3)), jnp.zeros(5, jnp.int32), jnp.full(5, True)
    fit = jax.vmap(lambda strength: fit_logistic(x, y, present, 4, strength))
    loops = list(find_loops(jax.make_jaxpr(fit)(jnp.ones(2)).jaxpr))
    assert len(loops) >= 3
    for condition in loops:
        assert {equation.primitive.name for equation in condition.eqns} <= {"reduce_or"}


def test_float32_inputs_are_fitted_under_x64() -> None:
    x, y = jnp.asarray([[0.0], [1.0], [2.0]], jnp.float32), jnp.asarray([0, 1, 1])
    found = jax.vmap(lambda one: fit_logistic(x, y, jnp.full(3, True), 2, one))(jnp.asarray([1.0, 0.1], jnp.float64))
    assert found.weight.dtype == jnp.float32
