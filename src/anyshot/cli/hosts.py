"""Joining the other hosts of a run."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from anyshot.errors import InputError, first_line

SECONDS_TO_JOIN, SECONDS_BETWEEN_LINES = 300.0, 30.0


def join_hosts(hosts: str | tuple[str, int, int], say: Callable[[str], None]) -> None:
    """Join the other hosts, which run the same command. If they do not come, the process ends with a sentence.

    Args:
        hosts: auto, or the address of the first host, how many there are, and the number of this one.
        say: called with a line while they are waited for.
    """
    import jax

    where: dict[str, Any] = {}
    who = "all processes of the Slurm or Open MPI job"
    if not isinstance(hosts, str):
        address, count, number = hosts
        _check_hosts(address, count, number)
        where = {"coordinator_address": address, "num_processes": count, "process_id": number}
        first = "the first process" + f" and {count - 2} more" * (count > 2)
        others = f"{count - 1} other process" + "es" * (count > 2) if number == 0 else first
        who = f"{others} of {count} at {address}"
    # JAX ends the process with a page of its own when its time is over, so ours must be over before.
    where["initialization_timeout"] = int(SECONDS_TO_JOIN) + 60
    failed: list[Exception] = []

    def join() -> None:
        try:
            jax.distributed.initialize(**where)
        except Exception as error:
            failed.append(error)

    joining = threading.Thread(target=join, daemon=True)
    joining.start()
    _wait_for(joining, who, say)
    if failed:
        given = hosts if isinstance(hosts, str) else " ".join(map(str, hosts))
        hint = "; auto is for processes that Slurm or Open MPI has started, else give HOST:PORT COUNT NUMBER"
        why = first_line(failed[0])
        raise InputError(
            f"--hosts is {given}, but JAX cannot join the hosts ({why})" + hint * (given == "auto")
        ) from failed[0]


def _check_hosts(address: str, count: int, number: int) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"--hosts needs the address of the first host as HOST:PORT, got {address!r}")
    if count < 1 or not 0 <= number < count:
        raise InputError(
            f"--hosts needs how many processes there are, and the number of this one from 0, got {count} and {number}"
        )


def _wait_for(joining: threading.Thread, who: str, say: Callable[[str], None]) -> None:
    """Wait until all have joined; after a while end the process, as JAX cannot be told to stop waiting."""
    started = said = time.monotonic()
    try:
        joining.join(1.0)
        if joining.is_alive():
            say(f"waiting for {who}, {SECONDS_TO_JOIN:.0f} s at most")
        while joining.is_alive():
            joining.join(0.2)
            now = time.monotonic()
            if now - started > SECONDS_TO_JOIN:
                why = "start the same command on each, and see that they reach that address"
                _end(f"waited {SECONDS_TO_JOIN:.0f} s for {who}, in vain; {why}", 1)
            if now - said > SECONDS_BETWEEN_LINES:
                said = now
                say(f"still waiting for {who}, for {now - started:.0f} s now")
    except KeyboardInterrupt:
        _end(f"interrupted while it waited for {who}", 130)


def _end(why: str, code: int) -> NoReturn:
    print(f"anyshot: {why}", file=sys.stderr, flush=True)
    os._exit(code)
