"""What `anyshot run` and `anyshot offline` share: how to run, the tracker, and what to say when it is interrupted."""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro

from anyshot.cli import progress
from anyshot.cli.device import use_device
from anyshot.cli.interrupts import undisguised
from anyshot.cli.listing import listed
from anyshot.errors import InputError
from anyshot.runs.reading import EXPERIMENT, read_experiment
from anyshot.runs.trackers import PACKAGES
from anyshot.runs.tracking import Mirror, params_of

Result = TypeVar("Result")
Options = TypeVar("Options")
Track = Annotated[
    Literal[tuple(PACKAGES)] | None, tyro.conf.arg(metavar="{" + ",".join(PACKAGES) + "}", help_behavior_hint="")
]
RunFolder = Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(required)")]


@dataclass(frozen=True, kw_only=True)
class How:
    """How to run, on which the result does not depend.

    Attributes:
        device: where to compute; auto takes a GPU if JAX finds one.
        checkpoint_seconds: how often to save, at least.
        quiet: print nothing but errors.
        track: also log to this tracker; tensorboard writes into the run folder, mlflow and wandb heed their own
            environment variables (MLFLOW_TRACKING_URI, WANDB_MODE).
    """

    device: Literal["auto", "cpu", "gpu"] = "auto"
    checkpoint_seconds: float = 60.0
    quiet: bool = False
    track: Track = None

    def say(self, line: str) -> None:
        """A line with the time, unless all is to be quiet."""
        if not self.quiet:
            progress.say(line)


@dataclass(frozen=True, kw_only=True)
class Resume(How):
    """Go on with a run that was stopped or killed, from its last checkpoint.

    Attributes:
        resume: its folder.
    """

    resume: Path


def chosen(
    words: list[str],
    command: str,
    told: str,
    presets: Mapping[str, tuple[Any, str]],
    learners: Mapping[str, str],
    options: type[Options],
    settings_of: Callable[[dict[str, Any]], Any],
) -> Options:
    """The options of `anyshot COMMAND PRESET ...`, or of `anyshot COMMAND --resume DIR`; help ends the program.

    Args:
        words: of the command line, behind the command.
        command: its name.
        told: its help, with places for presets and learners.
        presets: settings and a line for each name.
        learners: a line for each name.
        options: a dataclass with the settings' parts among its fields.
        settings_of: reads the settings of a run folder.
    """
    if not words or words[0] in ("-h", "--help"):
        lines = {name: line for name, (_, line) in presets.items()}
        print(told.format(presets=listed(lines), learners=listed(learners)))
        sys.exit(0 if words else 2)
    if words[0] == "--resume":
        return options(**_resumed(tyro.cli(Resume, args=words, prog=f"anyshot {command}"), command, settings_of))
    name = words[0]
    if name.startswith("-"):
        raise InputError(f"a preset must come first, got {name!r}; there are {', '.join(presets)}")
    if name not in presets:
        near = difflib.get_close_matches(name, presets, 1)
        hint = f"did you mean {near[0]}? there are" if near else "there are"
        raise InputError(f"there is no preset {name!r} for anyshot {command}; {hint} {', '.join(presets)}")
    settings, line = presets[name]
    default = options(**dict(settings))
    return tyro.cli(options, args=words[1:], default=default, prog=f"anyshot {command} {name}", description=line)


def _resumed(asked: Resume, command: str, settings_of: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The options of the run in a folder, which must be one of this command's."""
    found = read_experiment(asked.resume)
    right = "offline" if "plan" in found["settings"] else "run"
    if right != command:
        kind = "an offline" if right == "offline" else "an online"
        raise InputError(f"{asked.resume} is {kind} run; go on with: anyshot {right} --resume {asked.resume}")
    how = {one.name: getattr(asked, one.name) for one in fields(How)}
    parts = dict(settings_of(found["settings"]))
    return {"out": asked.resume, "learner": found["learner"], "seed": found["seed"], **parts, **how}


def folder(out: Path | None) -> Path:
    """The run folder, which must be given."""
    if out is None:
        raise InputError("--out is missing; give a new or empty folder for the run, such as --out runs/first")
    return out


def carried_out(
    command: str,
    out: Path,
    how: How,
    experiment: tuple[str, int, Any],
    progress_of: Callable[[], progress.Progress],
    run: Callable[..., Result],
) -> Result:
    """Start JAX and run, showing how it goes on; an interruption says what there is to go on from.

    Args:
        command: that goes on with such a run.
        out: the run folder.
        how: to run.
        experiment: learner, seed and settings.
        progress_of: makes what tells how it is getting on; it may have to look into the task set.
        run: takes `checkpoint_seconds`, `watch` and `warn`; imports what it needs of JAX itself.
    """
    if not 0 <= how.checkpoint_seconds < float("inf"):
        raise InputError(f"checkpoint_seconds must be a finite number of at least 0, got {how.checkpoint_seconds}")
    learner, seed, settings = experiment
    params = params_of(learner, seed, settings.model_dump(mode="json"))
    mirror = Mirror(how.track, out, params, how.say, warn) if how.track else None
    how.say(f"{learner} on {settings.data.name}, seed {seed}: starting JAX")
    last = ""

    def watch(what: str, news: dict[str, Any]) -> None:
        nonlocal last
        last = what
        shown(what, news)
        if mirror:
            mirror(what, news)

    try:
        with undisguised():
            use_device(how.device, settings.numbers.tasks)
            with progress_of() as shown, mirror or nullcontext():
                return run(checkpoint_seconds=how.checkpoint_seconds, watch=watch, warn=warn)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            _interrupted(f"{command} --resume {shlex.quote(str(out))}", out, just_saved=last == "saved")
        ) from None


def warn(sentence: str) -> None:
    """What was wrong and has been healed."""
    print(f"anyshot: warning: {sentence}", file=sys.stderr, flush=True)


def _interrupted(again: str, out: Path, just_saved: bool) -> str:
    """What there is to go on from; the third Ctrl-C, and one while compiling, leave no time to save."""
    if not (out / EXPERIMENT).exists():
        return "interrupted before the run began"
    if just_saved:
        return f"interrupted and saved; go on with: {again}"
    kept = (
        "its last checkpoint" if any((out / "checkpoints").glob("[0-9]*")) else "the beginning: nothing was saved yet"
    )
    return f"interrupted; {again} goes on from {kept}"
