"""Rounds over a `HostStream`: while the device computes one, a thread draws and reads what the next may need.

What a round needs is known before it begins, except for one thing: whether the task before it ended. So both cases are
prepared: the next round of the same task, and the first round of the next task, which only needs the test data.
"""

from __future__ import annotations

import functools
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from anyshot.devices import compiler_options
from anyshot.online.buffer import Buffer
from anyshot.online.host_stream import HostStream, RoundData, host_device
from anyshot.online.loop import OnlineLoop, OnlineState, Record
from anyshot.rounds import all_finite


class Moment(NamedTuple):
    """Where a run is before a round.

    Args:
        position: of the current task.
        round: the number of the round within the task.
        rounds: the number of the round within the run.
    """

    position: int
    round: int
    rounds: int


class _Ready(NamedTuple):
    buffer: Buffer
    received: int
    data: RoundData  # on the device


class _Found(NamedTuple):
    loss: Float[Array, ""]
    right: Int[Array, ""]
    mastered: Bool[Array, ""]
    finite: Bool[Array, ""]
    metrics: dict[str, Float[Array, ""]]
    rates: dict[str, Float[Array, "..."]]


class HostRounds:
    """Runs rounds of a loop; call it as `OnlineLoop.run` is called.

    Args:
        loop: the learner and the rules.
        stream: over stored tasks.
        key: of the run.
    """

    def __init__(self, loop: OnlineLoop, stream: HostStream, key: Key[Array, ""]) -> None:
        self.loop, self.stream, self.key = loop, stream, jax.device_put(key, host_device())
        # All draws are made in the thread, which does not know of `share_tasks`: they belong to one core.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="anyshot-reader")
        self._ahead: dict[Moment, Future[_Ready]] = {}

    def __call__(self, state: OnlineState, rounds: int) -> tuple[OnlineState, Record | None, int]:
        """Run up to `rounds` rounds. With none, only compile; the record is then empty."""
        learner, expected = state.learner, state.expected
        found, finite = list[Record](), bool(state.finite)
        now = Moment(int(state.position), int(state.round), int(state.rounds))
        buffer = jax.device_put(state.buffer, host_device())
        if rounds == 0 and not self._is_over(now):
            self._run(now, learner, expected, self._take(now, buffer).data)
        while len(found) < min(rounds, self.loop.dispatch) and finite and not self._is_over(now):
            ready = self._take(now, buffer)
            buffer = ready.buffer
            self._read_ahead(now, buffer)
            learner, expected, result = self._run(now, learner, expected, ready.data)
            result = jax.device_get(result)
            finite = bool(result.finite)
            record = self._record(now, ready, result)
            found.append(record)
            now = _after(now, bool(record.ended), bool(record.pretraining))
        position, round_, number = (jnp.asarray(one, jnp.int32) for one in now)
        state = OnlineState(learner, buffer, position, round_, number, jnp.asarray(finite), expected)
        records = jax.tree.map(lambda *leaves: np.stack(leaves), *found) if found else None
        return state, records, len(found)

    def _run(self, now: Moment, learner: PyTree[Any], expected: Any, data: RoundData) -> Any:
        may_end, must_end = not self._pretrains(now), now.round >= self.loop.protocol.rounds
        facts = (jnp.asarray(fact) for fact in (self._learns(now), may_end, must_end))
        return _compiled_round()(self.loop, learner, expected, data, *facts)

    def _is_over(self, now: Moment) -> bool:
        return now.position >= self.stream.positions

    def _pretrains(self, now: Moment) -> bool:
        return now.rounds < self.loop.protocol.pretrain_rounds

    def _learns(self, now: Moment) -> bool:
        return self._pretrains(now) or now.round > 0

    def _take(self, now: Moment, buffer: Buffer) -> _Ready:
        """What was read ahead, or is read now. What was read for another case is dropped."""
        ahead = self._ahead.pop(now, None)
        for dropped in self._ahead.values():
            dropped.cancel()
        self._ahead = {}
        return (ahead or self._thread.submit(self._prepare, now, buffer)).result()

    def _read_ahead(self, now: Moment, buffer: Buffer) -> None:
        """Let the thread prepare each case that may follow."""
        rules, pretrains = self.loop.protocol, self._pretrains(now)
        used_up = now.round >= rules.rounds
        cases = [_after(now, False, pretrains)] if pretrains or not used_up else []
        if not pretrains and (used_up or rules.advance):
            cases.append(_after(now, True, False))
        for case in cases:
            if not self._is_over(case):
                self._ahead[case] = self._thread.submit(self._prepare, case, buffer)

    def _prepare(self, now: Moment, buffer: Buffer) -> _Ready:
        learning, before = self._learns(now), buffer.received[now.position]
        if learning and not self._pretrains(now):
            capacity = self.stream.capacities[now.position]
            buffer = _receive(buffer, np.int32(now.position), self.loop.protocol.labels_per_arrival, capacity)
        data, received = self.stream.read_round(self.loop, buffer, before, now.position, now.rounds, self.key, learning)
        return _Ready(buffer, received, data)

    def _record(self, now: Moment, ready: _Ready, found: Any) -> Record:
        rules, pretraining = self.loop.protocol, self._pretrains(now)
        ended = not pretraining and ((bool(found.mastered) and rules.advance) or now.round >= rules.rounds)
        accuracy = found.right / rules.test_size if self.loop.classification else np.nan
        facts: list[Any] = [
            *(np.int32(number) for number in (now.position, now.round, ready.received, ready.data.support.count)),
            found.loss,
            np.asarray(accuracy, found.loss.dtype),
            found.mastered,
            np.bool_(ended),
            np.bool_(pretraining),
        ]
        return Record._make([*facts, found.metrics, found.rates])


def _after(now: Moment, ended: bool, pretraining: bool) -> Moment:
    """The moment after a round."""
    return Moment(now.position + ended, 0 if ended or pretraining else now.round + 1, now.rounds + 1)


@eqx.filter_jit
def _receive(buffer: Buffer, position: Any, count: int, capacity: Any) -> Buffer:
    return buffer.receive(position, count, capacity)


@functools.cache
def _compiled_round() -> Any:
    def run_round(
        loop: OnlineLoop,
        learner: PyTree[Any],
        expected: Any,
        data: RoundData,
        learning: Bool[Array, ""],
        may_end: Bool[Array, ""],
        must_end: Bool[Array, ""],
    ) -> Any:
        if data.arrived is not None:
            learner = loop.observe(learner, expected, data.arrived)
        learner, metrics = loop.run_updates(learner, (data.drawn, data.keys), lambda step: step, learning)
        if data.memory is not None:
            learner = loop.learner.recall(learner, data.memory)
        if data.upcoming is not None:
            loss, right, expected = loop.evaluate_ahead(learner, data.support, data.test_set, data.upcoming.x)
        else:
            loss, right = loop.evaluate(learner, data.support, data.test_set)
        mastered = loop.masters(loss, right)
        if loop.learner.observes():
            learner = loop.end_task(learner, may_end & ((mastered & loop.protocol.advance) | must_end))
        finite = jnp.isfinite(loss) & all_finite(learner)
        found = _Found(loss, right, mastered, finite, metrics, loop.learner.rates(learner))
        return learner, expected, found

    return eqx.filter_jit(run_round, compiler_options=compiler_options())  # type: ignore[call-overload]
