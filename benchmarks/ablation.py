"""What each part of the learner `anyshot` is worth.

    python -m benchmarks.ablation rainbow-digits 10 3     # the preset, the first seed, and how many seeds
    python -m benchmarks.ablation table                   # the table of all results so far, paired by seed

Each variant leaves out experts, or the learning of their powers. Results are JSON lines in benchmarks/out. What is
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
from anyshot.learners.anyshot import FIRST, Anyshot
from anyshot.learners.pool import Powers
from anyshot.runs.records import OnlineSummary

OUT = Path(__file__).parent / "out" / "ablation.jsonl"
SETTINGS = {"rainbow-digits": {"protocol.threshold": 0.7}}
NONE = -40.0  # the logarithm of the power of an expert that is left out


class Ablated(Anyshot):
    """The learner without some of its parts.

    Attributes:
        without: the experts that are left out.
        learns: whether the powers are learned.
        mean: whether the pool is the mean of the probabilities, weighed by the powers, instead of their product.
    """

    without: tuple[int, ...] = eqx.field(static=True, default=())
    learns: bool = eqx.field(static=True, default=True)
    mean: bool = eqx.field(static=True, default=False)

    def init(self, key: Any) -> Any:
        """As always, but for the powers."""
        state = super().init(key)
        left_out = jnp.isin(jnp.arange(len(FIRST)), jnp.asarray(self.without, jnp.int32))
        log = jnp.where(left_out, NONE, state.powers.log)
        return dataclasses.replace(state, powers=Powers(log, state.powers.count))

    def observe(self, state: Any, expected: Any, arrived: Any) -> Any:
        """Learn the powers, if wanted."""
        return super().observe(state, expected, arrived) if self.learns else state

    def combine(self, state: Any, support: Any, expected: Any) -> Any:
        """The pool, or the mean."""
        if not self.mean:
            return super().combine(state, support, expected)
        weights = jnp.log(state.powers.at(support.count))
        return jax.nn.logsumexp(expected + jax.nn.log_softmax(weights)[:, None], axis=1)


VARIANTS: dict[str, dict[str, Any]] = {
    "anyshot": {},
    "without FTML-VS": {"without": (0,)},
    "without ridge-head": {"without": (1,)},
    "without the kernel": {"without": (2,)},
    "FTML-VS alone": {"without": (1, 2)},
    "ridge-head alone": {"without": (0, 2)},
    "the kernel alone": {"without": (0, 1)},
    "powers not learned": {"learns": False},
    "mean of probabilities": {"learns": False, "mean": True},
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
