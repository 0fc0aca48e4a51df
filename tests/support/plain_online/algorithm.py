"""Algorithm 1: all tasks of a stream, one after another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tests.support.plain_online.methods import IncrementalProtoNet
from tests.support.plain_online.parts import mean_of_losses
from tests.support.plain_online.world import (
    Drawn,
    Points,
    World,
    draw,
    draw_flat,
    draw_support,
    with_all_classes,
)


@dataclass
class Row:
    """The result of one round."""

    position: int
    round: int
    received: int
    shots: int
    loss: float
    accuracy: float
    mastered: bool
    ended: bool
    pretraining: bool
    train_loss: float  # mean over the round's updates, NaN without any
    rates: list[float] | None


@dataclass
class Run:
    """Everything that happened."""

    method: Any
    buffer: list[Points]
    seen: list[int]
    ledger: list[Row]
    draws: list[Drawn]  # of every update
    supports: list[Points]  # of every evaluation


def run(world: World, protocol: Any, method: Any, classification: bool, key: Any) -> Run:
    """Run a method, which is one of `methods` or anything that can update, predict and give its rates."""
    positions, first = len(world.order), protocol.pretrain_tasks
    buffer = [list(world.train[p]) if p < first else [] for p in range(positions)]
    result = Run(method, buffer, list(range(first)), [], [], [])

    def a_round(t: int, number: int, learning: bool, pretraining: bool) -> Row:
        of_updates, of_evaluation = jax.random.split(jax.random.fold_in(key, len(result.ledger)))
        losses = []
        if learning:
            for one in jax.random.split(of_updates, protocol.steps_per_arrival * protocol.updates_per_step):
                of_draw, of_update = jax.random.split(one)
                drawn = draw(world, buffer, result.seen, t, protocol, of_draw)
                losses.append(float(method.update(drawn, of_update)))
                result.draws.append(drawn)
        if isinstance(method, IncrementalProtoNet):
            remembered = [points[: protocol.memory_per_task] for points in buffer[:t]]
            method.recall(draw_flat(world, remembered, protocol.batch_size, jax.random.fold_in(of_evaluation, 1)))
        support = draw_support(world, buffer[t], protocol, of_evaluation)
        adapted_on = support
        if protocol.borrow:
            adapted_on = with_all_classes(world, buffer[:t], support, jax.random.fold_in(of_evaluation, 2))
        test = world.draw_test(jax.random.fold_in(of_evaluation, 3), t) if protocol.fresh_test else world.test[t]
        outputs = method.predict(adapted_on, [x for _, x, _ in test])
        labels = [y for _, _, y in test]
        loss = float(mean_of_losses(outputs, labels, classification).value)
        accuracy = math.nan
        if classification:
            right = [int(np.argmax(o)) == int(y) for o, y in zip(outputs.value, labels, strict=True)]
            accuracy = sum(right) / len(right)
        proficient = accuracy >= protocol.threshold if protocol.measure == "accuracy" else loss <= protocol.threshold
        given_up = number >= math.ceil(protocol.max_steps / protocol.steps_per_arrival)
        ended = not pretraining and ((proficient and protocol.advance) or given_up)
        mean = sum(losses) / len(losses) if losses else math.nan
        row = Row(
            t,
            number,
            len(buffer[t]),
            len(support),
            loss,
            accuracy,
            proficient,
            ended,
            pretraining,
            mean,
            method.rates(),
        )
        result.ledger.append(row)
        result.supports.append(support)
        return row

    for _ in range(math.ceil(protocol.pretrain_steps / protocol.steps_per_arrival)):
        a_round(first, 0, learning=True, pretraining=True)
    for t in range(first, positions):
        number = 0
        row = a_round(t, number, learning=False, pretraining=False)  # zero shots, on arrival
        while not row.ended:
            number += 1
            arriving = world.train[t][len(buffer[t]) : len(buffer[t]) + protocol.labels_per_arrival]
            if not buffer[t]:
                result.seen.append(t)
            buffer[t] += arriving
            row = a_round(t, number, learning=True, pretraining=False)
    return result
