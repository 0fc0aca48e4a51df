"""`anyshot run`: an online experiment from a preset, or one that was left."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro

from anyshot.cli.listing import listed
from anyshot.errors import InputError
from anyshot.learners.names import LEARNERS
from anyshot.learners.numbers import Numbers
from anyshot.online.protocol import Protocol
from anyshot.runs.presets import PRESETS, preset
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


@dataclass(frozen=True)
class Options:
    """One run.

    Attributes:
        out: the run folder (required): new, empty, or of this very experiment, which then goes on.
        learner: the method.
        seed: of the stream, the weights and every draw; methods with the same seed get the same stream.
        data: what is learned from.
        network: the model.
        numbers: how the method learns.
        protocol: the rules of the online setting.
        device: where to compute; auto takes a GPU if JAX finds one.
        checkpoint_seconds: how often to save, at least.
        quiet: print nothing but errors.
        dry_run: print what would be run and stop.
    """

    out: Path | None = None
    learner: Literal[tuple(LEARNERS)] = "ftml-vs"
    seed: int = 0
    data: Data = field(default_factory=Data)
    network: Network = field(default_factory=Network)
    numbers: Numbers = field(default_factory=Numbers)
    protocol: Protocol = field(default_factory=Protocol)
    device: Literal["auto", "cpu", "gpu"] = "auto"
    checkpoint_seconds: float = 60.0
    quiet: bool = False
    dry_run: bool = False


def main(words: list[str]) -> None:
    """Run the command."""
    if not words or words[0] in ("-h", "--help"):
        print(HELP.format(presets=listed({n: told for n, (_, told) in PRESETS.items()}), learners=listed(LEARNERS)))
        sys.exit(0 if words else 2)
    if words[0] == "--resume":
        resume = tyro.cli(Resume, args=words, prog="anyshot run")
        _run(resume.options())
        return
    name = words[0]
    if name.startswith("-"):
        raise InputError(f"a preset must come first, got {name!r}; there are {', '.join(PRESETS)}")
    parts = dict(preset(name))
    _run(
        tyro.cli(
            Options, args=words[1:], default=Options(**parts), prog=f"anyshot run {name}", description=PRESETS[name][1]
        )
    )


@dataclass(frozen=True)
class Resume:
    """Go on with a run.

    Attributes:
        resume: its folder.
        device: where to compute.
        checkpoint_seconds: how often to save, at least.
        quiet: print nothing but errors.
    """

    resume: Path
    device: Literal["auto", "cpu", "gpu"] = "auto"
    checkpoint_seconds: float = 60.0
    quiet: bool = False

    def options(self) -> Options:
        """The options of the run that is in the folder."""
        from anyshot.runs.folder import read_experiment

        found = read_experiment(self.resume)
        parts = dict(settings_from(found["settings"]))
        how = {name: getattr(self, name) for name in ("device", "checkpoint_seconds", "quiet")}
        return Options(out=self.resume, learner=found["learner"], seed=found["seed"], **parts, **how)


def _run(options: Options) -> None:
    settings = settings_from({part: getattr(options, part) for part in Settings.model_fields})
    if not 0 <= options.checkpoint_seconds < float("inf"):
        raise InputError(f"checkpoint_seconds must be a finite number of at least 0, got {options.checkpoint_seconds}")
    if options.out is None:
        raise InputError("--out is missing; give a new or empty folder for the run, such as --out runs/first")
    say = (lambda line: None) if options.quiet else _say
    if options.dry_run:
        _describe(options, settings)
        return
    say(f"{options.learner} on {settings.data.name}, seed {options.seed}: starting JAX")
    _use_device(options.device, settings.numbers.tasks)
    from anyshot.runs.experiment import Experiment
    from anyshot.runs.online import run_online

    experiment = Experiment(settings, options.learner, options.seed)
    try:
        ledger = run_online(
            experiment,
            options.out,
            checkpoint_seconds=options.checkpoint_seconds,
            watch=Progress(say),
            warn=lambda sentence: print(f"anyshot: warning: {sentence}", file=sys.stderr, flush=True),
        )
    except KeyboardInterrupt:
        print(f"anyshot: saved; go on with: anyshot run --resume {options.out}", file=sys.stderr)
        raise
    say(
        f"done: {ledger.mastered} of {len(ledger.tasks)} tasks mastered with {ledger.labels:,} labels, "
        f"cumulative loss {ledger.cumulative_loss:,.1f}; run folder: {options.out}"
    )


class Progress:
    """A line for what takes long, and for every task that has ended."""

    def __init__(self, say: Any) -> None:
        self.say = say
        self.spoken = time.monotonic()

    def __call__(self, what: str, news: dict[str, Any]) -> None:
        """Say what is worth saying."""
        if what == "compiling":
            self.say("compiling (10 to 60 seconds the first time)")
        elif what == "compiled":
            self.say(f"compiled in {news['seconds']:.0f} s")
        elif what == "evaluated" and (news.get("ended") or time.monotonic() - self.spoken > 10):
            self.spoken = time.monotonic()
            self.say(_told(news))


def _told(news: dict[str, Any]) -> str:
    if "pretraining" in news:
        return f"pretraining: loss {news.get('train_loss', float('nan')):.3f}"
    score = f"accuracy {news['accuracy']:.2f}" if "accuracy" in news else f"loss {news['loss']:.3f}"
    state = ("mastered" if news["mastered"] else "given up") if news["ended"] else "so far"
    return (
        f"task {news['position'] + 1} ({news['task']}): {state} at step {news['step']} with {news['labels']} labels, "
        f"{score}; in all {news['total_labels']:,} labels, loss {news['total_loss']:,.1f}"
    )


def _say(line: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


def _use_device(device: str, tasks: str) -> None:
    import jax

    from anyshot.devices import use_cpu_cores

    if device != "auto":
        jax.config.update("jax_platforms", {"cpu": "cpu", "gpu": "cuda"}[device])
    on_cpu = device == "cpu" or (device == "auto" and not _has_gpu())
    if on_cpu and tasks != "together":
        use_cpu_cores()
    try:
        jax.devices()
    except RuntimeError as error:
        raise InputError(f"device is {device!r}, but JAX finds none: {str(error).splitlines()[0]}") from error


def _has_gpu() -> bool:
    """Whether there is an NVIDIA GPU that JAX could use, found without starting JAX."""
    from importlib.util import find_spec

    return Path("/proc/driver/nvidia/version").exists() and any(
        find_spec(name) for name in ("jax_cuda13_plugin", "jax_cuda12_plugin")
    )


def _describe(options: Options, settings: Settings) -> None:
    print(f"learner {options.learner}, seed {options.seed}, run folder {options.out}")
    for part, values in settings.model_dump(mode="json").items():
        for name, value in values.items():
            print(f"  {part}.{name} = {value}")
    protocol = settings.protocol
    steps, labels = protocol.rounds * protocol.every, protocol.rounds * protocol.arrive
    print(f"each task: at most {steps:,} steps, {labels:,} labels, {protocol.rounds + 1:,} evaluations")
