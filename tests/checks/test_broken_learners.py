"""Every check of `anyshot.checks` can fail: learners that break one promise each, and what is said about them."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.checks import CHECKS, LearnerError, check_learner
from anyshot.learners import Learner
from tests.checks.counting import Counting
from tests.support.learners import CLASS, INPUT, M, N

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]


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


@caught_by("check_wants", "a frozenset of some of episodes, batch, current, memory")
class WantsAList(Counting):
    @property
    def wants(self) -> Any:
        return ["batch"]


@caught_by("check_without_wants", "wants is empty")
class LearnsFromNothing(Counting):
    @property
    def wants(self) -> Any:
        return frozenset()

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": state["seen"] + 1}, {"loss": jnp.zeros(())}


@caught_by("check_init", r"state\['rate'\] is an array of NumPy")
class KeepsANumpyArray(Counting):
    def init(self, key: Any) -> Any:
        return {"seen": jnp.zeros(N), "rate": np.full((), 0.1)}


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


@caught_by("check_update_keeps_form", r"state\['updates'\] from 0 into 1; keep what changes in arrays of JAX")
class CountsInANumber(Counting):
    """A compiled loop would take the number for a constant."""

    def init(self, key: Any) -> Any:
        return {"seen": jnp.zeros(N), "updates": 0}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": state["seen"], "updates": state["updates"] + 1}, {"loss": jnp.zeros(())}


@caught_by("check_update_keeps_form", "another structure")
class ChangesStructure(Counting):
    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"seen": state["seen"], "more": jnp.zeros(())}, {"loss": jnp.zeros(())}


@caught_by("check_update_with_any_number_of_shots", r"\(0, 1, 2\) shots")
class CannotLearnFromTwoShots(Counting):
    @property
    def wants(self) -> Any:
        return frozenset({"episodes"})

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": jnp.sum(jnp.where(drawn.episodes.train.count == 2, jnp.nan, 0.0))}


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


@caught_by("check_any_number_of_shots", "not finite with 2 shots")
class CannotPredictFromTwoShots(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) + jnp.where(support.count == 2, jnp.nan, 0.0)


@caught_by("check_padding", "with 2 shots predict depends on the content of the rows behind count")
class SeesPaddingBehindTwoShots(Counting):
    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) + jnp.where(support.count == 2, jnp.sum(support.y), 0)


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


class Observing(Counting):
    """Expects what it predicts, and counts the labels it was shown."""

    def expect(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query)

    def combine(self, state: Any, support: Any, expected: Any) -> Any:
        return expected

    def observe(self, state: Any, expected: Any, arrived: Any) -> Any:
        return {"seen": state["seen"] + arrived.count}


def test_a_learner_that_observes_passes() -> None:
    check_learner(Observing(), (INPUT, CLASS), classes=N, max_shots=M)


@caught_by("check_observing", "predict gives another result than combine after expect")
class PredictsSomethingElse(Observing):
    def combine(self, state: Any, support: Any, expected: Any) -> Any:
        return expected + 1


@caught_by("check_observing", "observe depends on rows behind count")
class ObservesPadding(Observing):
    def observe(self, state: Any, expected: Any, arrived: Any) -> Any:
        return {"seen": state["seen"] + jnp.sum(arrived.y)}


@caught_by("check_observing", r"end_task turns state\['seen'\] from")
class EndsWithLess(Observing):
    def end_task(self, state: Any) -> Any:
        return {"seen": state["seen"][:1]}


@caught_by("check_observing", "observe gives a state with NaN")
class ObservesNaN(Observing):
    def observe(self, state: Any, expected: Any, arrived: Any) -> Any:
        return {"seen": state["seen"] / 0.0 * 0.0}


@caught_by("check_observing", "needs expect and combine")
class ObservesWithoutExpecting(Counting):
    def observe(self, state: Any, expected: Any, arrived: Any) -> Any:
        return state


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


@pytest.mark.parametrize(("learner", "check", "saying"), BROKEN)
def test_a_broken_promise_is_found_by_its_check(learner: Learner, check: str, saying: str) -> None:
    with pytest.raises(LearnerError, match=f"^{type(learner).__name__} fails {check}: .*{saying}") as caught:
        check_learner(learner, (INPUT, CLASS), classes=N, max_shots=M)
    assert "\n" not in str(caught.value)


def test_every_check_has_a_learner_that_fails_it() -> None:
    assert {check.__name__ for check in CHECKS} == {case.values[1] for case in BROKEN}
