"""The command `anyshot`: thin, quick to answer, one sentence for every error."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; exit code 0: done, 1: could not be done, 2: asked for wrongly, 130: interrupted."""
    import tyro

    from anyshot import __version__
    from anyshot.cli.data import data
    from anyshot.errors import DataError, InputError

    app = tyro.extras.SubcommandApp()
    app.command(data, name="data", help="the task sets: list, fetch, verify, show")
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"anyshot {__version__}")
        return
    try:
        app.cli(prog="anyshot", description="Learn a sequence of related tasks with as few labels as possible.")
    except InputError as error:
        _end(error, 2)
    except DataError as error:
        _end(error, 1)
    except KeyboardInterrupt:
        _end("interrupted", 130)
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _end(why: object, code: int) -> None:
    print(f"anyshot: {why}", file=sys.stderr)
    sys.exit(code)
