"""The compiled, padded, batched objective against the naive reference, in float64."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.adaptation import GaussianWeights, MetaObjective, Update, squared_error
from anyshot.adaptation.layers import mark_adapted
from anyshot.adaptation.update import clipped
from anyshot.networks import MLP, Conv4
from anyshot.rates import (
    ClosedForm,
    Constant,
    LearnedConstant,
    PerParameter,
    PerShot,
    Scaled,
    ScaledPerParameter,
)
from anyshot.shots import Episodes, Shots, stack_tasks
from tests.support import reference
from tests.support.gpu_arithmetic import as_on_a_gpu

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]

M = 3
CLASSES = 3
KINDS = ["Constant", "LearnedConstant", "PerShot", "Scaled", "PerParameter", "ScaledPerParameter", "ClosedForm"]


def close(ours: Any, theirs: Any, tolerance: float = 1e-8) -> None:
    """All leaves agree to `tolerance` relative to the largest entry of each."""
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(float(np.max(np.abs(b))), 1e-12))


def make_tasks(counts: list[int], seed: int = 0, features: tuple[int, ...] = (2,)) -> list[reference.Task]:
    draw = np.random.default_rng(seed)

    def examples(n: int) -> tuple[Any, Any]:
        return jnp.asarray(draw.normal(size=(n, *features))), jnp.asarray(draw.integers(0, CLASSES, n))

    return [(*examples(k), *examples(3)) for k in counts]


def as_episodes(tasks: list[reference.Task], size: int) -> Episodes:
    return Episodes(
        stack_tasks([Shots.of(x, y, size=size) for x, y, _, _ in tasks]),
        stack_tasks([Shots.of(x, y) for _, _, x, y in tasks]),
    )


COMPARED = make_tasks([*range(M + 1), M + 2])  # every K from 0 to M, and one beyond
CLIP = 0.6


def make_rate(kind: str, model: Any, maximum: int) -> tuple[Any, dict[str, Any]]:
    """A rule with uneven values, and the raw numbers it holds."""
    uneven = jnp.linspace(-2.0, -1.0, maximum + 1)
    if kind == "Constant":
        return Constant(0.3), {"alpha": 0.3}
    if kind == "LearnedConstant":
        rate = LearnedConstant(0.3)
        return rate, {"log_alpha": rate.log_alpha}
    if kind == "PerShot":
        rate = eqx.tree_at(lambda r: r.log_alpha, PerShot(max_shots=maximum), uneven)
        return rate, {"log_alpha": uneven}
    if kind == "Scaled":
        rate = Scaled(0.4, 0.7, maximum)
        return rate, {"log_beta": rate.log_beta, "log_eta": rate.log_eta}
    if kind == "PerParameter":
        rate = PerParameter(model, 0.3)
        varied = jax.tree.map(lambda a: a + 0.1 * jnp.arange(a.size).reshape(a.shape) / a.size, rate.log_alpha)
        return eqx.tree_at(lambda r: r.log_alpha, rate, varied), {"log_alpha": varied}
    if kind == "ScaledPerParameter":
        rate = ScaledPerParameter(model, 0.4, 0.7, maximum)
        return rate, {"log_beta": rate.log_beta, "log_eta": rate.log_eta}
    rate = ClosedForm(0.4, 3.0, 2.0, maximum)
    return rate, {"log_beta": rate.log_beta, "c1": jnp.asarray(3.0), "c2": jnp.asarray(2.0)}


def learned(kind: str, grad: Any) -> dict[str, Any]:
    """The gradients of a rule's learned numbers, by the reference's names."""
    names = {
        "Constant": [],
        "LearnedConstant": ["log_alpha"],
        "PerShot": ["log_alpha"],
        "Scaled": ["log_beta", "log_eta"],
        "PerParameter": ["log_alpha"],
    }
    names |= {"ScaledPerParameter": ["log_beta", "log_eta"], "ClosedForm": ["log_beta"]}
    return {name: getattr(grad, name) for name in names[kind]}


@pytest.mark.parametrize(
    ("kind", "steps", "batching"),
    [
        *((kind, 1, "together") for kind in KINDS),
        ("Scaled", 5, "together"),
        # What several steps add does not depend on the rule: the others wait for `make test-slow`.
        *(pytest.param(kind, 5, "together", marks=pytest.mark.slow) for kind in KINDS if kind != "Scaled"),
        ("Scaled", 1, "in turn"),
        *(pytest.param(kind, 5, "in turn", marks=pytest.mark.slow) for kind in ("Scaled", "PerParameter")),
    ],
)
def test_loss_and_all_gradients_equal_the_reference(kind: str, steps: int, batching: Any) -> None:
    """Every rule, every K from 0 to M and beyond it, with a clip."""
    model = MLP((2, 4, CLASSES), key=jax.random.key(1))
    tasks, clip = COMPARED, CLIP
    rate, raw = make_rate(kind, model, M)
    loss, (d_model, d_rate) = eqx.filter_jit(
        MetaObjective(Update(steps=steps, clip=clip), batching=batching).value_and_grad
    )(model, rate, as_episodes(tasks, M + 3))

    def naive(model: Any, raw: dict[str, Any]) -> Any:
        return reference.objective(model, kind, raw, tasks, M, reference.mean_cross_entropy, steps, clip)

    expected, (d_expected, d_raw) = jax.jit(jax.value_and_grad(naive, argnums=(0, 1)))(model, raw)
    close(loss, expected)
    close(d_model, d_expected)
    for name, grad in learned(kind, d_rate).items():
        close(grad, d_raw[name])


def test_the_clip_acts_on_some_tasks_and_not_on_others() -> None:
    """Without this the comparison above would not mean anything for clipping."""
    model = MLP((2, 4, CLASSES), key=jax.random.key(1))

    @jax.jit
    def norms() -> Any:
        gradients = [jax.grad(reference.mean_cross_entropy)(model, x, y) for x, y, _, _ in COMPARED[1:]]
        return [jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient))) for gradient in gradients]

    assert min(norms()) < CLIP < max(norms())


@pytest.mark.parametrize("x", [0.0, 1e-7, 5e-4, 1e-3])
def test_a_gradient_too_small_to_be_squared_passes_the_clip_with_its_derivative(x: float) -> None:
    """In float16 1e-3 does what 1e-20 does in float32 on a GPU (a CPU rounds such squares to 0): its inverse square
    is infinite. One shot and a large step come to such gradients, as the shot is then fitted perfectly."""
    g = jnp.array([x, 0, 0], jnp.float16)
    passed, derivative = jax.vjp(lambda g: clipped({"g": g}, CLIP)["g"], g)
    np.testing.assert_array_equal(passed, g)
    np.testing.assert_array_equal(derivative(jnp.arange(3, dtype=jnp.float16))[0], [0, 1, 2])


def on_a_gpu(kind: str) -> Any:
    """Loss and gradients of tasks with 0, 1 and 4 shots of class 0, in float32, as a function of the last biases."""

    def single(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32) if eqx.is_inexact_array(leaf) else leaf, tree)

    model = single(MLP((2, 4, CLASSES), key=jax.random.key(1)))
    rate, x = single(make_rate(kind, model, M)[0]), jnp.linspace(-1, 1, 8, dtype=jnp.float32).reshape(4, 2)
    train = stack_tasks([Shots.of(x[:k], jnp.zeros(k, int), size=4) for k in (0, 1, 4)])
    episodes = Episodes(train, stack_tasks([Shots.of(x, jnp.array([0, 1, 2, 0]))] * 3))
    objective = MetaObjective(Update(steps=2, clip=10.0), batching="together")

    def of_biases(biases: Any) -> Any:
        return objective.value_and_grad(eqx.tree_at(lambda net: net.layers[-1].bias, model, biases), rate, episodes)

    return of_biases, as_on_a_gpu(of_biases, model.layers[-1].bias)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "Scaled" else pytest.mark.slow) for kind in KINDS]
)
def test_shots_that_are_fitted_perfectly_leave_the_meta_gradient_finite_on_a_gpu(kind: str) -> None:
    """Class 0 is ahead of the others by a margin; their probabilities become denormal numbers, which a GPU keeps."""
    plain, on_gpu = on_a_gpu(kind)
    mild = jnp.array([1, 0, -1], jnp.float32)
    close(on_gpu(mild), jax.jit(plain)(mild), 1e-5)  # what is asked below is asked of the same program
    for margin in np.linspace(20, 110, 46):
        found = on_gpu(np.array([margin, 0, -margin / 3], np.float32))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))


@pytest.mark.parametrize(
    ("kind", "clip"),
    [
        pytest.param(kind, clip, marks=[] if kind == "Scaled" else pytest.mark.slow)
        for kind, clip in zip(KINDS, [None, CLIP] * 4, strict=False)
    ],
)
def test_with_gaussian_weights(kind: str, clip: float | None) -> None:
    """Meta-regularisation: gradients of means, standard deviations and rates, the draw's noise held fixed."""
    model = MLP((2, 4, CLASSES), key=jax.random.key(1))
    weights = GaussianWeights(model, std=0.1)
    weights = eqx.tree_at(
        lambda w: jax.tree.leaves(w.log_std),
        weights,
        [s + 0.1 * i for i, s in enumerate(jax.tree.leaves(weights.log_std))],
    )
    tasks = make_tasks(list(range(M + 1)))
    rate, raw = make_rate(kind, model, M)
    key = jax.random.key(7)
    objective = MetaObjective(Update(steps=2, clip=clip), kl_coefficient=0.03)
    loss, (d_weights, d_rate) = eqx.filter_jit(objective.value_and_grad)(weights, rate, as_episodes(tasks, M), key)

    noise = jax.tree.map(lambda d, m, s: (d - m) / jnp.exp(s), weights.draw(key), model, weights.log_std)

    def naive(mean: Any, log_std: Any, raw: dict[str, Any]) -> Any:
        drawn = jax.tree.map(lambda m, s, e: m + jnp.exp(s) * e, mean, log_std, noise)
        data_term = reference.objective(drawn, kind, raw, tasks, M, reference.mean_cross_entropy, 2, clip)
        return data_term + 0.03 * reference.kl_to_standard_normal(mean, log_std)

    expected, grads = jax.jit(jax.value_and_grad(naive, argnums=(0, 1, 2)))(model, weights.log_std, raw)
    close(loss, expected)
    close(d_weights.mean, grads[0])
    close(d_weights.log_std, grads[1])
    for name, grad in learned(kind, d_rate).items():
        close(grad, grads[2][name])


