"""The cost model of docs/scaling.md: how it follows tasks, shots, networks and devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anyshot import make_experiment
from anyshot.runs.cost import Cost, Hardware, predict_cost
from tests.support.refusals import assert_refused

MACHINE = Hardware(1e10, 1e-3, 1e-4, bandwidth=1e9, latency=1e-5, reads=1e4, read_bandwidth=1e9)


def predict(devices: int = 1, hardware: Hardware = MACHINE, **changes: Any) -> Cost:
    settings = {"protocol.tasks_per_update": 24} | {name.replace("__", "."): value for name, value in changes.items()}
    return predict_cost(make_experiment("sinusoid", "ftml-vs", settings=settings), devices, hardware)


@pytest.mark.medium
def test_the_cost_follows_what_it_depends_on() -> None:
    one, two, five = (predict(devices) for devices in (1, 2, 5))
    assert (one.compute / two.compute, one.compute / five.compute) == (
        pytest.approx(2),
        pytest.approx(24 / 5, rel=0.05),
    )
    assert one.reduce == 0 < two.reduce < five.reduce
    assert one.fixed == two.fixed
    assert predict(protocol__tasks_per_update=48).compute == pytest.approx(2 * one.compute)
    assert predict(network__hidden=(80, 80)).compute > 3 * one.compute
    assert predict(learner__inner_steps=10).compute > one.compute
    assert predict(learner__batching="together").device_bytes > predict(8, learner__batching="together").device_bytes
    slow = predict(hardware=replace(MACHINE, reads=10.0))
    assert slow.seconds == slow.read == pytest.approx(24 / 10)


@pytest.mark.medium
def test_what_has_no_meta_batch_or_no_device_is_refused() -> None:
    assert_refused(lambda: predict_cost(make_experiment("sinusoid", "toe"), 1, MACHINE), ["experiment", "toe"])
    assert_refused(lambda: predict(0), ["devices", "0"])
