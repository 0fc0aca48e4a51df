"""`anyshot offline`: meta-training on some tasks and a test on unseen ones, from a preset, or one that was left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from anyshot.cli import progress
from anyshot.cli.running import How, RunFolder, carried_out, chosen, folder
from anyshot.learners.names import OFFLINE_LEARNERS
from anyshot.learners.numbers import Numbers
from anyshot.offline.plan import Plan
from anyshot.runs.offline_presets import OFFLINE_PRESETS
from anyshot.runs.settings import Data, Network, OfflineSettings, offline_settings_from

HELP = """usage: anyshot offline PRESET --out DIR [--learner NAME] [--seed N] [--any.setting VALUE ...]
       anyshot offline --resume DIR

Meta-train on the training tasks with shots drawn from 0 to M, stop when validation tasks show nothing better, and test
on unseen tasks with given numbers of shots. The run folder is as that of `anyshot run`, and goes on as it does.

presets (`anyshot offline PRESET --help` shows all settings):
{presets}

learners:
{learners}"""


@dataclass(frozen=True, kw_only=True)
class Options(How):
    """One run.

    Attributes:
        out: the run folder: new, empty, or of this very experiment, which then goes on.
        learner: the method.
        seed: of the weights and every draw; methods with the same seed are tested on the same episodes.
        data: what is learned from.
        network: the model.
        numbers: how the method learns.
        plan: the rules of the offline setting.
        dry_run: print what would be run, about how much memory and time it would need, and stop.
    """

    out: RunFolder = None
    learner: Literal[tuple(OFFLINE_LEARNERS)] = "maml-vs"
    seed: int = 0
    data: Data = field(default_factory=Data)
    network: Network = field(default_factory=Network)
    numbers: Numbers = field(default_factory=Numbers)
    plan: Plan = field(default_factory=Plan)
    dry_run: bool = False


def main(words: list[str]) -> None:
    """Run the command."""
    options = chosen(words, "offline", HELP, OFFLINE_PRESETS, OFFLINE_LEARNERS, Options, offline_settings_from)
    settings = offline_settings_from({part: getattr(options, part) for part in OfflineSettings.model_fields})
    out, learner, seed = folder(options.out), options.learner, options.seed
    if options.dry_run:
        from anyshot.cli.dry_run import describe

        describe(learner, seed, out, settings)
        return

    def run(**how: Any) -> list[dict[str, Any]]:
        from anyshot.runs.offline import run_offline
        from anyshot.runs.offline_experiment import OfflineExperiment

        return run_offline(OfflineExperiment(settings, learner, seed), out, **how)

    def shown() -> Training:
        return Training(f"{learner}, seed {seed}", settings.plan, quiet=options.quiet)

    test = carried_out("anyshot offline", out, options, (learner, seed, settings), shown, run)
    options.say(f"done: {_scores(test)}; run folder: {out}")


class Training(progress.Progress):
    """Tells how meta-training is getting on.

    Args:
        name: what is run, such as "maml-vs, seed 0".
        plan: its rules.
        quiet: say nothing.
    """

    def __init__(self, name: str, plan: Plan, *, quiet: bool = False) -> None:
        super().__init__(name, plan.rounds * plan.every, quiet=quiet)
        self.plan = plan

    def __call__(self, what: str, news: dict[str, Any]) -> None:
        """Tell what is worth telling."""
        if what == "testing":
            self._tell(f"testing on {news['tasks']} unseen tasks")
        elif what == "tested":
            self._tell(f"testing: {news['episodes']:,} episodes of each number of shots so far", progress.SELDOM)
        else:
            super().__call__(what, news)

    def _evaluated(self, news: dict[str, Any]) -> None:
        if "test" in news:
            return  # all of them are told at the end
        step = news["step"]
        if self.first is None:
            self.first = step - self.plan.every
        left = self.left((step - self.first) / (self.tasks - self.first))
        until = f", at most {progress.about(left)} left" if left else ""
        score = f"validation score {news['score']:.3f}" if "score" in news else f"loss {news['train_loss']:.3f}"
        better = " (the best so far)" if news["better"] and "score" in news else ""
        if self.bar is not None:
            self.bar.update(self.row, completed=step, told=f"step {step:,} of {self.tasks:,}, {score}{until}")
            return
        self._tell(
            f"step {step:,} of {self.tasks:,}: {score}{better}{until}", 0.0 if news["ended"] else progress.SELDOM
        )


def _scores(test: Sequence[dict[str, Any]]) -> str:
    """What came out, in a line."""
    told = [
        f"{100 * one['accuracy']:.1f} ± {100 * one['accuracy_error']:.1f} % with {one['shots']}"
        if "accuracy" in one
        else f"loss {one['loss']:.3f} ± {one['loss_error']:.3f} with {one['shots']}"
        for one in test
    ]
    return f"{', '.join(told)} shots on unseen tasks ({test[0]['episodes']:,} episodes each)"
