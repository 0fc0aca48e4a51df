"""What each part of the learner `anyshot` is worth.

    python -m benchmarks.ablation rainbow-digits 10 3     # the preset, the first seed, and how many seeds
    python -m benchmarks.ablation table                   # the table of all results so far, paired by seed

Each variant leaves out one expert, or one way of learning weights. Results are JSON lines in benchmarks/out. What is
there already is not run again.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy import stats  # type: ignore[import-untyped]

import anyshot
from anyshot.learners.anyshot import Anyshot
from anyshot.learners.mixture import Weights
from anyshot.runs.records import OnlineSummary

OUT = Path(__file__).parent / "out" / "ablation.jsonl"
SETTINGS = {"rainbow-digits": {"protocol.threshold": 0.7}}
NONE = -40.0  # the logarithm of the weight of an expert that is left out


class Ablated(Anyshot):
    """The learner without some of its parts.

    Attributes:
        without: the experts that are left out.
        learns_prior: whether the weights to start a task with are learned from tasks.
        weighs: whether the weights follow the labels of a task.
    """

    without: tuple[int, ...] = eqx.field(static=True, default=())
    learns_prior: bool = eqx.field(static=True, default=True)
    weighs: bool = eqx.field(static=True, default=True)

    def init(self, key: Any) -> Any:
        """As always, but for the weights."""
        state = super().init(key)
        return self._start(state, state.log_prior)

    def observe(self, state: Any, expected: Any, arrived: Any) -> Any:
        """Weigh the experts, if wanted."""
        return super().observe(state, expected, arrived) if self.weighs else state

    def end_task(self, state: Any) -> Any:
        """Learn the weights to start with, if wanted."""
        ended = super().end_task(state)
        return self._start(ended, ended.log_prior if self.learns_prior else state.log_prior)

    def _start(self, state: Any, log_prior: Any) -> Any:
        left_out = jnp.isin(jnp.arange(len(log_prior)), jnp.asarray(self.without, jnp.int32))
        log_prior = jax.nn.log_softmax(jnp.where(left_out, NONE, log_prior))
        return dataclasses.replace(state, log_prior=log_prior, weights=Weights.start(log_prior))


VARIANTS: dict[str, dict[str, Any]] = {
    "anyshot": {},
    "without FTML-VS": {"without": (0,)},
    "without ridge-head": {"without": (1,)},
    "without linear, 1": {"without": (2,)},
    "without linear, 0.1": {"without": (3,)},
    "without both linear": {"without": (2, 3)},
    "both linear alone": {"without": (0, 1)},
    "first weights not learned over tasks": {"learns_prior": False},
    "weights not learned in a task": {"weighs": False},
}


def measure(preset: str, variant: str, seed: int) -> dict[str, Any]:
    plain = anyshot.make_experiment(preset, "anyshot", seed, SETTINGS.get(preset))
    assert isinstance(plain.learner, Anyshot)
    learner = Ablated(plain.learner.spec, plain.learner.hyper, **VARIANTS[variant])
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = anyshot.run(anyshot.Experiment(plain.tasks, learner, plain.protocol, seed=seed), folder, progress=False)
        summary = run.summary
        assert isinstance(summary, OnlineSummary), "the preset is online, and the run has ended"
    seconds = round(time.perf_counter() - started, 1)
    found = {"loss": summary.total_loss, "labels": summary.total_labels, "mastered": summary.mastered}
    return {"preset": preset, "variant": variant, "seed": seed, **found, "seconds": seconds}


def print_table() -> None:
    results = pd.DataFrame([json.loads(line) for line in OUT.read_text().splitlines()])
    for preset, of_preset in results.groupby("preset"):
        losses = of_preset.pivot(index="seed", columns="variant", values="loss")
        means = of_preset.groupby("variant")[["labels", "mastered"]].mean()
        print(f"{preset}: loss, its difference to anyshot with a 95 % interval, labels, tasks mastered")
        for variant in [name for name in VARIANTS if name in losses]:
            difference = (losses[variant] - losses["anyshot"]).dropna()
            half = stats.t.ppf(0.975, len(difference) - 1) * difference.std() / np.sqrt(len(difference))
            print(
                f"  {variant:38s} {losses[variant].mean():8.0f}  {difference.mean():+8.0f} ± {half:.0f}"
                f"  {means['labels'][variant]:8.0f}  {means['mastered'][variant]:.1f}  ({len(difference)} seeds)"
            )


def main() -> None:
    if sys.argv[1:] == ["table"]:
        print_table()
        return
    preset, first, seeds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    OUT.parent.mkdir(exist_ok=True)
    lines = OUT.read_text().splitlines() if OUT.exists() else []
    done = {(line["preset"], line["variant"], line["seed"]) for line in map(json.loads, lines)}
    for seed in range(first, first + seeds):
        for variant in VARIANTS:
            if (preset, variant, seed) not in done:
                found = measure(preset, variant, seed)
                print(found, flush=True)
                with OUT.open("a") as file:
                    file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
