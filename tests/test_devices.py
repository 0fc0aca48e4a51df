"""All cores of a CPU compute what one computes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.devices import replicate, use_cpu_cores
from tests.support.refusals import assert_refused

pytestmark = pytest.mark.medium

ON_CORES = """
import sys
import equinox as eqx, jax, numpy as np
jax.config.update("jax_enable_x64", True)
from anyshot.adaptation import MetaObjective, Update
from anyshot.devices import use_cpu_cores
from anyshot.rates import Scaled
from anyshot.shots import Episodes, Shots, stack_tasks
from anyshot.networks import MLP

cores = int(sys.argv[1])
assert use_cpu_cores(cores) == cores
assert len(jax.local_devices()) == cores
draw = np.random.default_rng(0)
def tasks(counts):
    return stack_tasks([Shots.of(draw.normal(size=(n, 2)), draw.integers(0, 3, n), size=2) for n in counts])
episodes = Episodes(tasks([1, 0, 2, 1, 2]), tasks([1, 2, 2, 1, 2]))  # five tasks: one core has none in the last round
objective = MetaObjective(Update(steps=2), batching="in turn")
result = eqx.filter_jit(objective.value_and_grad)(MLP((2, 4, 3), key=jax.random.key(0)), Scaled(0.3), episodes)
for leaf in jax.tree.leaves(result):
    print(*(float(number).hex() for number in np.asarray(leaf).reshape(-1)))
"""


def test_two_cores_compute_what_one_computes() -> None:
    """In processes of their own, as cores must be asked for before JAX starts."""
    quick_compile = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    running = [
        subprocess.Popen([sys.executable, "-c", ON_CORES, cores], env=quick_compile, stdout=subprocess.PIPE, text=True)
        for cores in ("1", "2")
    ]
    one, two = (process.communicate()[0] for process in running)
    assert [process.returncode for process in running] == [0, 0]
    ours, theirs = ([[float.fromhex(n) for n in row.split()] for row in text.splitlines()] for text in (two, one))
    assert len(ours) == len(theirs) == 1 + 4 + 2  # the loss, two layers of weight and bias, log β and log η
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert max(abs(n) for row in ours[1:] for n in row) > 1e-3


@pytest.mark.parametrize("cores", [0, -1, 1.5, "2", True])
def test_a_number_of_cores_that_cannot_be_is_refused(cores: Any) -> None:
    assert_refused(lambda: use_cpu_cores(cores), ["cores", "at least 1", repr(cores)])


def test_cores_must_be_asked_for_before_jax_starts() -> None:
    jnp.zeros(1)
    assert_refused(lambda: use_cpu_cores(3), ["use_cpu_cores(3)", "before the first JAX computation"])


def test_on_one_device_nothing_is_replicated() -> None:
    tree = {"array": jnp.ones(2), "other": "text"}
    assert replicate(tree) is tree
