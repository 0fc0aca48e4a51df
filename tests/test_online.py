"""Algorithm 1 compiled against algorithm 1 in plain Python, draw by draw; what must hold of any draw and any run."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import online_reference as reference
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from anyshot.adaptation import cross_entropy, squared_error
from anyshot.errors import InputError
from anyshot.learners import LEARNERS, Drawn, Learner, Recipe, make_learner
from anyshot.networks import MLP
from anyshot.online import Buffer, OnlineLoop, OnlineState, Protocol, Record, Stream, make_stream
from anyshot.online.buffer import episode
from anyshot.tasks import PairTasks, TaskSet

pytestmark = pytest.mark.usefixtures("quick_compilation")

WORLD, START, RUN = jax.random.key(1), jax.random.key(2), jax.random.key(3)
DISPATCH = 8
TRACES: Counter[str] = Counter()  # of the compiled function, by case
COMPILATIONS: Counter[str] = Counter()  # of anything at all


def _count_compilation(event: str, _seconds: float, **_: Any) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        COMPILATIONS["all"] += 1


jax.monitoring.register_event_duration_secs_listener(_count_compilation)


# Tiny task sets


@functools.cache
def classification() -> TaskSet:
    """Three classes around centres that every task moves a little, in four dimensions."""
    random, tasks, given_, held = np.random.default_rng(0), 5, 8, 6
    y = np.tile([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1], tasks)
    centres, shifts = random.normal(size=(3, 4)), random.normal(size=(tasks, 4)).repeat(given_ + held, axis=0)
    x = 1.5 * centres[y] + 0.7 * shifts + 0.4 * random.normal(size=(len(y), 4))
    return _task_set(TaskSet, x, y.astype(np.int32), tasks, given_)


@functools.cache
def regression() -> TaskSet:
    """Two numbers to predict: linear functions of four, which differ from task to task."""
    random, tasks, given_, held = np.random.default_rng(1), 4, 5, 6
    x = random.normal(size=(tasks, given_ + held, 4))
    y = np.einsum("tni,tio->tno", x, random.normal(size=(tasks, 4, 2)))
    return _task_set(TaskSet, x.reshape(-1, 4), y.reshape(-1, 2), tasks, given_)


@functools.cache
def pairs() -> TaskSet:
    """Which of two pairs of points in the plane are of one class?"""
    random, tasks = np.random.default_rng(2), 4
    y = np.arange(tasks, dtype=np.int32).repeat(6)
    x = random.normal(size=(tasks, 2))[y] + 0.3 * random.normal(size=(len(y), 2))
    return _task_set(PairTasks, x, y, tasks, 3)


@functools.cache
def rows_of(kind: type[TaskSet]) -> TaskSet:
    """Examples that are their own row number: what is drawn can be seen in it."""
    labels = np.arange(4, dtype=np.int32).repeat(12)
    return _task_set(kind, np.arange(48.0), labels, 4, 8)


def _task_set(kind: type[TaskSet], x: Any, y: Any, tasks: int, given_: int) -> TaskSet:
    rows = np.arange(len(y)).reshape(tasks, -1)
    names = tuple(f"task {task}" for task in range(tasks))
    return kind(f"tiny {kind.__name__}", x, y, rows[:, :given_], rows[:, given_:], names).on_device()


def small_mlp(key: Any, outputs: int) -> MLP:
    return MLP((4, 6, outputs), key=key)


# The compiled loop and the plain one, on the same world


@dataclasses.dataclass(frozen=True)
class Case:
    """A learner on a task set under rules; `tolerance` bounds the difference from the reference."""

    learner: str
    tasks: Callable[[], TaskSet]
    rules: tuple[tuple[str, Any], ...] = ()
    numbers: tuple[tuple[str, Any], ...] = ()
    tolerance: float = 1e-9

    def __str__(self) -> str:
        return f"{self.learner}-{self.tasks.__name__}" + "".join(f"-{k}={v}" for k, v in self.rules + self.numbers)

    @property
    def is_classification(self) -> bool:
        return self.tasks is not regression

    def protocol(self) -> Protocol:
        # In a regression there is less to give (5 examples) than would arrive in three rounds (6).
        common = {"arrive": 2, "every": 1, "max_steps": 3, "points_per_shot": 2, "max_shots": 3, "validation": 3}
        common |= {"tasks_per_update": 2, "batch": 6, "memory_per_task": 3, "test": 6}
        if self.tasks is regression:
            common |= {"advance": False, "measure": "loss", "threshold": 7.0, "overlap": True, "points_per_shot": 1}
        elif self.tasks is pairs:
            common |= {"max_shots": 2, "validation": 2, "points_per_shot": 1, "threshold": 0.6}
        else:
            common |= {"threshold": 0.6}
        return Protocol(**common | dict(self.rules))

    def recipe(self) -> Recipe:
        protocol, kind = self.protocol(), self.is_classification
        numbers = {"inner_steps": 2, "inner_rate": 0.3, "inner_clip": 1.0, "meta_rate": 0.03, "meta_clip": 0.5}
        outputs = {classification: 3, regression: 2, pairs: 2}[self.tasks]
        return Recipe(
            network=small_mlp,
            outputs=outputs,
            loss=cross_entropy if kind else squared_error,
            classification=kind,
            max_shots=protocol.max_shots,
            **numbers | {"embedding": 5, "memory": 4, "tasks": "together"} | dict(self.numbers),
        )

    def loop(self) -> OnlineLoop:
        recipe = self.recipe()
        learner = make_learner(self.learner, recipe, self.tasks().example())
        return OnlineLoop(learner, self.protocol(), recipe.loss, self.is_classification, dispatch=DISPATCH)


# ProtoNet's gradient is zero but for rounding while a single class is known (all prototypes are one), and Adam makes a
# step of meta_rate * 1e-16 / 1e-8 of that.
PROTONET = {"numbers": (("meta_rate", 0.001),), "tolerance": 1e-6}
IN_TURN = (("tasks", "in turn"),)
CASES = [
    Case("toe", classification),
    Case("ftml", classification, (("pretrain_tasks", 1), ("pretrain_steps", 2))),
    Case("ftml-vl", classification, (("updates", 2),)),
    Case("ftml-vs", classification, (), IN_TURN),
    Case("ftml+meta-sgd", classification, (("advance", False), ("threshold", 0.5)), (("second_order", False),)),
    Case("ftml-vs+meta-sgd", classification, (("threshold", 0.5),)),
    Case("ftml-vs-closed-form", classification, (("every", 2), ("max_steps", 3))),
    Case("a-gem", classification),
    Case("protonet", classification, **PROTONET),
    Case("toe", regression, (("pretrain_tasks", 2), ("pretrain_steps", 1))),
    Case("ftml", regression),
    Case("ftml-vl", regression, (("advance", True),)),  # two tasks are mastered with zero shots
    Case("ftml-vs", regression, (), (("kl_coefficient", 0.01),)),
    Case("ftml+meta-sgd", regression, (("updates", 2),)),
    Case("ftml-vs+meta-sgd", regression, (), (("inner_clip", None),)),
    Case("ftml-vs-closed-form", regression),
    Case("a-gem", regression, (("overlap", False), ("pretrain_tasks", 2), ("pretrain_steps", 2))),
    Case("ftml-vs", pairs, (), IN_TURN),
    Case("mann", classification),
    Case("mann", regression),
    Case("ftml-vs", classification, (("borrow", True),)),
]
SPLIT = CASES[0]
# Every method is compared on classes; of the regressions, those much like others wait for `make test-slow`.
LATER = {"ftml", "ftml+meta-sgd", "ftml-vs+meta-sgd", "ftml-vs-closed-form", "mann"}
COMPARED = [
    pytest.param(
        case, marks=pytest.mark.slow if case.tasks is regression and case.learner in LATER else [], id=str(case)
    )
    for case in CASES
]


@functools.cache
def _world(tasks: Callable[[], TaskSet], arrive: int, rounds: int, test: int) -> tuple[Stream, reference.World]:
    protocol = Protocol(arrive=arrive, every=1, max_steps=rounds, test=test)
    return make_stream(tasks(), protocol, WORLD), reference.make_world(tasks(), protocol, WORLD)


def world_of(case: Case) -> tuple[Stream, reference.World]:
    """The stream, and the same in plain Python; shared by all cases with as many arrivals."""
    protocol = case.protocol()
    return _world(case.tasks, protocol.arrive, protocol.rounds, protocol.test)


def stream_of(case: Case) -> Stream:
    return world_of(case)[0]


def counted(rounds: int) -> jax.Array:
    return jnp.asarray(rounds, jnp.int32)


@eqx.filter_jit
def started(loop: OnlineLoop, stream: Stream, key: Any) -> OnlineState:
    return loop.start(stream, key)


@eqx.filter_jit
def run(loop: OnlineLoop, stream: Stream, state: OnlineState, key: Any, rounds: Any, name: str = "") -> Any:
    TRACES[name] += 1
    return loop.run(stream, state, key, rounds)


def ran(
    loop: OnlineLoop, stream: Stream, state: OnlineState, rounds: list[int], name: str = ""
) -> tuple[OnlineState, Record]:
    """Dispatch after dispatch until the stream ends or the numbers do; `rounds` says how many each (the last: on)."""
    parts, number = [], 0
    while bool(state.finite) and int(state.position) < stream.positions:
        asked = rounds[min(number, len(rounds) - 1)]
        state, records, count = run(loop, stream, state, RUN, counted(asked), name)
        assert int(count) <= min(asked, DISPATCH)
        assert records.loss.shape == (loop.dispatch,)
        parts.append(jax.tree.map(lambda leaf, n=int(count): np.asarray(leaf)[:n], records))
        number += 1
        assert number < 100, "the stream does not end"
    return state, jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@functools.cache
def compiled(case: Case) -> tuple[OnlineState, Record, int]:
    """The final state, the ledger, and compilations after the first dispatch; rounds are dispatched unevenly."""
    loop, stream = case.loop(), stream_of(case)
    state = started(loop, stream, START)
    run(loop, stream, state, RUN, counted(1), str(case))
    before = COMPILATIONS["all"]
    state, records = ran(loop, stream, state, [1, 3, 2, 5], str(case))
    return state, records, COMPILATIONS["all"] - before


@functools.cache
def plain(case: Case) -> reference.Run:
    _, world = world_of(case)
    method = reference.make_method(case.learner, case.recipe(), START)
    return reference.run(world, case.protocol(), method, case.is_classification, RUN)


def test_the_references_derivatives_are_those_of_small_differences() -> None:
    case = CASES[12]
    method = plain(case).method
    episodes = next(drawn.episodes for drawn in plain(case).draws if min(len(train) for _, train, _ in drawn.episodes))
    noise = [np.full(p.shape, 0.5) for p in method.parameters[: method.arrays]]

    def objective(at: list[Any]) -> Any:
        return method.objective([reference.var(p) for p in at], episodes, noise)

    _, gradient = reference.value_and_gradient(objective, method.parameters)
    for number, slope in enumerate(gradient):
        for place in np.ndindex(slope.shape):
            values = []
            for change in (1e-5, -1e-5):
                moved = [np.array(p) for p in method.parameters]
                moved[number][place] += change
                values.append(float(objective(moved).value))
            assert slope[place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-7)


def test_there_is_a_case_for_every_learner_and_kind_of_task() -> None:
    covered = {(case.learner, case.tasks.__name__) for case in CASES}
    for learner in LEARNERS:
        assert (learner, "classification") in covered
        assert (learner, "regression") in covered or learner == "protonet"


@pytest.mark.parametrize("case", COMPARED)
def test_the_compiled_loop_writes_the_ledger_of_the_plain_one(case: Case) -> None:
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


def test_the_cases_are_not_trivial() -> None:
    rows = {str(case): plain(case).ledger for case in CASES}
    ended = [row for ledger in rows.values() for row in ledger if row.ended]
    last = max(row.round for row in ended)
    assert {True, False} == {row.mastered for row in ended}
    assert {0, last} < {row.round for row in ended if row.mastered}, "at zero shots, at the end and in between"
    assert any(row.pretraining for ledger in rows.values() for row in ledger)
    assert any(not row.ended and row.mastered for ledger in rows.values() for row in ledger), "without advancement"
    assert plain(CASES[11]).seen == [0, 3], "tasks without data, and another behind them"
    assert any(row.received == 5 for row in rows[str(CASES[10])]), "less data than would arrive"
    for case in CASES:
        method = plain(case).method
        start = reference.make_method(case.learner, case.recipe(), START)
        moved = max(float(abs(a - b).max()) for a, b in zip(method.parameters, start.parameters, strict=True))
        assert moved > 3 * case.recipe().meta_rate


# Dispatches


@functools.cache
def in_one_go(case: Case) -> tuple[OnlineState, Record]:
    loop, stream = case.loop(), stream_of(case)
    return ran(loop, stream, started(loop, stream, START), [DISPATCH], str(case))


@given(rounds=st.lists(st.integers(1, 2 * DISPATCH), min_size=1, max_size=8))
@example(rounds=[1])
def test_dispatches_of_any_size_give_the_same_bits(rounds: list[int]) -> None:
    for case in (CASES[0], CASES[3]):
        loop, stream = case.loop(), stream_of(case)
        same_bits(ran(loop, stream, started(loop, stream, START), rounds, str(case)), in_one_go(case))
        assert TRACES[str(case)] == 1


def same_bits(one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("rounds", [0, -1])
def test_no_rounds_change_nothing(rounds: int) -> None:
    loop, stream = SPLIT.loop(), stream_of(SPLIT)
    state = started(loop, stream, START)
    after, _, count = run(loop, stream, state, RUN, counted(rounds), str(SPLIT))
    assert int(count) == 0
    same_bits(after, state)


def test_at_the_end_of_the_stream_nothing_is_left_to_run() -> None:
    loop, stream = SPLIT.loop(), stream_of(SPLIT)
    state, _ = in_one_go(SPLIT)
    after, _, count = run(loop, stream, state, RUN, counted(3), str(SPLIT))
    assert int(count) == 0
    same_bits(after, state)


# Draws: a learner that only writes down what it is given


class Recorder(Learner):
    """Its state is everything it was given; its output is the sum of 2^row over the support, which says what it is."""

    updates: int = eqx.field(static=True)

    @property
    def wants(self) -> Any:
        return frozenset({"episodes", "batch", "current", "memory"})

    def init(self, key: Any) -> Any:
        return {"number": jnp.zeros((), jnp.int32), "drawn": None, "float": jnp.zeros(())}

    def update(self, state: Any, drawn: Drawn, key: Any) -> Any:
        kept = jax.tree.map(lambda all_, one: all_.at[state["number"]].set(one), state["drawn"], drawn)
        return state | {"number": state["number"] + 1, "drawn": kept}, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        codes = (2.0**support.x).reshape(support.size, -1).sum(axis=1)
        return jnp.full(query.shape[0], jnp.sum(jnp.where(support.present(), codes, 0)))


class Silent:
    """The reference's counterpart: learns nothing."""

    def update(self, drawn: Any, key: Any) -> float:
        return 0.0

    def predict(self, support: Any, inputs: list[Any]) -> Any:
        return reference.Var(np.zeros(len(inputs)))

    def rates(self) -> None:
        return None


