"""Every learner keeps the promises of `anyshot.checks`, every check can fail, and each method computes what it says."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import assume, given
from hypothesis import strategies as st

from anyshot import Episodes, GaussianWeights, InputError, Shots, cross_entropy, squared_error
from anyshot.checks import CHECKS, LearnerError, check_learner
from anyshot.learners import LEARNERS, Drawn, Learner, ProtoNet, Recipe, make_learner
from anyshot.learners.agem import projected
from anyshot.learners.names import METHODS
from anyshot.networks import MLP

M = 3
N = 3  # inputs, hidden units, outputs and the embedding alike: XLA compiles fewer different operations
INPUT = jax.ShapeDtypeStruct((N,), jnp.float64)
CLASS = jax.ShapeDtypeStruct((), jnp.int32)
KEY = jax.random.key(0)


pytestmark = pytest.mark.usefixtures("quick_compilation")


def network(key: Any, outputs: int) -> MLP:
    return MLP((N, N, outputs), key=key)


CLASSES = Recipe(network, N, cross_entropy, True, max_shots=M, inner_steps=2, embedding=N, memory=N, tasks="together")
TARGETS = dataclasses.replace(CLASSES, loss=squared_error, classification=False)
RULED = [name for name, method in METHODS.items() if method.place.startswith("rates.")]


def made(name: str, recipe: Recipe = CLASSES) -> Learner:
    return make_learner(name, recipe, (INPUT, CLASS if recipe.classification else INPUT))


def some(count: int, seed: int = 0, size: int | None = None) -> Shots:
    draw = np.random.default_rng(seed)
    return Shots.of(draw.normal(size=(count, N)), draw.integers(0, N, count).astype(np.int32), size=size or count)


def stacked(*tasks: Any) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)


# Conformance

# The rules that differ little from others wait for `make test-slow`.
SLOW = ("ftml", "ftml-vl", "ftml+meta-sgd", "ftml-vs+meta-sgd")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in LEARNERS]
)
def test_every_learner_behaves_on_classes(name: str) -> None:
    check_learner(made(name), (INPUT, CLASS), classes=N, max_shots=M, order_matters=name == "mann")


REGRESSION = [name for name in LEARNERS if name != "protonet"]
LATER = (*SLOW, "ftml-vs-closed-form", "mann")  # tried on classes


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LATER else []) for name in REGRESSION]
)
def test_every_learner_but_protonet_behaves_in_a_regression(name: str) -> None:
    check_learner(made(name, TARGETS), (INPUT, INPUT), max_shots=M, order_matters=name == "mann")


def test_a_learner_with_gaussian_weights_behaves() -> None:
    check_learner(
        made("ftml-vs", dataclasses.replace(CLASSES, kl_coefficient=1e-3)), (INPUT, CLASS), classes=N, max_shots=M
    )


def test_protonet_refuses_a_regression_before_any_work() -> None:
    def never(key: Any, outputs: int) -> Any:
        raise AssertionError("a network was made")

    with pytest.raises(InputError, match=r"^protonet needs classes .* regression$"):
        made("protonet", dataclasses.replace(TARGETS, network=never))


def test_protonet_without_an_example_is_one_clear_sentence() -> None:
    with pytest.raises(InputError, match=r"^example must be shape and dtype .* got None$"):
        ProtoNet(CLASSES)


@pytest.mark.parametrize("name", LEARNERS)
def test_equal_recipes_make_learners_that_share_compiled_functions(name: str) -> None:
    def method(*example: Any, **numbers: Any) -> Any:
        return make_learner(name, dataclasses.replace(CLASSES, **numbers), example).predict

    one, same = method(INPUT, CLASS), method(INPUT, CLASS)
    assert jax.tree.structure(one) == jax.tree.structure(same)
    assert hash(one) == hash(same)
    for other in (method(INPUT, CLASS, eta=0.5), method(CLASS, CLASS)):  # ProtoNet's memory has another shape
        assert jax.tree.structure(one) != jax.tree.structure(other)
    assert hash(method({"image": INPUT}, CLASS))


def test_an_unknown_learner_is_one_clear_sentence() -> None:
    with pytest.raises(InputError) as caught:
        made("ftlm")
    assert str(caught.value) == f"there is no learner 'ftlm'; there are {', '.join(LEARNERS)}"


# Each check can fail


class Counting(Learner):
    """A learner that behaves: classes by how often they were seen, plus the input."""

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return {"seen": jnp.zeros(N)}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        seen = 0.5 * state["seen"] + frequencies(drawn.batch)
        return {"seen": seen}, {"loss": jnp.sum(seen)}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jax.vmap(lambda x: x + state["seen"] + frequencies(support))(query)


def frequencies(shots: Any) -> Any:
    of_class = (shots.y[:, None] == jnp.arange(N)) & shots.present()[:, None]
    return jnp.sum(of_class, axis=0) / jnp.maximum(shots.count, 1)


def is_traced(x: Any) -> bool:
    return isinstance(x, jax.core.Tracer)


BROKEN: list[Any] = []


def caught_by(check: str, saying: str) -> Any:
    """List a broken learner, the check that must find it, and what it must say."""

    def listed(broken: Any) -> Any:
        BROKEN.append(pytest.param(broken(), check, saying, id=broken.__name__))
        return broken

    return listed


@caught_by("check_wants", "wants is frozenset.*'everything'")
class WantsTheUnknown(Counting):
    @property
    def wants(self) -> Any:
        return frozenset({"batch", "everything"})


@caught_by("check_wants", "one or more of episodes, batch, current, memory")
class WantsNothing(Counting):
    @property
    def wants(self) -> Any:
        return frozenset()


@caught_by("check_init", r"state\['rate'\] is 0.1, no JAX array")
class KeepsANumber(Counting):
    def init(self, key: Any) -> Any:
        return {"seen": jnp.zeros(N), "rate": 0.1}


@caught_by("check_init", "another state for the same key")
class StartsAnyhow(Counting):
    def init(self, key: Any) -> Any:
        return {"seen": jnp.asarray(np.random.default_rng().normal(size=N))}


@caught_by("check_init", "NaN or infinity")
class StartsWithNaN(Counting):
    def init(self, key: Any) -> Any:
        return {"seen": jnp.full(N, jnp.nan)}


@caught_by("check_update_reports", "with the key 'loss'")
class TellsNoLoss(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"error": jnp.zeros(())}


@caught_by("check_update_reports", r"metric 'loss' has shape \(3,\)")
class TellsManyLosses(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": state["seen"]}


@caught_by("check_update_reports", "metrics .* not finite")
class TellsNaN(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": jnp.full((), jnp.nan)}


@caught_by("check_update_reports", "a state with NaN")
class LearnsNaN(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": state["seen"] / 0.0}, {"loss": jnp.zeros(())}


@caught_by("check_update_reports", r"it raised AssertionError \(no current")
class WantsTooLittle(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        assert drawn.current is not None, "no current"


@caught_by("check_update_is_pure", "update gives another result for the same arguments")
class UpdatesAnyhow(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": state["seen"] + np.random.default_rng().normal()}, {"loss": jnp.zeros(())}


@caught_by("check_update_is_pure", "update changes its arguments")
class UpdatesInPlace(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        state["seen"] = state["seen"] + 1
        return state, {"loss": jnp.zeros(())}


@caught_by("check_update_compiles", "another result under jax.jit")
class UpdatesElseIfTraced(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": state["seen"] + (1.0 if is_traced(key) else 2.0)}, {"loss": jnp.zeros(())}


@caught_by("check_update_compiles", "it raised TracerBoolConversionError")
class UpdatesByValue(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": state["seen"] + (1 if drawn.batch.count > 2 else 0)}, {"loss": jnp.zeros(())}


@caught_by("check_memory_is_bounded", "has 48 bytes after one update and 120 after four")
class Hoards(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": jnp.concatenate([state["seen"], jnp.ones(N)])}, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict({"seen": state["seen"][:N]}, support, query)


@caught_by("check_update_keeps_form", r"state\['seen'\] from float64\[3\] into float32\[3\]")
class ChangesDtype(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": jnp.asarray(state["seen"], jnp.float32)}, {"loss": jnp.zeros(())}


@caught_by("check_update_keeps_form", r"from float64\[3\] into float64\[1, 3\]")
class ChangesShape(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": state["seen"].reshape(1, N)}, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict({"seen": state["seen"].reshape(N)}, support, query)


@caught_by("check_update_keeps_form", "another structure")
class ChangesStructure(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": state["seen"], "more": jnp.zeros(())}, {"loss": jnp.zeros(())}


@caught_by("check_update_ignores_padding", "update depends on rows behind count")
class LearnsPadding(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": jnp.mean(drawn.batch.x)}


@caught_by("check_empty_memory", "drawn.memory has count 0")
class DividesByMemory(Counting):
    @property
    def wants(self) -> Any:
        return frozenset({"memory"})

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": 1.0 / drawn.memory.count}


@caught_by("check_predict_is_pure", "predict gives another result for the same arguments")
class PredictsFromHiddenState(Counting):
    calls: ClassVar[list[int]] = []

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        if not is_traced(query):
            self.calls.append(1)
        return super().predict(state, support, query) + len(self.calls)

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": jnp.zeros(())}


@caught_by("check_predict_is_pure", "predict changes its arguments")
class PredictsInPlace(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        outputs = super().predict(state, support, query)
        state["seen"] = jnp.ones(N)
        return outputs


@caught_by("check_predict_compiles", "another result under jax.jit")
class PredictsElseIfTraced(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) + (1 if is_traced(query) else 0)


@caught_by("check_predict_compiles", "it raised TracerBoolConversionError")
class PredictsByValue(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) if support.count > 0 else query


@caught_by("check_one_row_per_query", r"shapes \[\(1, 3\)\] for 4 queries; give \(4, 3\)")
class AnswersOnce(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query)[:1]


@caught_by("check_one_row_per_query", r"shapes \[\(4,\)\] for 4 queries; give \(4, 3\)")
class AnswersAClass(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jnp.argmax(super().predict(state, support, query), axis=1)


@caught_by("check_any_number_of_shots", "not finite with 0 shots")
class NeedsAShot(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) + jnp.sum(support.present()) / support.count


@caught_by("check_padding", "with 0 shots predict depends on the content of the rows behind count")
class SeesPadding(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) + jnp.sum(support.y)


@caught_by("check_padding", "with 0 shots predict depends on the number of the rows behind count")
class CountsPadding(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) + support.size


@caught_by("check_queries_are_independent", "the order of the queries")
class NumbersQueries(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) + jnp.arange(query.shape[0])[:, None]


@caught_by("check_queries_are_independent", "what else is asked")
class NormalisesQueries(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query - jnp.mean(query, axis=0))


@caught_by("check_order_of_shots", "order_matters=True")
class LikesTheFirst(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        first = jnp.where(support.count > 0, support.x[0], 0.0)
        return super().predict(state, support, query) + first


@jax.custom_batching.custom_vmap
def only_alone(x: Any) -> Any:
    return x


@only_alone.def_vmap
def _(axis_size: int, in_batched: Any, x: Any) -> Any:
    return jnp.zeros_like(x), True


@caught_by("check_many_tasks", "under jax.vmap over tasks")
class WorksAlone(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) + only_alone(support.count)


@caught_by("check_rates", r"alpha \[0.1 0.1\]; give 4 or more")
class FewRates(Counting):
    def rates(self, state: Any) -> Any:
        return {"alpha": jnp.full(2, 0.1)}


@caught_by("check_rates", "none below 0")
class NegativeRates(Counting):
    def rates(self, state: Any) -> Any:
        return {"alpha": -jnp.ones(M + 1)}


@caught_by("check_rates", "not finite")
class InfiniteRates(Counting):
    def rates(self, state: Any) -> Any:
        return {"eta": jnp.full((), jnp.inf)}


@caught_by("check_saving", "it raised TypeError")
class KeepsAKey(Counting):
    def init(self, key: Any) -> Any:
        return {"seen": jnp.zeros(N), "key": key}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": jnp.zeros(())}


@caught_by("check_saving", "it raised InputError")
class KeepsWhatCannotBeSaved(Counting):
    def init(self, key: Any) -> Any:
        return {"seen": jnp.zeros(N, jnp.float8_e4m3fn)}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict({"seen": jnp.asarray(state["seen"], float)}, support, query)


def test_a_learner_without_any_of_our_parts_behaves() -> None:
    check_learner(Counting(), (INPUT, CLASS), classes=N, max_shots=M)


@pytest.mark.parametrize(("learner", "check", "saying"), BROKEN)
def test_a_broken_promise_is_found_by_its_check(learner: Learner, check: str, saying: str) -> None:
    with pytest.raises(LearnerError, match=f"^{type(learner).__name__} fails {check}: .*{saying}") as caught:
        check_learner(learner, (INPUT, CLASS), classes=N, max_shots=M)
    assert "\n" not in str(caught.value)


def test_every_check_has_a_learner_that_fails_it() -> None:
    assert {check.__name__ for check in CHECKS} == {case.values[1] for case in BROKEN}


def test_order_may_matter_if_declared() -> None:
    check_learner(LikesTheFirst(), (INPUT, CLASS), classes=N, max_shots=M, order_matters=True)


def test_inputs_of_any_form_are_tried() -> None:
    class OfTrees(Counting):
        def predict(self, state: Any, support: Any, query: Any) -> Any:
            flat = query["image"].astype(float).sum((1, 2)) + query["flag"] + query["small"]
            return flat[:, None] + state["seen"] + frequencies(support)

    shapes = {"image": ((2, 2), jnp.uint8), "flag": ((), jnp.bool_), "small": ((), jnp.bfloat16)}
    x = {name: jax.ShapeDtypeStruct(*shape) for name, shape in shapes.items()}
    check_learner(OfTrees(), (x, CLASS), classes=N, max_shots=1)


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        ({"example": (INPUT,)}, "^example must be a pair"),
        ({"classes": 1}, "^classes is 1"),
        ({"example": (INPUT, INPUT)}, "^classes is 3 and a label is"),
        ({"max_shots": 0}, "^max_shots must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, saying: str) -> None:
    right: Any = {"example": (INPUT, CLASS), "classes": N, "max_shots": M} | arguments
    with pytest.raises(InputError, match=saying):
        check_learner(Counting(), **right)


# A-GEM

PROJECTED = jax.jit(projected)
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
    np.testing.assert_allclose(as_vector(PROJECTED(as_tree([1, 1, 0, -2.0]), as_tree([0, 0, 0, 5.0]))), [1, 1, 0, 0])


def test_a_gem_without_memory_is_adam_on_the_current_task() -> None:
    recipe = dataclasses.replace(CLASSES, meta_rate=0.01, meta_clip=0.05)
    learner = made("a-gem", recipe)
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
        assert norm > recipe.meta_clip
        g = [leaf * recipe.meta_clip / norm for leaf in g]
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
    learner = made("a-gem")
    state, drawn = learner.init(KEY), Drawn(current=some(5, seed=1), memory=some(5, seed=2))
    # The opposite labels make a conflict: what lowers the one loss raises the other.
    drawn = eqx.tree_at(lambda d: (d.memory.x, d.memory.y), drawn, (drawn.current.x, (drawn.current.y + 1) % N))
    g, r = (GRADIENT(state.model, shots.x, shots.y)[1] for shots in (drawn.current, drawn.memory))
    assert sum(float(jnp.vdot(a, b)) for a, b in zip(jax.tree.leaves(g), jax.tree.leaves(r), strict=True)) < 0
    after, _ = jax.jit(learner.update)(state, drawn, KEY)
    moments = jax.tree.map(lambda m: m / 0.1, after.optimiser[1][0].mu)  # Adam's first moment is 0.1 g at first
    for ours, theirs in zip(jax.tree.leaves(moments), jax.tree.leaves(PROJECTED(g, r)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-12)


# TOE, and A-GEM, do not adapt


@pytest.mark.parametrize("name", ["toe", "a-gem"])
def test_the_shots_are_ignored_at_prediction(name: str) -> None:
    learner = made(name)
    predict = jax.jit(learner.predict)
    state, query = learner.init(KEY), some(4, seed=5).x
    expected = np.asarray(predict(state, some(0, size=4), query))
    for seed, count in ((1, 1), (2, 3), (3, 4)):
        np.testing.assert_array_equal(predict(state, some(count, seed, size=4), query), expected)
    np.testing.assert_allclose(expected, jax.vmap(state.model)(query), rtol=1e-12)


# ProtoNet


def protonet_by_hand(model: Any, own: Any, remembered: Any, query: Any) -> Any:
    """Own shots, else what is remembered, else the mean of the prototypes there are, else the origin."""
    prototypes: dict[int, Any] = {}
    for k in range(N):
        for x, y in (own, remembered):
            embedded = [np.asarray(model(one)) for one, label in zip(x, y, strict=True) if label == k]
            if embedded and k not in prototypes:
                prototypes[k] = sum(embedded) / len(embedded)
    centre = sum(prototypes.values()) / len(prototypes) if prototypes else np.zeros(N)
    logits = np.zeros((len(query), N))
    for i, x in enumerate(query):
        for k in range(N):
            logits[i, k] = -np.sum((np.asarray(model(x)) - prototypes.get(k, centre)) ** 2)
    return logits


def labelled(labels: list[int], seed: int, size: int) -> Shots:
    """Shots with these labels, and behind them something else."""
    x = jnp.asarray(np.random.default_rng(seed).normal(size=(size, N)))
    y = jnp.asarray((labels + [2] * size)[:size], jnp.int32)
    return Shots(x, y, jnp.asarray(len(labels), jnp.int32))


def datapoints(shots: Shots) -> tuple[Any, Any]:
    return shots.x[: int(shots.count)], np.asarray(shots.y)[: int(shots.count)].tolist()


PROTONET = ProtoNet(dataclasses.replace(CLASSES, example=(INPUT, CLASS)), remembered=5)
PROTONET_PREDICT = jax.jit(PROTONET.predict)
PROTONET_UPDATE = jax.jit(PROTONET.update)


@pytest.mark.parametrize(
    ("own", "remembered"),
    [
        ([0, 1, 2, 1], []),  # own shots of every class
        ([0, 1, 2, 1], [0, 1, 2]),  # they go before what is remembered
        ([1, 1], [0, 1, 2, 0]),  # two classes are borrowed
        ([1, 1], [0, 1]),  # class 2 is unknown: the mean of the other two
        ([], [2, 0]),  # zero shots: all borrowed, class 1 the mean
        ([1], []),  # one is known, and the others take its place
        ([], []),  # nothing is known at all: the origin, for every class
    ],
)
def test_prototypes_are_own_else_remembered_else_the_mean_else_the_origin(own: Any, remembered: Any) -> None:
    support, memory, query = labelled(own, 1, size=4), labelled(remembered, 2, size=5), some(4, seed=3).x
    state = dataclasses.replace(PROTONET.init(KEY), remembered=memory)
    logits = PROTONET_PREDICT(state, support, query)
    assert np.isfinite(logits).all()
    by_hand = protonet_by_hand(state.model, datapoints(support), datapoints(memory), query)
    np.testing.assert_allclose(logits, by_hand, rtol=1e-10)
    if not own and not remembered:
        embedded = jax.vmap(state.model)(query)
        np.testing.assert_allclose(logits, -np.sum(embedded**2, axis=1, keepdims=True) * np.ones(N), rtol=1e-10)


def protonet_draw() -> Drawn:
    train = stacked(labelled([], 1, 4), labelled([1], 2, 4), labelled([0, 0, 1, 2], 3, 4))
    val = stacked(labelled([0, 1], 4, 4), labelled([2, 0, 1], 5, 4), labelled([1, 1, 2, 0], 6, 4))
    # The first episode has nothing in the memory, the second the only 0, the third a 2 which it has a shot of anyway.
    tasks = {"episode_task": jnp.array([5, 1, 3], jnp.int32), "memory_task": jnp.array([1, 3, 0, 3, 3, 3], jnp.int32)}
    return Drawn(episodes=Episodes(train, val), memory=labelled([0, 2, 2], 7, 6), **tasks)


def protonet_loss_by_hand(model: Any, drawn: Drawn) -> float:
    episodes, total = drawn.episodes, 0.0
    for task in range(episodes.tasks):
        train, val = (jax.tree.map(lambda leaf, t=task: leaf[t], part) for part in (episodes.train, episodes.val))
        x, y = datapoints(val)
        others = np.asarray(drawn.memory_task)[: int(drawn.memory.count)] != int(drawn.episode_task[task])
        lent = tuple(jnp.asarray(part)[others] for part in datapoints(drawn.memory))
        logits = protonet_by_hand(model, datapoints(train), lent, x)
        likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        total += -np.mean([np.log(likely[i, label]) for i, label in enumerate(y)])
    return total / episodes.tasks


def test_protonet_learns_from_the_loss_of_its_prototypes() -> None:
    state, drawn = PROTONET.init(KEY), protonet_draw()
    after, metrics = PROTONET_UPDATE(state, drawn, KEY)
    np.testing.assert_allclose(metrics["loss"], protonet_loss_by_hand(state.model, drawn), rtol=1e-10)
    assert after.remembered.count == 3
    np.testing.assert_array_equal(after.remembered.x[:3], drawn.memory.x[:3])


def test_protonet_gradient_by_finite_differences() -> None:
    state, drawn = PROTONET.init(KEY), protonet_draw()
    after, _ = PROTONET_UPDATE(state, drawn, KEY)
    leaves, structure = jax.tree.flatten(state.model)

    def loss(leaf: int, index: Any, change: float) -> float:
        moved = [np.array(each) for each in leaves]
        moved[leaf][index] += change
        model = jax.tree.unflatten(structure, [jnp.asarray(each) for each in moved])
        return float(PROTONET_UPDATE(dataclasses.replace(state, model=model), drawn, KEY)[1]["loss"])

    for number, moment in enumerate(jax.tree.leaves(after.optimiser[1][0].mu)):
        for index in np.ndindex(moment.shape):
            slope = (loss(number, index, 1e-5) - loss(number, index, -1e-5)) / 2e-5
            np.testing.assert_allclose(moment[index] / 0.1, slope, rtol=0, atol=1e-7)


def test_protonet_with_nothing_known_has_a_finite_loss_and_gradient() -> None:
    nothing = labelled([], 1, 4)
    drawn = Drawn(episodes=Episodes(stacked(nothing), stacked(labelled([0, 2], 4, 4))), memory=labelled([], 7, 6))
    drawn = dataclasses.replace(drawn, episode_task=jnp.zeros(1, jnp.int32), memory_task=jnp.ones(6, jnp.int32))
    after, metrics = jax.jit(PROTONET.update)(PROTONET.init(KEY), drawn, KEY)
    np.testing.assert_allclose(metrics["loss"], np.log(N), rtol=1e-12)  # every class as likely as the other
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))


# FTML


@pytest.mark.parametrize("name", RULED)
def test_ftml_predicts_with_the_prior_weights_at_zero_shots(name: str) -> None:
    learner = made(name)
    state, query = learner.init(KEY), some(4, seed=1).x
    outputs = jax.jit(learner.predict)(state, some(0, size=4), query)
    np.testing.assert_allclose(outputs, jax.vmap(state.weights)(query), rtol=1e-14)


def test_ftml_with_gaussian_weights_predicts_with_their_mean() -> None:
    learner = made("ftml", dataclasses.replace(CLASSES, kl_coefficient=1e-3))
    state, query = learner.init(KEY), some(4, seed=1).x
    assert isinstance(state.weights, GaussianWeights)
    outputs = jax.jit(learner.predict)(state, some(0, size=4), query)
    np.testing.assert_allclose(outputs, jax.vmap(state.weights.mean)(query), rtol=1e-14)


def test_ftml_vs_predicts_after_the_steps_of_u() -> None:
    learner = made("ftml-vs", dataclasses.replace(CLASSES, inner_steps=3, inner_clip=0.5, inner_rate=0.7, eta=0.4))
    predict = jax.jit(learner.predict)
    adapted = jax.jit(partial(reference.adapted, loss=reference.mean_cross_entropy, steps=3, clip=0.5))
    state, query = learner.init(KEY), some(4, seed=1).x
    raw = {"log_beta": np.log(0.7), "log_eta": np.log(0.4)}
    for shots in (1, M, M + 2):  # more than M counts as M
        support = some(shots, seed=shots, size=6)
        x, y = support.x[:shots], support.y[:shots]
        alpha = jnp.asarray(reference.step_size("Scaled", raw, shots, M))
        by_hand = adapted(state.weights, alpha, x, y)
        np.testing.assert_allclose(predict(state, support, query), jax.vmap(by_hand)(query), rtol=1e-8)


# Rates


def moved_state(name: str) -> Any:
    """A state whose rule is not as it began."""
    state, draw = made(name).init(KEY), np.random.default_rng(0)
    arrays, rest = eqx.partition(state.rate, eqx.is_array)
    arrays = jax.tree.map(lambda leaf: leaf + jnp.asarray(draw.uniform(0, 1, leaf.shape)), arrays)
    return dataclasses.replace(state, rate=eqx.combine(arrays, rest))


def mean_exp(tree: Any) -> float:
    return float(np.mean(np.exp(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]))))


def rates_by_hand(name: str, rule: Any) -> dict[str, Any]:
    s = np.arange(M + 1)
    if name == "ftml":
        return {"alpha": np.full(M + 1, 0.1)}
    if name == "ftml-vl":
        return {"alpha": np.exp(rule.log_alpha)}
    if name == "ftml+meta-sgd":
        return {"alpha": np.full(M + 1, mean_exp(rule.log_alpha))}
    if name == "ftml-vs-closed-form":
        beta, eta = np.exp(rule.log_beta), rule.squared_mean_gradient / rule.gradient_variance
        return {"alpha": beta * (1 - 1 / (1 + eta * s)), "beta": beta, "eta": eta}
    eta = np.exp(rule.log_eta)
    if name == "ftml-vs":
        beta = np.exp(rule.log_beta)
        return {"alpha": beta * (1 - 1 / (1 + eta * s)), "beta": beta, "eta": eta}
    assert name == "ftml-vs+meta-sgd"  # β has a value for every parameter: its mean is in alpha
    return {"alpha": mean_exp(rule.log_beta) * (1 - 1 / (1 + eta * s)), "eta": eta}


@pytest.mark.parametrize("name", RULED)
def test_rates_are_those_of_the_formula(name: str) -> None:
    state = moved_state(name)
    ours, by_hand = made(name).rates(state), rates_by_hand(name, state.rate)
    assert ours.keys() == by_hand.keys()
    for key, value in by_hand.items():
        np.testing.assert_allclose(ours[key], value, rtol=1e-12, atol=1e-15)


def test_learners_without_a_rule_have_no_rates() -> None:
    for name in set(LEARNERS) - set(RULED):
        assert made(name).rates(made(name).init(KEY)) == {}


def test_the_closed_form_follows_the_gradients() -> None:
    """C1 and C2 move a tenth of the way to what theorem 1 measures on the validation points, at the weights before."""
    learner = made("ftml-vs-closed-form")
    state = learner.init(KEY)
    tasks = [some(4, seed=seed) for seed in (1, 2)]
    after, _ = jax.jit(learner.update)(state, Drawn(episodes=Episodes(stacked(*tasks), stacked(*tasks))), KEY)
    variances, squares = [], []
    for task in tasks:
        trees = [GRADIENT(state.weights, task.x[i : i + 1], task.y[i : i + 1])[1] for i in range(4)]
        g = np.stack([np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]) for tree in trees])
        variances.append(np.var(g, axis=0, ddof=1).sum())
        squares.append(np.sum(g.mean(axis=0) ** 2) - variances[-1] / 4)
    np.testing.assert_allclose(after.rate.gradient_variance, 0.9 + 0.1 * np.mean(variances), rtol=1e-10)
    np.testing.assert_allclose(after.rate.squared_mean_gradient, 0.9 + 0.1 * max(np.mean(squares), 0), rtol=1e-10)
