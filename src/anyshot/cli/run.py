"""`anyshot run`: an online experiment from a preset, or one that was left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from anyshot.cli import progress
from anyshot.cli.running import How, RunFolder, carried_out, chosen, folder
from anyshot.learners.names import LEARNERS
from anyshot.learners.numbers import Numbers
from anyshot.online.protocol import Protocol
from anyshot.runs.presets import PRESETS
from anyshot.runs.settings import Data, Network, Settings, settings_from

HELP = """usage: anyshot run PRESET --out DIR [--learner NAME] [--seed N] [--any.setting VALUE ...]
       anyshot run --resume DIR

Run an online experiment: tasks come one after another, labels a few at a time, and the next task begins when this one
is mastered. The run folder holds settings, an event log (one JSON line per evaluation) and checkpoints; a run that was
stopped or killed goes on exactly where it was when the same command, or --resume, is given.

presets (`anyshot run PRESET --help` shows all settings):
{presets}

learners:
{learners}"""


@dataclass(frozen=True, kw_only=True)
class Options(How):
    """One run.

    Attributes:
        out: the run folder: new, empty, or of this very experiment, which then goes on.
        learner: the method.
        seed: of the stream, the weights and every draw; methods with the same seed get the same stream.
        data: what is learned from.
        network: the model.
        numbers: how the method learns.
        protocol: the rules of the online setting.
        dry_run: print what would be run, about how much memory and time it would need, and stop.
    """

    out: RunFolder = None
    learner: Literal[tuple(LEARNERS)] = "ftml-vs"
    seed: int = 0
    data: Data = field(default_factory=Data)
    network: Network = field(default_factory=Network)
    numbers: Numbers = field(default_factory=Numbers)
    protocol: Protocol = field(default_factory=Protocol)
    dry_run: bool = False


def main(words: list[str]) -> None:
    """Run the command."""
    options = chosen(words, "run", HELP, PRESETS, LEARNERS, Options, settings_from)
    settings = settings_from({part: getattr(options, part) for part in Settings.model_fields})
    out, learner, seed = folder(options.out), options.learner, options.seed
    if options.dry_run:
        from anyshot.cli.dry_run import describe

        describe(learner, seed, out, settings)
        return

    def run(**how: Any) -> Any:
        from anyshot.runs.experiment import Experiment
        from anyshot.runs.online import run_online

        return run_online(Experiment(settings, learner, seed), out, **how)

    def shown() -> progress.Progress:
        return progress.Progress(f"{learner}, seed {seed}", progress.tasks_in(settings), quiet=options.quiet)

    ledger = carried_out("anyshot run", out, options, (learner, seed, settings), shown, run)
    options.say(
        f"done: {ledger.mastered} of {len(ledger.tasks)} tasks mastered with {ledger.labels:,} labels, "
        f"cumulative loss {ledger.cumulative_loss:,.1f}; run folder: {out}"
    )
