"""Runs in processes of their own, a few at a time, until all are done or the time is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from anyshot.errors import DataError
from anyshot.reproduction.jobs import Job, progress

ANYSHOT = (sys.executable, "-c", "from anyshot.cli import main; main()")
STOPS = (signal.SIGINT, signal.SIGTERM)
GRACE = 60.0  # seconds to finish the chunk at hand and save; compiling cannot be interrupted
LOOK, TELL = 0.2, 60.0  # seconds between two looks at the processes, and between two lines about each


@dataclass
class Child:
    """A process that runs a job."""

    job: Job
    process: subprocess.Popen[bytes]
    log: BinaryIO
    started: float


@dataclass
class Outcome:
    """What became of the jobs.

    Attributes:
        done: finished now.
        failed: each with the last line it printed.
        left: not finished, because there was no more time.
        stopped: why there was none: "" if there was.
    """

    done: list[Job] = field(default_factory=list)
    failed: dict[Job, str] = field(default_factory=dict)
    left: list[Job] = field(default_factory=list)
    stopped: str = ""


def run_all(
    jobs: Sequence[Job],
    out: Path,
    *,
    device: str,
    parallel: int,
    seconds: float | None,
    tell: Callable[[str], None],
    finished: Callable[[Job], None],
) -> Outcome:
    """Run jobs; one that fails does not stop the others.

    Args:
        jobs: in the order to begin them.
        out: the folder that holds their run folders; what is half done there goes on.
        device: auto, cpu or gpu.
        parallel: how many at a time.
        seconds: after which all are asked to save and stop; None: no limit.
        tell: called with a line when a run begins, ends, and now and then between.
        finished: called with each job that is; a `DataError` from it counts as the job's failure.
    """
    waiting, live, outcome = list(jobs), list[Child](), Outcome()
    until = None if seconds is None else time.monotonic() + seconds
    spoken = time.monotonic()
    with _asked() as asked:
        try:
            while waiting or live:
                if asked or (until is not None and time.monotonic() >= until):
                    outcome.stopped = "interrupted" if asked else "the time is over"
                    break
                while waiting and len(live) < parallel:
                    live.append(_begin(waiting.pop(0), out, device, parallel, tell))
                time.sleep(LOOK)
                for child in [child for child in live if child.process.poll() is not None]:
                    live.remove(child)
                    _ended(child, out, parallel, outcome, tell, finished)
                if live and time.monotonic() - spoken >= TELL:
                    spoken = time.monotonic()
                    for child in live:
                        tell(f"{child.job.name}: {progress(child.job.folder(out)) or 'starting'}")
        finally:
            if live:
                tell(f"stopping {len(live)}, which takes until each has saved (at most {GRACE:.0f} s)")
                _stop(live, asked)
            for child in live:
                _ended(child, out, parallel, outcome, tell, finished)
    outcome.left += waiting
    return outcome


def _begin(job: Job, out: Path, device: str, parallel: int, tell: Callable[[str], None]) -> Child:
    before = progress(job.folder(out))
    tell(f"{job.name}: " + (f"goes on after {before}" if before else "begins"))
    job.folder(out).parent.mkdir(parents=True, exist_ok=True)
    # A method compiles once for all its seeds. Several share a GPU only if none takes all of its memory at once.
    shared = {"JAX_COMPILATION_CACHE_DIR": str(out / "compiled")}
    shared |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if parallel > 1 else {}
    log = job.log(out).open("wb")
    process = subprocess.Popen(  # noqa: S603
        [*ANYSHOT, *job.words(out, device)],
        env=shared | os.environ,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        process_group=0,  # so that Ctrl-C reaches it through us alone, and once
    )
    return Child(job, process, log, time.monotonic())


def _ended(
    child: Child,
    out: Path,
    parallel: int,
    outcome: Outcome,
    tell: Callable[[str], None],
    finished: Callable[[Job], None],
) -> None:
    child.log.close()
    job, took = child.job, time.monotonic() - child.started
    with job.times(out).open("a", encoding="utf-8") as times:
        times.write(json.dumps({"seconds": round(took, 1), "at_once": parallel}) + "\n")
    code = child.process.returncode
    if code == 0 and job.finished(out):
        tell(f"{job.name}: done in {took / 60:.1f} minutes, {progress(job.folder(out))}")
        try:
            finished(job)
            outcome.done.append(job)
        except DataError as error:  # the run itself is whole, and the others go on
            outcome.failed[job] = str(error)
            tell(f"{job.name}: {error}")
    elif code == 130 or outcome.stopped:  # one that is still starting may end otherwise; if it fails, it fails again
        outcome.left.append(job)
        tell(f"{job.name}: stopped at {progress(job.folder(out)) or 'the beginning'}")
    else:
        outcome.failed[job] = _last_line(job.log(out)) or "it printed nothing"
        tell(f"{job.name}: failed with exit code {code}: {outcome.failed[job]}")


def _stop(live: Sequence[Child], asked: list[int]) -> None:
    """Ask all to save and end; after a while, or if asked again, end them: they go on from their last checkpoint."""
    before, until = len(asked), time.monotonic() + GRACE
    for child in live:
        child.process.send_signal(signal.SIGINT)
    while any(child.process.poll() is None for child in live):
        if len(asked) > before or time.monotonic() >= until:
            for child in live:
                child.process.kill()
            break
        time.sleep(LOOK)
    for child in live:
        child.process.wait()


@contextmanager
def _asked() -> Iterator[list[int]]:
    """A list that Ctrl-C, or a request to terminate, puts something in."""
    asked: list[int] = []
    hung_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []  # nohup ignores it
    before = {
        number: signal.signal(number, lambda number, frame: asked.append(number)) for number in [*STOPS, *hung_up]
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
