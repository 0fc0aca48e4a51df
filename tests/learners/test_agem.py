"""A-GEM follows the projected gradient; like TOE, it ignores the shots at prediction."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from anyshot import Shots
from anyshot.learners import Drawn
from anyshot.learners.agem import project
from tests.support import reference
from tests.support.learners import KEY, N, build, some

pytestmark = pytest.mark.usefixtures("quick_compilation")

PROJECTED = jax.jit(project)
GRADIENT = jax.jit(jax.value_and_grad(reference.mean_cross_entropy))
VECTORS = st.lists(st.floats(-100, 100, allow_subnormal=False), min_size=4, max_size=4).map(np.array)


def as_tree(v: Any) -> Any:
    return {"w": jnp.asarray(v[:3]).reshape(3, 1), "b": jnp.asarray(v[3])}


def as_vector(tree: Any) -> Any:
    return np.concatenate([np.ravel(tree["w"]), np.ravel(tree["b"])])


@given(VECTORS, VECTORS, st.integers(0, 2**32 - 1))
def test_the_projected_gradient_is_the_nearest_without_conflict(g: Any, r: Any, seed: int) -> None:
    assume(not r.any() or np.linalg.norm(r) > 1e-3)
    p = as_vector(PROJECTED(as_tree(g), as_tree(r)))
    rounding = 1e-12 * (1 + np.linalg.norm(g))
    assert p @ r >= -rounding * np.linalg.norm(r)
    # Karush, Kuhn, Tucker: p = g + λ r with λ >= 0, and λ > 0 only on the boundary p·r = 0.
    multiplier = max(0.0, -(g @ r) / (r @ r)) if r.any() else 0.0
    np.testing.assert_allclose(p, g + multiplier * r, rtol=0, atol=rounding)
    if g @ r > rounding * np.linalg.norm(r) or not r.any():
        np.testing.assert_array_equal(p, g)
    else:
        assert abs(p @ r) <= rounding * max(1, np.linalg.norm(r))
    others = np.random.default_rng(seed).normal(size=(200, 4)) * (1 + np.linalg.norm(g))
    allowed = [near for z in others for near in (z, p + 1e-3 * z) if near @ r >= 0]
    assert all(np.linalg.norm(z - g) >= np.linalg.norm(p - g) - rounding for z in allowed)


def test_the_projection_points_against_the_memory_only_as_far_as_needed() -> None:
    projected = as_vector(PROJECTED(as_tree([1, 1, 0, -2.0]), as_tree([0, 0, 0, 5.0])))
    np.testing.assert_allclose(projected, [1, 1, 0, 0], atol=1e-15)


def test_a_gem_without_memory_is_adam_on_the_current_task() -> None:
    clip = 0.05
    learner = build("a-gem", meta_rate=0.01, meta_clip=clip)
    update = jax.jit(lambda state, drawn: learner.update(state, drawn, KEY))
    state = learner.init(KEY)
    leaves, structure = jax.tree.flatten(state.model)
    theta = [np.asarray(leaf) for leaf in leaves]
    first, second = [np.zeros_like(p) for p in theta], [np.zeros_like(p) for p in theta]
    nothing = some(2, seed=99)
    for step in range(1, 4):
        current = some(5, seed=step)
        state, metrics = update(state, Drawn(current=current, memory=Shots(nothing.x, nothing.y, jnp.array(0))))
        loss, tree = GRADIENT(jax.tree.unflatten(structure, theta), current.x, current.y)
        g = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
        norm = np.sqrt(sum(np.sum(leaf**2) for leaf in g))
        assert norm > clip
        g = [leaf * clip / norm for leaf in g]
        first = [0.9 * m + 0.1 * d for m, d in zip(first, g, strict=True)]
        second = [0.999 * v + 0.001 * d**2 for v, d in zip(second, g, strict=True)]
        theta = [
            p - 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
            for p, m, v in zip(theta, first, second, strict=True)
        ]
        np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-10)
        assert metrics["memory_loss"] == 0
    for ours, theirs in zip(jax.tree.leaves(state.model), theta, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def test_a_gem_steps_along_the_projection() -> None:
    learner = build("a-gem")
    state, drawn = learner.init(KEY), Drawn(current=some(5, seed=1), memory=some(5, seed=2))
    # The opposite labels make a conflict: what lowers the one loss raises the other.
    drawn = eqx.tree_at(lambda d: (d.memory.x, d.memory.y), drawn, (drawn.current.x, (drawn.current.y + 1) % N))
    g, r = (GRADIENT(state.model, shots.x, shots.y)[1] for shots in (drawn.current, drawn.memory))
    assert sum(float(jnp.vdot(a, b)) for a, b in zip(jax.tree.leaves(g), jax.tree.leaves(r), strict=True)) < 0
    after, _ = jax.jit(learner.update)(state, drawn, KEY)
    moments = jax.tree.map(lambda m: m / 0.1, after.optimiser[1][0].mu)  # Adam's first moment is 0.1 g at first
    for ours, theirs in zip(jax.tree.leaves(moments), jax.tree.leaves(PROJECTED(g, r)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["toe", "a-gem"])
def test_the_shots_are_ignored_at_prediction(name: str) -> None:
    learner = build(name)
    predict = jax.jit(learner.predict)
    state, query = learner.init(KEY), some(4, seed=5).x
    expected = np.asarray(predict(state, some(0, size=4), query))
    for seed, count in ((1, 1), (2, 3), (3, 4)):
        np.testing.assert_array_equal(predict(state, some(count, seed, size=4), query), expected)
    np.testing.assert_allclose(expected, jax.vmap(state.model)(query), rtol=1e-12)
