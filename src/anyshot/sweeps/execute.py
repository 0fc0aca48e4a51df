"""Running one leg in this process, wherever that is."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anyshot.errors import DataError, DivergedError, InputError, RunError
from anyshot.runs.interrupts import delay_interrupts, reveal_interrupts
from anyshot.runs.lock import Locked
from anyshot.sweeps.plan import Leg
from anyshot.sweeps.trials import Candidate, Trial

PATIENCE = 120.0  # seconds to wait for the process that had a run before, which a lost node or driver leaves behind
Kind = Literal["done", "diverged", "failed", "stopped"]


@dataclass(frozen=True)
class Ended:
    """What became of a leg.

    Attributes:
        leg: that was run.
        kind: done; diverged, if a loss was not finite; failed; or stopped, because it was asked to.
        why: one sentence, unless it is done.
    """

    leg: Leg
    kind: Kind
    why: str = ""


@dataclass(frozen=True)
class Order:
    """A leg and how to run it, as sent to other processes."""

    leg: Leg
    out: str
    device: str
    checkpoint_seconds: float

    def to_json(self) -> str:
        """As one line."""
        trial = self.leg.trial
        candidate = trial.candidate
        made_of = [candidate.experiment, candidate.learner, candidate.changes, trial.seed, self.leg.until]
        return json.dumps([*made_of, self.out, self.device, self.checkpoint_seconds])

    @classmethod
    def from_json(cls, line: str) -> Order:
        """What `to_json` wrote."""
        experiment, learner, changes, seed, until, *how = json.loads(line)
        return cls(Leg(Trial(Candidate(experiment, learner, changes), seed), until), *how)


def execute(order: Order) -> tuple[Kind, str]:
    """Run a leg and say what became of it, with the reason in one sentence."""
    try:
        with reveal_interrupts():
            _run(order)
    except KeyboardInterrupt:
        return "stopped", "it was asked to stop"
    except DivergedError as error:
        return "diverged", str(error)
    except (DataError, InputError, RunError, OSError) as error:
        return "failed", str(error)
    except Exception as error:  # own code, or a device without memory
        import traceback

        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return "done", ""


def _run(order: Order) -> None:
    with delay_interrupts():
        import jax

        from anyshot.runs.running import run

    if order.device != "auto":
        jax.config.update("jax_platforms", {"cpu": "cpu", "gpu": "cuda"}[order.device])
    trial, until = order.leg.trial, time.monotonic() + PATIENCE
    experiment = trial.candidate.make(trial.seed)
    while True:
        try:
            run(
                experiment,
                Path(order.out) / trial.name,
                progress=False,
                checkpoint_seconds=order.checkpoint_seconds,
                until_tasks=order.leg.until,
                warn=_warn,
            )
            return
        except Locked:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def _warn(sentence: str) -> None:
    print(f"anyshot: warning: {sentence}", file=sys.stderr, flush=True)
