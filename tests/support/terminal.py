"""A program on a terminal of its own, with keys that a person types."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# A new session whose terminal this is, so that Ctrl-C typed there is a signal.
START = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """Runs a program on a new terminal.

    Args:
        words: the program and its arguments.
        environment: its environment variables.
        folder: its current folder.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.handle, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"TERM": "xterm", "COLUMNS": "100", "LINES": "40", **environment},
            cwd=folder,
        )
        os.close(theirs)
        self.raw = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *how: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.handle)

    @property
    def shown(self) -> str:
        """All text so far, without colours and movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", self.raw)

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.handle, keys.encode())

    def read(self, seconds: float) -> bool:
        """Read what is there within some seconds; False at the end of the program."""
        if not select.select([self.handle], [], [], seconds)[0]:
            return True
        try:
            self.raw += os.read(self.handle, 65536).decode(errors="replace")
        except OSError:  # nobody holds the other side any more
            return False
        return True

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Read until a text is shown."""
        end = time.monotonic() + seconds
        while text not in self.shown and text not in " ".join(self.shown.split()):  # a terminal may have wrapped it
            assert time.monotonic() < end, f"{text!r} never came: {self.shown}"
            assert self.read(0.1), f"it ended without {text!r}: {self.shown}"

    def wait(self, seconds: float = 60) -> int:
        """Read until the program ends, and give its exit code."""
        end = time.monotonic() + seconds
        while self.read(0.1):
            assert time.monotonic() < end, self.shown
        return self.process.wait(seconds)