@pytest.mark.parametrize(("kind", "batching"), [("Scaled", "together"), ("PerParameter", "in turn")])
def test_with_fixed_layers(kind: str, batching: str) -> None:
    """The first layers do not adapt, are normal and have the KL; the last adapts and is a number.

    The naive one adapts a model of the last layer alone, so its meta-gradient for the others is by plain derivatives.
    """
    model = MLP((2, 4, 4, CLASSES), key=jax.random.key(1))
    adapts = mark_adapted(model, 2)
    weights = GaussianWeights(model, std=0.1, random=jax.tree.map(lambda yes: not yes, adapts))
    assert [layer.weight is None for layer in weights.log_std.layers] == [False, False, True]
    tasks, key = make_tasks([0, 1, M]), jax.random.key(7)
    rate, raw = make_rate(kind, model, M)
    objective = MetaObjective(Update(steps=2, clip=0.3, fixed_layers=2), 0.03, batching)
    loss, (d_weights, d_rate) = eqx.filter_jit(objective.value_and_grad)(weights, rate, as_episodes(tasks, M), key)
    body = eqx.filter(model, adapts, inverse=True)
    drawn_body = eqx.filter(weights.draw(key), adapts, inverse=True)
    noise = jax.tree.map(lambda d, m, s: (d - m) / jnp.exp(s), drawn_body, body, weights.log_std)

    def naive(mean: Any, log_std: Any, raw: dict[str, Any]) -> Any:
        head, fixed = eqx.partition(mean, adapts)
        drawn = jax.tree.map(lambda m, s, e: m + jnp.exp(s) * e, fixed, log_std, noise)
        alphas = {name: eqx.filter(value, adapts) for name, value in raw.items()} if kind == "PerParameter" else raw

        def of_head(head: Any, x: Any, y: Any) -> Any:
            return reference.mean_cross_entropy(eqx.combine(head, drawn), x, y)

        data_term = reference.objective(head, kind, alphas, tasks, M, of_head, 2, 0.3)
        return data_term + 0.03 * reference.kl_to_standard_normal(fixed, log_std)

    expected, grads = jax.jit(jax.value_and_grad(naive, argnums=(0, 1, 2)))(model, weights.log_std, raw)
    close(loss, expected)
    close(d_weights.mean, grads[0])
    close(d_weights.log_std, grads[1])
    for name, grad in learned(kind, d_rate).items():
        close(grad, grads[2][name])


