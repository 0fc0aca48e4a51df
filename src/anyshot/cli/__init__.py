"""The command `anyshot`, a thin layer over the Python API."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from anyshot.errors import DataError, InputError, RunError


def main(words: Sequence[str] | None = None) -> None:
    """Run a command. It returns if the command succeeds, and exits with another code than 0 if not.

    Args:
        words: the command and its options; by default those of the process.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before the process started
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    code = _run(list(sys.argv[1:] if words is None else words)) or _flush()
    if code:
        sys.exit(code)


def _run(words: list[str]) -> int:
    """Run a command and give its exit code. An error is one sentence on standard error."""
    from anyshot.runs.interrupts import redeliver_interrupts, reveal_interrupts

    try:
        with redeliver_interrupts(), reveal_interrupts():
            from anyshot.cli.app import run_app

            run_app(words)
    except SystemExit as end:  # from tyro: after a help text, or words that it cannot parse
        return end.code if isinstance(end.code, int) else 0
    except BrokenPipeError:  # the reader of the output, `head` for example, has ended
        _discard_output()
    except KeyboardInterrupt as stop:
        return _explain(str(stop) or "interrupted", 130)
    except InputError as error:
        return _explain(error, 2)
    except (DataError, RunError, OSError) as error:
        return _explain(error, 1)
    return 0


def _flush() -> int:
    """Write what was printed to the end, which may fail as well."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _discard_output()
        return 0 if isinstance(error, BrokenPipeError) else _explain(error, 1)
    return 0


def _explain(why: object, code: int) -> int:
    from anyshot.report.words import printable  # a name in the message may hold control characters

    print(f"anyshot: {printable(str(why))}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """Python writes the rest when the process ends; let it go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
