"""Learning in a thread of its own, while predictions go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from anyshot.lifelong.home import Home

IDLE = 0.05  # seconds to wait for labels where there are none


@contextmanager
def learn_in_background(home: Home, pause: float | int, save_every: float | int) -> Iterator[None]:
    """Make updates while the block runs, and save what was learned in the end.

    Args:
        home: of all tasks.
        pause: seconds to rest after each update.
        save_every: seconds between snapshots.
    """
    stopping, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            saved = time.monotonic()
            while not stopping.is_set():
                learning = home.learning
                made = learning.learn(home.labelled, lambda made: made < 1) if learning and home.updates_due else 0
                if time.monotonic() - saved > save_every:
                    home.save()
                    saved = time.monotonic()
                stopping.wait(pause if made else IDLE)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="anyshot-learning", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
    if failures:
        raise failures[0]
    home.save()