def the_output(output: Any, target: Any) -> Any:
    return output


RECORDED = [
    (kind, {"overlap": overlap, "pretrain_tasks": pretrain, "pretrain_steps": 2 * pretrain})
    for kind, overlap, pretrain in [
        (TaskSet, False, 0),
        (TaskSet, True, 1),
        (PairTasks, False, 1),
        (PairTasks, True, 0),
    ]
]


def recorder_rules(**changes: Any) -> Protocol:
    common = {"arrive": 2, "every": 2, "max_steps": 6, "points_per_shot": 1, "max_shots": 4, "validation": 2}
    common |= {"tasks_per_update": 3, "batch": 6, "memory_per_task": 2, "test": 4, "measure": "loss", "advance": False}
    return Protocol(**common | changes)


@functools.cache
def recorded(number: int) -> tuple[Drawn, Record, reference.Run]:
    """Everything drawn in a run, by the compiled loop and by the plain one."""
    kind, changes = RECORDED[number]
    protocol, tasks = recorder_rules(**changes), rows_of(kind)
    stream = make_stream(tasks, protocol, WORLD)
    updates = protocol.every * (stream.positions * protocol.rounds + protocol.pretrain_rounds)
    loop = OnlineLoop(Recorder(updates), protocol, the_output, False, dispatch=DISPATCH)
    state = loop.start(stream, START)
    wants, zero = loop.learner.wants, jnp.zeros((), jnp.int32)
    shapes = jax.eval_shape(lambda: state.buffer.draw(stream, protocol, wants, zero, START))
    room = jax.tree.map(lambda leaf: jnp.zeros((updates, *leaf.shape), leaf.dtype), shapes)
    state = eqx.tree_at(lambda s: s.learner["drawn"], state, room, is_leaf=lambda leaf: leaf is None)
    state, records = ran(loop, stream, state, [DISPATCH])
    result = reference.run(reference.make_world(tasks, protocol, WORLD), protocol, Silent(), False, RUN)
    assert int(state.learner["number"]) == len(result.draws)
    return jax.tree.map(np.asarray, state.learner["drawn"]), records, result