@pytest.mark.slow
def test_convolutional_network() -> None:
    """The networks' own primitives inside the whole: second order through four convolutions."""
    model = Conv4((6, 5, 2), CLASSES, channels=3, key=jax.random.key(2))
    tasks = make_tasks([0, 2], features=(6, 5, 2))
    rate, raw = make_rate("Scaled", model, 3)
    objective = MetaObjective(Update(steps=2, clip=1.0), batching="together")
    loss, (d_model, d_rate) = eqx.filter_jit(objective.value_and_grad)(model, rate, as_episodes(tasks, 3))

    def naive(model: Any, raw: dict[str, Any]) -> Any:
        return reference.objective(model, "Scaled", raw, tasks, 3, reference.mean_cross_entropy, 2, 1.0)

    expected, (d_expected, d_raw) = jax.jit(jax.value_and_grad(naive, argnums=(0, 1)))(model, raw)
    close(loss, expected)
    close(d_model, d_expected)
    close(d_rate.log_eta, d_raw["log_eta"])


def regression_problem() -> tuple[Any, Episodes, list[reference.Task]]:
    draw = np.random.default_rng(3)
    tasks = []
    for k in (0, 1, 4):
        x, y = draw.normal(size=(k + 3, 1)), draw.normal(size=(k + 3, 1))
        tasks.append((jnp.asarray(x[:k]), jnp.asarray(y[:k]), jnp.asarray(x[k:]), jnp.asarray(y[k:])))
    return MLP((1, 5, 1), key=jax.random.key(0)), as_episodes(tasks, 4), tasks


