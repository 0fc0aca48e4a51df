"""Ctrl-C at moments when Python would lose it or turn it into something else."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


@contextmanager
def held() -> Iterator[None]:
    """Let Ctrl-C wait until the end: an extension that it reaches while it is imported fails with an ImportError."""
    asked: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    except ValueError:  # not the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def delivered() -> Iterator[None]:
    """Deliver Ctrl-C again if it came inside a callback of the garbage collector, as JAX has one, and was swallowed."""
    before = sys.unraisablehook

    def again(lost: UnraisableHookArgs) -> None:
        if lost.exc_type is KeyboardInterrupt:
            # From another thread and a moment later, or it would come inside this very hook and be lost as well.
            main = threading.main_thread().ident
            threading.Timer(0.02, signal.pthread_kill, [main, signal.SIGINT]).start()
        else:
            before(lost)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def undisguised() -> Iterator[None]:
    """Ctrl-C that compiled code met in a call of Python, and made another error of, is Ctrl-C again."""
    try:
        yield
    except Exception as error:
        before: BaseException | None = error
        while before is not None:
            if isinstance(before, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            before = before.__cause__ or before.__context__
        raise
