"""A process that runs legs one after another: orders come as lines on standard input, answers go to standard output.

It saves and ends when its standard input does, so it does not outlive the sweep that has started it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time

from anyshot.sweeps.execute import Order, execute

GRACE = 60.0  # seconds in which a run may finish its chunk and save; compiling cannot be interrupted


def main() -> None:
    """Run the legs that are ordered."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed on the way goes to the log
    signal.signal(signal.SIGINT, signal.default_int_handler)
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    try:
        while line := orders.get():
            kind, why = execute(Order.from_json(line))
            try:
                print(json.dumps([kind, why]), file=answers, flush=True)
            except BrokenPipeError:  # nobody is there any more
                break
            if kind == "stopped":
                break
    except KeyboardInterrupt:
        pass
    os._exit(0)  # nothing is left to be done, and JAX takes its time


def _listen(orders: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        orders.put(line)
    orders.put("")
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()