@pytest.mark.slow
def test_rematerialised_and_first_order() -> None:
    """Recomputing changes nothing; first order drops exactly the terms that go through the inner gradient."""
    model, episodes, tasks = regression_problem()
    rate = Scaled(0.2, 1.0, 4)

    def grads(**settings: Any) -> Any:
        return eqx.filter_jit(MetaObjective(Update(squared_error, steps=3, **settings)).value_and_grad)(
            model, rate, episodes
        )

    close(grads(rematerialise=True), grads())

    def first_order(model: Any) -> Any:
        total = 0.0
        for x, y, val_x, val_y in tasks:
            alpha = reference.step_size("Scaled", {"log_beta": rate.log_beta, "log_eta": rate.log_eta}, len(y), 4)
            theta = reference.adapted(jax.lax.stop_gradient(model), alpha, x, y, reference.mean_squared_error, 3, 10.0)
            moved = jax.tree.map(lambda a, b: a - b, theta, jax.lax.stop_gradient(model))
            total += reference.mean_squared_error(jax.tree.map(lambda m, d: m + d, model, moved), val_x, val_y)
        return total / len(tasks)

    value, (d_model, _) = grads(second_order=False)
    expected, d_expected = jax.value_and_grad(first_order)(model)
    close(value, expected)
    close(d_model, d_expected)
    assert not np.allclose(jax.tree.leaves(d_model)[0], jax.tree.leaves(grads()[1][0])[0], rtol=1e-4)


def test_beta_and_eta_by_finite_differences() -> None:
    model, episodes, _ = regression_problem()
    objective = eqx.filter_jit(MetaObjective(Update(squared_error, steps=5)).value_and_grad)
    rate = Scaled(0.2, 1.0, 4)
    _, (_, grad) = objective(model, rate, episodes)
    for name in ("log_beta", "log_eta"):

        def at(shift: float, name: str = name) -> float:
            moved = eqx.tree_at(lambda r: getattr(r, name), rate, getattr(rate, name) + shift)
            return float(objective(model, moved, episodes)[0])

        h = 1e-3  # five-point formula: the error is of order h^4
        slope = (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h)
        np.testing.assert_allclose(float(getattr(grad, name)), slope, rtol=1e-8)


_MODEL = MLP((2, 4, CLASSES), key=jax.random.key(1))
_RATE = Scaled(0.4, 0.7, M)
_COUNTS = [0, 2, M, 1]
_TASKS = make_tasks(_COUNTS, seed=5)
_objective = {
    mode: eqx.filter_jit(MetaObjective(Update(steps=2, clip=0.6), batching=mode).value_and_grad)
    for mode in ("in turn", "together")
}
_unchanged = _objective["together"](_MODEL, _RATE, as_episodes(_TASKS, M))


