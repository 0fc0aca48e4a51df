"""All commands in one tyro app, and the completion scripts that tyro makes of it."""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import tyro
from tyro.extras import SubcommandApp

from anyshot import __version__
from anyshot.cli.bench import bench
from anyshot.cli.compare import compare, report
from anyshot.cli.data import data
from anyshot.cli.demo import demo
from anyshot.cli.listing import learners, presets
from anyshot.cli.run import resume, run_preset
from anyshot.cli.sweep import sweep
from anyshot.cli.watch import watch
from anyshot.errors import InputError
from anyshot.runs.presets import PRESETS

ABOUT = (
    "Learn a sequence of related tasks with as few labels as possible.\n"
    "`anyshot COMMAND --help` explains a command; `anyshot --version` prints the version.\n"
    "Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted."
)
ABOUT_RUN = (
    "Run an experiment: a learner on the tasks of a preset, online or offline.\n\n"
    "The run folder holds the settings, a log of all evaluations, and checkpoints. A run that was stopped or killed "
    "goes on exactly where it was when the same command is given again, or --resume with its folder."
)
ABOUT_PRESET = "`anyshot presets PRESET` lists the settings that --set can change, with their values and meaning."
# Bash completes file names where tyro's script has nothing to offer, as in `anyshot compare runs/`.
BASH_FILES = """
_anyshot() { _tyro_anyshot; if [[ -z ${COMPREPLY[0]} ]]; then COMPREPLY=(); fi; }
complete -o default -F _anyshot anyshot"""
Shell = Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]


def completion(shell: Shell) -> None:
    """Print a script that makes a shell complete commands, presets, options and their values.

    bash: add `eval "$(anyshot completion bash)"` to ~/.bashrc. zsh: run `anyshot completion zsh > ~/.zfunc/_anyshot`,
    and add `fpath+=~/.zfunc` to ~/.zshrc before compinit. fish: run `anyshot completion fish >
    ~/.config/fish/completions/anyshot.fish`. Repeat this after an upgrade.

    Args:
        shell: that the script is for.
    """
    try:
        _make_app([]).cli(prog="anyshot", args=["--tyro-write-completion", shell, "-"])
    except SystemExit:  # this is how tyro ends
        if shell == "bash":
            print(BASH_FILES)


COMMANDS: dict[str, tuple[Callable[..., Any] | None, str]] = {
    "demo": (demo, "compare six methods on embedded data in about three minutes"),
    "run": (None, "run an experiment, or go on with one that was stopped"),
    "sweep": (sweep, "run a grid, a list or a search of experiments, here or on a Ray cluster"),
    "compare": (compare, "print a table that compares runs"),
    "watch": (watch, "show the curves of runs in the terminal while they run"),
    "report": (report, "write a page with tables and figures about runs"),
    "data": (None, "list, fetch, verify and show task sets"),
    "presets": (presets, "list the presets, or all settings of one"),
    "learners": (learners, "list the learners, or the hyperparameters of one"),
    "bench": (bench, "measure the time of an update and of an online step"),
    "completion": (completion, "print a completion script for bash, zsh or fish"),
}


def run_app(words: list[str]) -> None:
    """Parse the words and run the command. Unknown commands and presets are refused with the nearest one."""
    if words == ["--version"]:
        print(f"anyshot {__version__}")
        return
    if words in ([], ["run"]):
        try:
            run_app([*words, "--help"])
        except SystemExit:
            sys.exit(2)
    command, *rest = words
    if not command.startswith("-") and command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"there is no command {command!r}; {hint}there are {', '.join(COMMANDS)}")
    if command == "run" and not rest[0].startswith("-"):
        PRESETS.find(rest[0])
    _make_app(words).cli(prog="anyshot", description=ABOUT, args=words, config=(tyro.conf.FlagCreatePairsOff,))


def _make_app(words: list[str]) -> SubcommandApp:
    """The app. Lists of commands have one line for each; the one that is called keeps its whole docstring."""
    app = SubcommandApp()
    groups = {"run": (_make_run_app(words[1:]), ABOUT_RUN), "data": (data, "")}
    for name, (function, summary) in COMMANDS.items():
        called = words[:1] == [name]
        if function is not None:
            app.command(name=name, help=None if called else summary)(function)
        else:
            group, about = groups[name]
            app.command(group, name=name, help=about if called and about else summary)
    return app


def _make_run_app(words: list[str]) -> SubcommandApp:
    """`anyshot run`: one command for each preset, so that shells complete them and help lists them."""
    app = SubcommandApp()
    for name, summary in PRESETS.summaries().items():
        about = f"{name}: {summary}.\n\n{ABOUT_PRESET}" if words[:1] == [name] else summary
        app.command(name=name, help=about)(functools.partial(run_preset, name))
    app.command(name="--resume")(resume)
    return app