def rows_in(shots: Any, *index: int) -> list[Any]:
    """The rows of what is present, as the reference writes them."""
    x = shots.x[index][: int(shots.count[index])].astype(int)
    return x.tolist() if x.ndim == 1 else [tuple(pair) for pair in x.tolist()]


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_the_draws_are_those_of_the_plain_loop(number: int) -> None:
    drawn, records, result = recorded(number)
    for update, expected in enumerate(result.draws):
        for name in ("batch", "current", "memory"):
            rows = [row for row, _, _ in getattr(expected, name)]
            assert rows_in(getattr(drawn, name), update) == rows, name
        for task, (_, train, val) in enumerate(expected.episodes):
            assert rows_in(drawn.episodes.train, update, task) == [row for row, _, _ in train]
            assert rows_in(drawn.episodes.val, update, task) == [row for row, _, _ in val]
    codes = [float(sum((2.0 ** np.asarray(row)).sum() for row, _, _ in support)) for support in result.supports]
    assert records.loss.tolist() == codes
    assert records.shots.tolist() == [len(support) for support in result.supports]


@pytest.mark.parametrize(("number", "most_shots"), [(2, 2), (3, 4)])
def test_everything_drawn_from_pairs_is_balanced(number: int, most_shots: int) -> None:
    drawn, _, result = recorded(number)
    seen = Counter()
    parts = {"train": drawn.episodes.train, "val": drawn.episodes.val}
    parts |= {"batch": drawn.batch, "current": drawn.current, "memory": drawn.memory}
    for name, shots in parts.items():
        present = np.arange(shots.y.shape[-1]) < shots.count[..., None]
        assert (2 * (shots.y * present).sum(axis=-1) == shots.count).all(), name
        seen[name] = int(shots.count.max())
    for support in result.supports:  # the same as the compiled loop's, by the test above
        assert 2 * sum(y for _, _, y in support) == len(support)
        seen["support"] = max(seen["support"], len(support))
    assert seen == {"train": most_shots, "val": 2, "batch": 6, "current": 6, "memory": 6, "support": 4}


