"""The command `anyshot`: thin, quick to answer, one sentence for every error."""

from __future__ import annotations

import difflib
import os
import sys
from importlib import import_module

from anyshot.cli.interrupts import delivered, undisguised

COMMANDS = {
    "demo": "three methods side by side in about two minutes: no data, no GPU; a table and a report",
    "run": "run an online experiment: tasks one after another, labels a few at a time; save, resume",
    "offline": "meta-train on some tasks, test on unseen ones with zero, one and more shots; save, resume",
    "compare": "compare methods on the same streams: a table with paired differences",
    "reproduce": "the paper's tables and figures: run what is missing, print ours beside the paper's",
    "watch": "the curves of runs in the terminal, while they run",
    "report": "a page with table and figures about runs, which needs no network",
    "data": "the task sets: list, fetch, verify, show",
    "presets": "the experiments that can be run by name",
    "learners": "the methods, and where in the paper they are",
    "bench": "time the meta-gradient and an online step on this machine",
    "completion": "a script that makes bash, zsh or fish complete commands, presets, learners and options",
}
HELP = """usage: anyshot COMMAND ...

Learn a sequence of related tasks with as few labels as possible.

commands:
{commands}

`anyshot COMMAND --help` says more; `anyshot --version` prints the version.
exit codes: 0 done, 1 could not be done, 2 asked for wrongly, 130 interrupted."""


def main() -> None:
    """Run the command line."""
    words = sys.argv[1:]
    try:
        with delivered(), undisguised():
            _dispatch(words)
        if sys.stdout is not None:  # it is None if it was closed before the start
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as stop:
        _end(str(stop) or "interrupted", 130)
    except Exception as error:
        from anyshot.errors import DataError, InputError, RunError

        if isinstance(error, InputError):
            _end(error, 2)
        if isinstance(error, (DataError, RunError, OSError)):
            _end(error, 1)
        raise


def _dispatch(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help", "help"):
        from anyshot.cli.listing import listed

        print(HELP.format(commands=listed(COMMANDS)))
        if not words:
            sys.exit(2)
    elif words == ["--version"]:
        from anyshot import __version__

        print(f"anyshot {__version__}")
    elif words[0] in COMMANDS:
        import_module(f"anyshot.cli.{words[0]}").main(words[1:])
    else:
        near = difflib.get_close_matches(words[0], COMMANDS, 1)
        _end(f"there is no command {words[0]!r}; " + (f"did you mean {near[0]}?" if near else "see anyshot --help"), 2)


def _end(why: object, code: int) -> None:
    print(f"anyshot: {why}", file=sys.stderr)
    sys.exit(code)
