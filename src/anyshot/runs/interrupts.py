"""Ctrl-C: finish and save first, and keep it where Python would lose it or turn it into something else."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


@contextmanager
def catch_interrupts() -> Iterator[list[int]]:
    """Collect requests to stop (Ctrl-C, SIGTERM) in a list instead of stopping at once. The third one stops at once."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 2:
            raise KeyboardInterrupt

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, which alone gets signals
        yield asked
        return
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Deliver Ctrl-C at the end. An extension module that it reaches while it is imported fails with an ImportError."""
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
def redeliver_interrupts() -> Iterator[None]:
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
def reveal_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt where compiled code has turned it into another error."""
    try:
        yield
    except Exception as error:
        before: BaseException | None = error
        while before is not None:
            if isinstance(before, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            before = before.__cause__ or before.__context__
        raise
