"""Several devices compute what one computes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.devices import replicate, share_tasks, use_cpu_cores
from tests.support.refusals import assert_refused

pytestmark = pytest.mark.medium

ON_DEVICES = """
import json, sys
import equinox as eqx, jax, numpy as np
from anyshot.adaptation import MetaObjective, Update
from anyshot.devices import replicate, share_tasks
from anyshot.errors import InputError
from anyshot.networks import MLP
from anyshot.rates import Scaled
from anyshot.shots import Episodes, Shots, stack_tasks

draw = np.random.default_rng(0)
def tasks(counts):
    return stack_tasks([Shots.of(draw.normal(size=(n, 2)).astype("f"), draw.integers(0, 3, n), size=2) for n in counts])
counts = [1, 0, 2, 1, 2, 2, 0, 1, 2, 1]  # ten tasks: some devices have none in the last round
episodes, model = Episodes(tasks(counts), tasks([n // 2 + 1 for n in counts])), MLP((2, 4, 3), key=jax.random.key(0))
def compute(devices, batching):
    objective = MetaObjective(Update(steps=2), batching=batching)
    with share_tasks(devices):
        args = replicate((model, Scaled(0.3), episodes))
        loss, gradient = eqx.filter_jit(objective.value_and_grad)(*args)
    assert len(loss.sharding.device_set) == devices
    return [float(loss), *np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(gradient)]).tolist()]
found = {f"{batching} {n}": compute(n, batching) for batching in ("in turn", "together") for n in (1, 2, 4, 8)}
found["again"] = compute(4, "in turn")
try:
    with share_tasks(9): pass
except InputError as error:
    found["refused"] = str(error)
print(json.dumps(found))
"""


def test_one_two_four_and_eight_devices_compute_the_same_gradient() -> None:
    """In a process of its own, as devices of a CPU must be asked for before JAX starts. In float32, as in practice."""
    quick = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=0", "JAX_NUM_CPU_DEVICES": "8"}
    ran = subprocess.run([sys.executable, "-c", ON_DEVICES], env=quick, stdout=subprocess.PIPE, check=True)
    found = json.loads(ran.stdout)
    assert {"devices is 9", "JAX has 8"} <= set(re.findall("devices is 9|JAX has 8", found.pop("refused")))
    assert found.pop("again") == found["in turn 4"]  # bit for bit
    one = np.array(found["in turn 1"])
    assert len(one) == 1 + (2 * 4 + 4) + (4 * 3 + 3) + 2  # the loss, two layers of weight and bias, log β and log η
    assert np.abs(one[1:]).max() > 1e-2
    assert len(found) == 8
    for name, numbers in found.items():
        np.testing.assert_allclose(numbers, one, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("devices", [0, -1, 1.5, "all", True])
def test_a_number_of_devices_that_cannot_be_is_refused(devices: Any) -> None:
    def share() -> None:
        with share_tasks(devices):
            pass

    assert_refused(share, ["devices", "at least 1", repr(devices)])


@pytest.mark.parametrize("cores", [0, -1, 1.5, "2", True])
def test_a_number_of_cores_that_cannot_be_is_refused(cores: Any) -> None:
    assert_refused(lambda: use_cpu_cores(cores), ["cores", "at least 1", repr(cores)])


def test_cores_must_be_asked_for_before_jax_starts() -> None:
    jnp.zeros(1)
    assert_refused(lambda: use_cpu_cores(3), ["use_cpu_cores(3)", "before the first JAX computation"])


def test_on_one_device_nothing_is_replicated() -> None:
    tree = {"array": jnp.ones(2), "other": "text"}
    assert replicate(tree) is tree