# Draws: properties for whatever has been received


@functools.cache
def property_stream(kind: type[TaskSet], overlap: bool) -> tuple[Stream, Protocol]:
    protocol = recorder_rules(overlap=overlap, max_steps=8, validation=4 if kind is PairTasks else 3)
    return make_stream(rows_of(kind), protocol, WORLD), protocol


def buffer_of(received: list[int], order: list[int]) -> Buffer:
    """Counts at four positions; those with data were seen in this order."""
    seen = [p for p in order if received[p]]
    unseen = [p for p in order if not received[p]]
    return Buffer(
        jnp.asarray(received, jnp.int32), jnp.asarray(seen + unseen, jnp.int32), jnp.asarray(len(seen), jnp.int32)
    )


@eqx.filter_jit
def many_draws(stream: Stream, protocol: Protocol, buffer: Buffer, position: Any, keys: Any) -> Any:
    wants = frozenset({"episodes", "batch", "current", "memory"})
    draws = jax.vmap(lambda key: buffer.draw(stream, protocol, wants, position, key))(keys)
    supports = jax.vmap(lambda key: buffer.support(stream, protocol, position, key))(keys)
    return draws, supports


def many_more_draws(stream: Stream, protocol: Protocol, buffer: Buffer) -> Any:
    """Forty times as many, in NumPy, for position 2."""
    parts = [
        many_draws(stream, protocol, buffer, jnp.asarray(2), keys)
        for keys in jax.random.split(RUN, 40 * DRAWS).reshape(40, DRAWS)
    ]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