@given(
    size=st.sampled_from([M, 2 * M]),
    order=st.permutations(range(len(_COUNTS))),
    junk=st.sampled_from([0.0, 1e30, np.nan, np.inf]),
    label=st.integers(-100, 100),
    mode=st.sampled_from(["in turn", "together"]),
)
def test_padding_and_order_do_not_matter(size: int, order: list[int], junk: float, label: int, mode: Any) -> None:
    episodes = as_episodes([_TASKS[i] for i in order], size)
    padding = ~(jnp.arange(size) < episodes.train.count[:, None])
    train = Shots(
        jnp.where(padding[..., None], junk, episodes.train.x),
        jnp.where(padding, label, episodes.train.y),
        episodes.train.count,
    )
    ours = _objective[mode](_MODEL, _RATE, Episodes(train, episodes.val))
    close(ours, _unchanged, 1e-12)


class KnowsPadding(eqx.Module):
    """A network that leaves padding out as the GPU's convolutions do, and more visibly."""

    net: MLP

    def __call__(self, x: Any) -> Any:
        return self.net(x)

    def for_shots(self, x: Any, count: Any) -> Any:
        present = (jnp.arange(x.shape[0]) < count)[:, None]
        return jnp.where(present, jax.vmap(self.net)(x), 1e3 * jnp.sum(self.net.layers[0].weight))


@pytest.mark.slow
def test_a_network_may_leave_padding_out() -> None:
    """Whatever it returns there has no part in the loss, nor in the gradients of first and second order."""
    episodes = as_episodes(make_tasks([0, 1, 3]), 5)
    net, rate = MLP((2, 4, CLASSES), key=jax.random.key(0)), Scaled(0.1)
    objective = MetaObjective(Update(steps=2, clip=1.0), batching="together")
    value_and_grad = eqx.filter_jit(objective.value_and_grad)
    theirs = value_and_grad(net, rate, episodes)
    loss, (d_model, d_rate) = value_and_grad(KnowsPadding(net), rate, episodes)
    close((loss, (d_model.net, d_rate)), theirs, 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_zero_shots_return_theta_exactly(kind: str) -> None:
    model = MLP((2, 4, CLASSES), key=jax.random.key(1))
    rate, _ = make_rate(kind, model, M)
    for size in (0, 4):
        nothing = Shots(jnp.full((size, 2), jnp.nan), jnp.full(size, 7), jnp.asarray(0))
        adapted = eqx.filter_jit(Update())(model, rate, nothing)
        for ours, theirs in zip(jax.tree.leaves(adapted), jax.tree.leaves(model), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_memory_does_not_grow_with_inner_steps_when_rematerialised() -> None:
    model = MLP((2, 64, CLASSES), key=jax.random.key(1))
    episodes = as_episodes(make_tasks([40] * 3), 40)

    def temporary_bytes(steps: int, rematerialise: bool) -> int:
        objective = MetaObjective(Update(steps=steps, rematerialise=rematerialise), batching="together")
        compiled = eqx.filter_jit(objective.value_and_grad).lower(model, Scaled(max_shots=40), episodes).compile()
        return compiled.compiled.memory_analysis().temp_size_in_bytes

    weights = sum(leaf.nbytes for leaf in jax.tree.leaves(model)) * 3  # θ of each step and task must be kept
    few, many = temporary_bytes(2, True), temporary_bytes(34, True)
    assert many - few <= 1.5 * 32 * weights
    assert temporary_bytes(34, False) - temporary_bytes(2, False) > 3 * (many - few)


def test_a_gpu_batches_as_many_tasks_as_fill_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of twenty pairs of 84x84 images, all of 42x42; on a CPU tasks are taken in turn."""
    large, small = (
        Shots(jnp.zeros((6, 20, 2, side, side, 3), jnp.uint8), jnp.zeros((6, 20), jnp.int32), jnp.ones(6, jnp.int32))
        for side in (84, 42)
    )
    assert MetaObjective()._at_once(small) is None
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert MetaObjective()._at_once(large) == 4
    assert MetaObjective()._at_once(small) == 6
    assert MetaObjective(batching="together")._at_once(large) == 6
    assert MetaObjective(batching="in turn")._at_once(small) is None


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_tasks_in_groups(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of one, two, and of two where three would fit: the fourth would stand alone."""
    monkeypatch.setattr(MetaObjective, "_at_once", lambda *_: at_once)
    ours = eqx.filter_jit(MetaObjective(Update(steps=2, clip=0.6)).value_and_grad)
    close(ours(_MODEL, _RATE, as_episodes(_TASKS, M)), _unchanged, 1e-12)
