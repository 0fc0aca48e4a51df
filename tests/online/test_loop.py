"""Algorithm 1 compiled, against algorithm 1 in plain Python."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyshot.online import OnlineState, Record
from tests.support.learners import NAMES
from tests.support.online_cases import (
    DISPATCH,
    RUN,
    START,
    TRACES,
    Case,
    assert_same_bits,
    compiled,
    counted,
    plain,
    ran,
    run,
    started,
    stream_of,
)
from tests.support.plain_online.methods import make_method
from tests.support.tiny_tasks import classification, pairs, regression

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]

IN_TURN = (("batching", "in turn"),)
# ProtoNet's gradient is zero but for rounding while a single class is known (all prototypes are one), and Adam makes a
# step of meta_rate * 1e-16 / 1e-8 of that.
PROTONET = Case("protonet", classification, (), (("meta_rate", 0.001),), tolerance=1e-6)
TOE = Case("toe", classification)
FTML_VS = Case("ftml-vs", classification, (), IN_TURN)
MASTERED_AT_ONCE = Case("ftml-vl", regression, (("advance", True),))  # two tasks are mastered with zero shots
USED_UP = Case("ftml", regression)
AGEM_PRETRAINING = Case("a-gem", regression, (("overlap", False), ("pretrain_tasks", 2), ("pretrain_steps", 2)))
CASES = [
    TOE,
    Case("ftml", classification, (("pretrain_tasks", 1), ("pretrain_steps", 2))),
    Case("ftml-vl", classification, (("updates_per_step", 2),)),
    FTML_VS,
    Case("ftml+meta-sgd", classification, (("advance", False), ("threshold", 0.5)), (("second_order", False),)),
    Case("ftml-vs+meta-sgd", classification, (("threshold", 0.5),)),
    Case("ftml-vs-closed-form", classification, (("steps_per_arrival", 2), ("max_steps", 3))),
    Case("ftml-learned-constant", classification),
    Case("a-gem", classification),
    PROTONET,
    Case("toe", regression, (("pretrain_tasks", 2), ("pretrain_steps", 1))),
    USED_UP,
    MASTERED_AT_ONCE,
    Case("ftml-vs", regression, (), (("kl_coefficient", 0.01),)),
    Case("ftml+meta-sgd", regression, (("updates_per_step", 2),)),
    Case("ftml-vs+meta-sgd", regression, (), (("inner_clip", None),)),
    Case("ftml-vs-closed-form", regression),
    Case("ftml-learned-constant", regression),
    AGEM_PRETRAINING,
    Case("ftml-vs", pairs, (), IN_TURN),
    Case("mann", classification),
    Case("mann", regression),
    Case("ftml-vs", classification, (("borrow", True),)),
    Case("toe", classification, (("fresh_test", True), ("test_size", 4))),
    Case("toe", pairs, (("fresh_test", True),)),
]
# Methods and regressions that are much like others wait for `make test-slow`.
LATER = {"ftml+meta-sgd", "ftml-vs+meta-sgd", "ftml-vs-closed-form", "ftml-learned-constant", "mann"}
ALIKE = [case for case in CASES if case.tasks is pairs or (case.learner, case.tasks) == ("ftml", regression)]
COMPARED = [
    pytest.param(
        case,
        marks=pytest.mark.slow if case.learner in LATER or case in ALIKE else [],
        id=str(case),
    )
    for case in CASES
]


def test_there_is_a_case_for_every_learner_and_kind_of_task() -> None:
    covered = {(case.learner, case.tasks.__name__) for case in CASES}
    # Those from scratch have no updates; tests/learners has their loop, that of anyshot, and the update of ridge-head.
    for learner in set(NAMES) - {"scratch", "scratch-kernel", "scratch-network", "ridge-head", "anyshot"}:
        assert (learner, "classification") in covered
        assert (learner, "regression") in covered or learner == "protonet"


@pytest.mark.parametrize("case", COMPARED)
def test_the_compiled_loop_gives_the_records_of_the_plain_one(case: Case) -> None:
    _, records, _ = compiled(case)
    rows = plain(case).ledger
    assert len(records.loss) == len(rows)
    for name in ("position", "round", "received", "shots", "mastered", "ended", "pretraining"):
        assert getattr(records, name).tolist() == [getattr(row, name) for row in rows], name
    near = functools.partial(np.testing.assert_allclose, rtol=0, atol=case.tolerance)
    near(records.loss, [row.loss for row in rows])
    np.testing.assert_allclose(records.accuracy, [row.accuracy for row in rows], rtol=0, atol=1e-6)
    near(records.metrics["loss"], [row.train_loss for row in rows])
    if rows[0].rates is not None:
        near(records.rates["alpha"], [row.rates for row in rows])


@pytest.mark.parametrize("case", COMPARED)
def test_the_compiled_loop_ends_with_the_state_of_the_plain_one(case: Case) -> None:
    state, _, _ = compiled(case)
    result = plain(case)
    assert state.finite
    assert int(state.position) == len(result.buffer)
    assert int(state.rounds) == len(result.ledger)
    assert state.buffer.received.tolist() == [len(points) for points in result.buffer]
    assert state.buffer.seen[: int(state.buffer.seen_count)].tolist() == result.seen
    method = result.method
    learned, first, second = method.parameters, method.adam.first, method.adam.second
    if case.learner == "ftml-vs-closed-form":  # C1 and C2 are there too, and Adam never moves them
        learned, none = [*learned, method.c1, method.c2], [0.0, 0.0]
        first, second = first + none, second + none
    floats = jax.tree.leaves(eqx.filter(state.learner, eqx.is_inexact_array))
    if case.learner == "protonet":
        remembered, number = state.learner.remembered, len(method.remembered)
        assert int(remembered.count) == number > 0
        np.testing.assert_array_equal(remembered.x[:number], [x for _, x, _ in method.remembered])
        np.testing.assert_array_equal(remembered.y[:number], [y for _, _, y in method.remembered])
        floats = [leaf for leaf in floats if leaf is not remembered.x]
    expected = [*learned, *first, *second]
    assert len(floats) == len(expected)
    for got, want in zip(floats, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=case.tolerance)


@pytest.mark.parametrize("case", COMPARED)
def test_a_whole_stream_is_compiled_once(case: Case) -> None:
    _, records, after_the_first = compiled(case)
    assert len(records.loss) > DISPATCH / 2
    assert TRACES[str(case)] == 1
    assert after_the_first == 0


@pytest.mark.slow
def test_the_cases_are_not_trivial() -> None:
    rows = {case: plain(case).ledger for case in CASES}
    ended = [row for ledger in rows.values() for row in ledger if row.ended]
    last = max(row.round for row in ended)
    assert {True, False} == {row.mastered for row in ended}
    assert {0, last} < {row.round for row in ended if row.mastered}, "at zero shots, at the end and in between"
    assert any(row.pretraining for ledger in rows.values() for row in ledger)
    assert any(not row.ended and row.mastered for ledger in rows.values() for row in ledger), "without advancement"
    assert plain(MASTERED_AT_ONCE).seen == [0, 3], "tasks without data, and another behind them"
    assert any(row.received == 5 for row in rows[USED_UP]), "less data than would arrive"
    for case in CASES:
        method, learner = plain(case).method, case.make_learner()
        start = make_method(learner, START)
        moved = max(float(abs(a - b).max()) for a, b in zip(method.parameters, start.parameters, strict=True))
        assert moved > 3 * learner.hyper.meta_rate


# Dispatches


@functools.cache
def in_one_go(case: Case) -> tuple[OnlineState, Record]:
    loop, stream = case.loop(), stream_of(case)
    return ran(loop, stream, started(loop, stream, START), [DISPATCH], str(case))


@given(rounds=st.lists(st.integers(1, 2 * DISPATCH), min_size=1, max_size=8))
@example(rounds=[1])
def test_dispatches_of_any_size_give_the_same_bits(rounds: list[int]) -> None:
    for case in (TOE, FTML_VS):
        loop, stream = case.loop(), stream_of(case)
        assert_same_bits(ran(loop, stream, started(loop, stream, START), rounds, str(case)), in_one_go(case))
        assert TRACES[str(case)] == 1


@pytest.mark.parametrize("rounds", [0, -1])
def test_no_rounds_change_nothing(rounds: int) -> None:
    loop, stream = TOE.loop(), stream_of(TOE)
    state = started(loop, stream, START)
    after, _, count = run(loop, stream, state, RUN, counted(rounds), str(TOE))
    assert int(count) == 0
    assert_same_bits(after, state)


def test_at_the_end_of_the_stream_nothing_is_left_to_run() -> None:
    loop, stream = TOE.loop(), stream_of(TOE)
    state, _ = in_one_go(TOE)
    after, _, count = run(loop, stream, state, RUN, counted(3), str(TOE))
    assert int(count) == 0
    assert_same_bits(after, state)


# Errors that this comparison has found


def test_agem_learns_in_pretraining() -> None:
    loop, stream = AGEM_PRETRAINING.loop(), stream_of(AGEM_PRETRAINING)
    before = started(loop, stream, START)
    after, records, _ = run(loop, stream, before, RUN, counted(2), str(AGEM_PRETRAINING))
    assert records.pretraining[:2].all()
    assert not np.array_equal(after.learner.model.layers[0].weight, before.learner.model.layers[0].weight)


def test_protonet_knows_the_previous_task_when_the_next_one_arrives() -> None:
    loop, stream = PROTONET.loop(), stream_of(PROTONET)
    state = started(loop, stream, START)
    while int(state.position) == 0 or int(state.round) == 0:  # to just behind round 0 of the second task
        state, records, _ = run(loop, stream, state, RUN, counted(1), str(PROTONET))
    assert (int(records.position[0]), int(records.round[0])) == (1, 0)
    assert int(state.learner.remembered.count) > 0
    assert abs(float(records.loss[0]) - np.log(3)) > 1e-9, "all prototypes are the origin"