DRAWS = 100
COUNTS = st.lists(st.integers(0, 4), min_size=4, max_size=4).filter(any)


@pytest.mark.parametrize("kind", [TaskSet, PairTasks])
@pytest.mark.parametrize("overlap", [False, True])
@given(
    halves=COUNTS,
    odd=st.booleans(),
    order=st.permutations(range(4)),
    position=st.integers(0, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=15)
def test_draws_hold_what_has_been_received_and_nothing_else(
    kind: type[TaskSet], overlap: bool, halves: list[int], odd: bool, order: list[int], position: int, seed: int
) -> None:
    stream, protocol = property_stream(kind, overlap)
    unit = stream.tasks.unit
    received = [max(0, 2 * half - (odd and unit == 1)) for half in halves]
    if not any(received):
        return
    keys = jax.random.split(jax.random.key(seed), DRAWS)
    draws, supports = jax.tree.map(
        np.asarray, many_draws(stream, protocol, buffer_of(received, order), jnp.asarray(position), keys)
    )
    # Of pairs the same one can be drawn into two places, so a row stands for every place it is at.
    given_rows = np.asarray(stream.given).tolist()

    def arrived(p: int, limit: int) -> Counter[Any]:
        return Counter(tuple(row) if isinstance(row, list) else row for row in given_rows[p][: min(limit, received[p])])

    everything = sum((arrived(p, 99) for p in range(4)), Counter())
    memory = sum((arrived(p, protocol.memory_per_task) for p in range(position)), Counter())
    for draw in range(8):
        for task in range(protocol.tasks_per_update):
            train, val = (rows_in(part, draw, task) for part in (draws.episodes.train, draws.episodes.val))
            homes = [p for p in range(4) if set(train + val) <= set(arrived(p, 99))]
            assert len(homes) >= 1, "of one task, and only of what it has received"
            most = max(received[p] for p in homes)
            assert len(train) <= min(most if overlap else most // 2, protocol.max_shots)
            assert 1 <= len(val) <= protocol.validation
            assert any(
                (not overlap and not Counter(train + val) - arrived(p, 99))  # distinct and disjoint
                or (overlap and not Counter(train) - arrived(p, 99) and not Counter(val) - arrived(p, 99))
                for p in homes
            )
        assert len(rows_in(draws.batch, draw)) == protocol.batch
        assert set(rows_in(draws.batch, draw)) <= set(everything)
        assert len(rows_in(draws.current, draw)) == protocol.batch
        own = arrived(position, 99) if received[position] else everything  # in pretraining all tasks are current
        assert set(rows_in(draws.current, draw)) <= set(own)
        assert len(rows_in(draws.memory, draw)) == (protocol.batch if memory else 0)
        assert set(rows_in(draws.memory, draw)) <= set(memory)
        support = rows_in(supports, draw)
        assert len(support) == min(received[position] // protocol.points_per_shot, protocol.max_shots)
        assert not Counter(support) - arrived(position, 99)
        if unit == 2:
            parts = [(draws.batch, draw), (draws.current, draw), (draws.memory, draw), (supports, draw)]
            parts += [(one, (draw, task)) for one in (draws.episodes.train, draws.episodes.val) for task in range(3)]
            for shots, index in parts:
                labels = shots.y[index][: int(shots.count[index])]
                assert 2 * labels.sum() == len(labels)


def uniform(counts: Any) -> bool:
    return bool(chisquare(counts).pvalue > 1e-4)


@pytest.mark.parametrize("kind", [TaskSet, PairTasks])
@pytest.mark.parametrize("overlap", [False, True])
def test_tasks_are_uniform_over_those_seen_and_shots_over_their_range(kind: type[TaskSet], overlap: bool) -> None:
    stream, protocol = property_stream(kind, overlap)
    buffer = buffer_of([4, 0, 8, 2], [2, 0, 1, 3])
    draws, _ = many_more_draws(stream, protocol, buffer)
    train, val = draws.episodes.train, draws.episodes.val
    reference_row = val.x[..., 0] if kind is TaskSet else val.x[..., 0, 0]
    task = (reference_row // 12).astype(int)  # rows 12 j .. 12 j + 11 are of task j
    seen = {int(stream.order[position]): count for position, count in ((0, 4), (2, 8), (3, 2))}
    assert set(np.unique(task)) == set(seen)
    assert uniform([(task == one).sum() for one in seen])
    for one, received in seen.items():
        largest = min(received if overlap else received // 2, protocol.max_shots)
        possible = list(range(0, largest + 1, stream.tasks.unit))
        shots = train.count[task == one]
        assert set(shots) == set(possible)
        assert len(possible) == 1 or uniform([(shots == k).sum() for k in possible])


@pytest.mark.parametrize("overlap", [False, True])
def test_every_datapoint_is_as_likely_a_shot_a_validation_point_and_in_the_batch(overlap: bool) -> None:
    stream, protocol = property_stream(TaskSet, overlap)
    received = [3, 0, 8, 1]
    draws, supports = many_more_draws(stream, protocol, buffer_of(received, [2, 0, 3, 1]))
    order = np.asarray(stream.given)
    of_task = {p: order[p, : received[p]] for p in range(4)}
    for part in (draws.episodes.train, draws.episodes.val, supports):
        x, count = np.asarray(part.x).reshape(-1, part.x.shape[-1]), np.asarray(part.count).reshape(-1)
        present = x[np.arange(x.shape[1]) < count[:, None]]
        assert uniform([(present == row).sum() for row in of_task[2]])
    assert uniform([(np.asarray(draws.batch.x) == row).sum() for p in (0, 2, 3) for row in of_task[p]])
    assert uniform([(np.asarray(draws.current.x) == row).sum() for row in of_task[2]])
    assert uniform([(np.asarray(draws.memory.x) == row).sum() for row in of_task[0][: protocol.memory_per_task]])
    assert set(np.unique(draws.memory.x)) == set(of_task[0][: protocol.memory_per_task].tolist())


@pytest.mark.parametrize("validation", [1, 20])
@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=9, max_size=9), received=st.integers(1, 8))
@settings(max_examples=15)
def test_an_episode_is_right_for_all_bits_there_can_be(validation: int, bits: list[int], received: int) -> None:
    """Ties and the largest numbers among them; with a cap on validation that binds, and one that never does."""
    stream, _ = property_stream(TaskSet, False)
    protocol = recorder_rules(validation=validation, max_shots=20, max_steps=8)
    one = _episode(stream, protocol, jnp.asarray(1), jnp.asarray(received), jnp.asarray(bits, jnp.uint32))
    world = reference.World(1, [0], [[(row, 0, 0) for row in np.asarray(stream.given[1]).tolist()]], [])
    arrived = world.given[0][:received]
    shots = bits[0] % (received // 2 + 1)
    order = [row for row, _, _ in reference.shuffled(arrived, bits[1:], 1)]
    assert rows_in(one.train) == order[:shots]
    assert rows_in(one.val) == order[shots : shots + validation]


@eqx.filter_jit
def _episode(stream: Stream, protocol: Protocol, position: Any, received: Any, bits: Any) -> Any:
    return episode(stream, protocol, position, received, bits)


@pytest.mark.parametrize("kind", [TaskSet, PairTasks])
def test_no_test_data_is_ever_given(kind: type[TaskSet]) -> None:
    stream, _ = property_stream(kind, False)
    given_rows, tested = np.asarray(stream.given), np.asarray(stream.test)
    assert not set(given_rows.ravel().tolist()) & set(tested.ravel().tolist())
    for position, task in enumerate(np.asarray(stream.order)):
        own = [
            set(rows[..., 0].ravel().tolist() if kind is PairTasks else rows.tolist())
            for rows in (
                given_rows[position],
                tested[position],
            )
        ]
        assert own[0] <= set(np.asarray(stream.tasks.given[task]).tolist())
        assert own[1] <= set(np.asarray(stream.tasks.held[task]).tolist())
    if kind is TaskSet:
        assert all(len(set(rows)) == len(rows) for rows in [*given_rows.tolist(), *tested.tolist()])


def test_a_stream_is_fixed_by_its_key_and_orders_tasks_at_random() -> None:
    protocol = recorder_rules(tasks=3)
    streams = [make_stream(rows_of(TaskSet), protocol, jax.random.key(seed)) for seed in (0, 0, 1)]
    same_bits(streams[0], streams[1])
    orders = {tuple(stream.order.tolist()) for stream in streams}
    assert len(orders) > 1
    assert all(len(set(order)) == 3 and set(order) <= set(range(4)) for order in orders)


# Numbers that are not finite


class Poisoned(Learner):
    """Its weight and its output are given numbers from the fifth update on."""

    weight: Any
    output: Any

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return {"updates": jnp.zeros((), jnp.int32), "weight": jnp.ones(())}

    def update(self, state: Any, drawn: Drawn, key: Any) -> Any:
        updates = state["updates"] + 1
        return {"updates": updates, "weight": jnp.where(updates < 5, 1.0, self.weight)}, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jnp.full((query.shape[0], 3), jnp.where(state["updates"] < 5, 1.0, self.output))


@pytest.mark.parametrize(("weight", "output"), [(1.0, np.nan), (np.nan, 1.0), (np.inf, 1.0)])
def test_a_number_that_is_not_finite_stops_the_loop_at_its_round(weight: float, output: float) -> None:
    protocol, stream = dataclasses.replace(SPLIT.protocol(), advance=False), stream_of(SPLIT)
    learner = Poisoned(jnp.asarray(weight), jnp.asarray(output))
    loop = OnlineLoop(learner, protocol, cross_entropy, True, dispatch=DISPATCH)
    state, records = ran(loop, stream, started(loop, stream, START), [3, DISPATCH])
    # Three updates in rounds 1 to 3 of the first task, round 0 of the second, then updates 4 and 5.
    assert not state.finite
    assert (records.position[-1], records.round[-1], int(state.rounds)) == (1, 2, 7)
    assert len(records.loss) == 7
    assert np.isfinite(records.loss[:-1]).all()
    assert np.isfinite(records.loss[-1]) == np.isfinite(output)
    after, _, count = run(loop, stream, state, RUN, counted(3))
    assert int(count) == 0
    same_bits(after, state)


# Wrong input


@pytest.fixture
def _as_a_user_runs_it() -> Iterator[None]:
    """The test run's type checking would answer first; a user has none."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


BAD_PROTOCOLS = [
    *(({name: wrong}, name) for name in ("arrive", "every", "updates", "max_steps") for wrong in (0, -1, 1.5, True)),
    *(({name: 0}, name) for name in ("max_shots", "points_per_shot", "tasks_per_update", "validation", "batch")),
    *(({name: 0}, name) for name in ("memory_per_task", "test")),
    *(({name: -1}, name) for name in ("pretrain_tasks", "pretrain_steps")),
    *(({"threshold": wrong}, "threshold") for wrong in (float("nan"), float("inf"), 0.0, -0.5, 1.5)),
    ({"measure": "precision"}, "measure"),
    ({"tasks": 0}, "tasks"),
    ({"tasks": 3, "pretrain_tasks": 3, "pretrain_steps": 10}, "tasks"),
    ({"pretrain_tasks": 3}, "pretrain"),
    ({"pretrain_steps": 3}, "pretrain"),
]


@pytest.mark.usefixtures("_as_a_user_runs_it")
@pytest.mark.parametrize(("changes", "name"), BAD_PROTOCOLS, ids=str)
def test_wrong_rules_are_refused_with_one_sentence(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name) as caught:
        Protocol(**changes)
    check_sentence(caught.value, changes)


@pytest.mark.parametrize("changes", [{"threshold": -1.0}, {"threshold": 7.0}])
def test_a_threshold_for_the_loss_can_be_any_number(changes: dict[str, Any]) -> None:
    assert Protocol(measure="loss", **changes).threshold == changes["threshold"]


def check_sentence(error: Exception, changes: dict[str, Any]) -> None:
    told = str(error)
    assert "\n" not in told
    assert len(told) < 200
    assert any(str(value) in told for value in changes.values())


class NeverDrawn(TaskSet):
    """Work has begun once rows are drawn."""

    def draw(self, *_: Any) -> Any:
        raise AssertionError("rows were drawn before the input was checked")


class PairsNeverDrawn(NeverDrawn):
    @property
    def unit(self) -> int:
        return 2


BAD_STREAMS = [
    (NeverDrawn, {"tasks": 5}, "tasks is 5"),
    (NeverDrawn, {"pretrain_tasks": 4, "pretrain_steps": 1}, "pretrain_tasks is 4"),
    (NeverDrawn, {"test": 5}, "test is 5"),
    *((PairsNeverDrawn, {name: 3}, f"{name} must be a multiple of 2") for name in ("arrive", "max_shots")),
    *((PairsNeverDrawn, {name: 3}, f"{name} must be a multiple of 2") for name in ("validation", "test")),
]


@pytest.mark.usefixtures("_as_a_user_runs_it")
@pytest.mark.parametrize(("kind", "changes", "told"), BAD_STREAMS, ids=str)
def test_rules_that_do_not_fit_the_tasks_are_refused(kind: type[TaskSet], changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        make_stream(rows_of(kind), recorder_rules(**changes), WORLD)
    check_sentence(caught.value, changes)


def test_pairs_of_a_single_class_are_refused() -> None:
    tasks = rows_of(PairTasks).select([1])
    with pytest.raises(InputError, match="single task left"):
        make_stream(tasks, recorder_rules(), WORLD)


def test_accuracy_cannot_be_asked_for_in_a_regression() -> None:
    case = Case("toe", regression, (("advance", True), ("measure", "accuracy"), ("threshold", 0.5)))
    with pytest.raises(InputError, match="measure must be 'loss'"):
        case.loop()


def test_learners_that_there_are_not_or_that_need_classes_are_refused() -> None:
    recipe = Case("toe", regression).recipe()
    with pytest.raises(InputError, match=r"'maml'.*ftml-vs"):
        make_learner("maml", recipe, regression().example())
    with pytest.raises(InputError, match="regression"):
        make_learner("protonet", recipe, regression().example())


# Any learner, and what it reports


def small_loop(name: str, network: Callable[..., Any] = small_mlp) -> tuple[OnlineLoop, Stream]:
    case = Case(name, classification)
    learner = make_learner(name, dataclasses.replace(case.recipe(), network=network), case.tasks().example())
    return OnlineLoop(learner, case.protocol(), cross_entropy, True, DISPATCH), stream_of(case)


class Right(Learner):
    """Is right about the first `count` of the test examples."""

    count: Any

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return jnp.zeros(())

    def update(self, state: Any, drawn: Drawn, key: Any) -> Any:
        return state, {"loss": state}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        right = jax.nn.one_hot(jnp.zeros(query.shape[0], int), 2)
        return jnp.where((jnp.arange(query.shape[0]) < self.count)[:, None], right, 1 - right)


class Integers(Right):
    """A learner whose state has no floating-point number."""

    def init(self, key: Any) -> Any:
        return jnp.zeros((), jnp.int32)

    def update(self, state: Any, drawn: Drawn, key: Any) -> Any:
        return state + 1, {"loss": jnp.zeros(())}


def test_a_state_may_have_no_floats() -> None:
    loop, stream = small_loop("toe")
    loop = OnlineLoop(Integers(jnp.asarray(0)), loop.protocol, cross_entropy, True, DISPATCH)
    assert int(run(loop, stream, loop.start(stream, START), RUN, counted(2))[2]) == 2


@pytest.mark.parametrize(("name", "number"), [("ftml-vs-closed-form", "beta"), ("ftml-vs+meta-sgd", "eta")])
def test_the_learned_rule_is_recorded(name: str, number: str) -> None:
    learner = Case(name, classification).loop().learner
    assert number in learner.rates(learner.init(START))


# Found by this comparison, and put right


@pytest.mark.parametrize(("threshold", "test"), [(0.85, 100), (0.8, 100), (0.86, 50)])
def test_an_accuracy_of_exactly_the_threshold_is_enough(threshold: float, test: int) -> None:
    right = round(threshold * test)
    rows = np.arange(4 * test).reshape(2, -1)
    x, y = np.zeros((4 * test, 1)), np.zeros(4 * test, np.int32)
    tasks = TaskSet("zeros", x, y, rows[:, test:], rows[:, :test], ("a", "b")).on_device()
    protocol = Protocol(max_steps=1, threshold=threshold, test=test)
    stream = make_stream(tasks, protocol, WORLD)
    found = []
    for count in (right - 1, right):
        loop = OnlineLoop(Right(jnp.asarray(count)), protocol, cross_entropy, True, DISPATCH)
        found.append(bool(run(loop, stream, loop.start(stream, START), RUN, counted(1))[1].mastered[0]))
    assert found == [False, True]


def test_agem_learns_in_pretraining() -> None:
    case = next(case for case in CASES if case.learner == "a-gem" and case.protocol().pretrain_tasks)
    loop, stream = case.loop(), stream_of(case)
    before = started(loop, stream, START)
    after, records, _ = run(loop, stream, before, RUN, counted(2), str(case))
    assert records.pretraining[:2].all()
    assert not np.array_equal(after.learner.model.layers[0].weight, before.learner.model.layers[0].weight)


def test_protonet_knows_the_previous_task_when_the_next_one_arrives() -> None:
    case = CASES[8]
    loop, stream = case.loop(), stream_of(case)
    state = started(loop, stream, START)
    while int(state.position) == 0 or int(state.round) == 0:  # to just behind round 0 of the second task
        state, records, _ = run(loop, stream, state, RUN, counted(1), str(case))
    assert (int(records.position[0]), int(records.round[0])) == (1, 0)
    assert int(state.learner.remembered.count) > 0
    assert abs(float(records.loss[0]) - np.log(3)) > 1e-9, "all prototypes are the origin"


def equinox_mlp(key: Any, outputs: int) -> Any:
    return eqx.nn.MLP(4, outputs, 6, 1, key=key)


@pytest.mark.parametrize("name", ["toe", "ftml-vs"])
def test_a_network_may_have_leaves_that_are_not_arrays(name: str) -> None:
    loop, stream = small_loop(name, equinox_mlp)
    state = loop.start(stream, START)
    assert int(run(loop, stream, state, RUN, counted(2))[2]) == 2


@pytest.mark.usefixtures("_as_a_user_runs_it")
@pytest.mark.parametrize(
    ("changes", "name"),
    [
        *(({"threshold": wrong}, "threshold") for wrong in ("high", None)),
        *(({"tasks": wrong}, "tasks") for wrong in (2.5, True, "5")),
        *(({name: "no"}, name) for name in ("advance", "overlap")),
    ],
    ids=str,
)
def test_more_wrong_rules_are_refused(changes: dict[str, Any], name: str) -> None:
    test_wrong_rules_are_refused_with_one_sentence(changes, name)


@pytest.mark.usefixtures("_as_a_user_runs_it")
@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        (PairsNeverDrawn, {"batch": 3}, "batch must be a multiple of 2"),
        (PairsNeverDrawn, {"memory_per_task": 3}, "memory_per_task must be a multiple of 2"),
    ],
    ids=str,
)
def test_more_rules_that_do_not_fit_the_tasks_are_refused(
    kind: type[TaskSet], changes: dict[str, Any], told: str
) -> None:
    test_rules_that_do_not_fit_the_tasks_are_refused(kind, changes, told)


@pytest.mark.usefixtures("_as_a_user_runs_it")
def test_tasks_without_anything_to_give_are_refused() -> None:
    rows = np.arange(8).reshape(2, 4)
    tasks = NeverDrawn("nothing", np.zeros(8), np.zeros(8, np.int32), rows[:, :0], rows, ("a", "b"))
    with pytest.raises(InputError, match="given"):
        make_stream(tasks, recorder_rules(), WORLD)


@pytest.mark.usefixtures("_as_a_user_runs_it")
@pytest.mark.parametrize("dispatch", [0, -1, 1.5, True])
def test_a_dispatch_is_at_least_one_round(dispatch: Any) -> None:
    loop = Case("toe", classification).loop()
    with pytest.raises(InputError, match="dispatch"):
        dataclasses.replace(loop, dispatch=dispatch)
