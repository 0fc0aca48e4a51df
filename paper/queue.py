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
from anyshot.sweeps.progress import describe_progress
from paper.jobs import Job

ANYSHOT = (sys.executable, "-m", "anyshot")
GRACE = 60.0  # seconds in which a run may finish its chunk and save; compiling cannot be interrupted
POLL_SECONDS, REPORT_SECONDS = 0.2, 60.0


@dataclass
class Outcome:
    """What became of the jobs.

    Attributes:
        done: finished now.
        failed: each with the reason.
        left: not finished, because the queue was stopped.
        stopped: why it was stopped; empty if it was not.
    """

    done: list[Job] = field(default_factory=list)
    failed: dict[Job, str] = field(default_factory=dict)
    left: list[Job] = field(default_factory=list)
    stopped: str = ""


@dataclass
class _Child:
    """A process that runs a job."""

    job: Job
    process: subprocess.Popen[bytes]
    log: BinaryIO
    started: float


@dataclass
class Queue:
    """Runs jobs; one that fails does not stop the others.

    Attributes:
        out: the folder that holds the run folders; a run that was begun there goes on.
        device: auto, cpu or gpu.
        parallel: how many run at a time.
        seconds: after which all are asked to save and stop; None: no limit.
        keep: called with each finished job; a `DataError` from it counts as the job's failure.
        report: called with a line when a run begins, when it ends, and once a minute in between.
    """

    out: Path
    device: str
    parallel: int
    seconds: float | None
    keep: Callable[[Job], None]
    report: Callable[[str], None]

    def run(self, jobs: Sequence[Job]) -> Outcome:
        """Run the jobs in this order."""
        waiting, live, outcome = list(jobs), list[_Child](), Outcome()
        until = None if self.seconds is None else time.monotonic() + self.seconds
        reported = time.monotonic()
        with _stop_requests() as requests:
            try:
                while waiting or live:
                    if requests or (until is not None and time.monotonic() >= until):
                        outcome.stopped = "interrupted" if requests else "the time is over"
                        break
                    while waiting and len(live) < self.parallel:
                        live.append(self._start(waiting.pop(0)))
                    time.sleep(POLL_SECONDS)
                    for child in [child for child in live if child.process.poll() is not None]:
                        live.remove(child)
                        self._end(child, outcome)
                    if live and time.monotonic() - reported >= REPORT_SECONDS:
                        reported = time.monotonic()
                        for child in live:
                            self.report(f"{child.job}: {describe_progress(child.job.folder(self.out)) or 'starting'}")
            finally:
                if live:
                    self.report(f"stopping {len(live)} runs; each saves first, which takes at most {GRACE:.0f} s")
                    _stop(live, requests)
                for child in live:
                    self._end(child, outcome)
        outcome.left += waiting
        return outcome

    def _start(self, job: Job) -> _Child:
        before = describe_progress(job.folder(self.out))
        self.report(f"{job}: " + (f"goes on after {before}" if before else "begins"))
        job.folder(self.out).parent.mkdir(parents=True, exist_ok=True)
        # A method compiles once for all its seeds. Several runs share a GPU only if none takes all its memory at once.
        shared = {"JAX_COMPILATION_CACHE_DIR": str(self.out / "compiled")}
        shared |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if self.parallel > 1 else {}
        log = job.log(self.out).open("wb")
        process = subprocess.Popen(  # noqa: S603
            [*ANYSHOT, *job.words(self.out, self.device)],
            env=shared | os.environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # so that Ctrl-C reaches it only through us, and once
        )
        return _Child(job, process, log, time.monotonic())

    def _end(self, child: _Child, outcome: Outcome) -> None:
        child.log.close()
        job, took, code = child.job, time.monotonic() - child.started, child.process.returncode
        with job.times(self.out).open("a", encoding="utf-8") as times:
            times.write(json.dumps({"seconds": round(took, 1), "at_once": self.parallel}) + "\n")
        progress = describe_progress(job.folder(self.out))
        if code == 0 and job.finished(self.out):
            self.report(f"{job}: done in {took / 60:.1f} minutes, {progress}")
            try:
                self.keep(job)
                outcome.done.append(job)
            except DataError as error:  # the run itself is whole, and the others go on
                outcome.failed[job] = str(error)
                self.report(f"{job}: {error}")
        elif code == 130 or outcome.stopped:  # a run that was still starting may end with another code
            outcome.left.append(job)
            self.report(f"{job}: stopped at {progress or 'the beginning'}")
        else:
            outcome.failed[job] = _last_line(job.log(self.out)) or "it printed nothing"
            self.report(f"{job}: failed with exit code {code}: {outcome.failed[job]}")


def _stop(live: Sequence[_Child], requests: list[int]) -> None:
    """Ask all to save and end; kill them after a while or at a second request. They go on from their checkpoints."""
    before, until = len(requests), time.monotonic() + GRACE
    for child in live:
        child.process.send_signal(signal.SIGINT)
    while any(child.process.poll() is None for child in live):
        if len(requests) > before or time.monotonic() >= until:
            for child in live:
                child.process.kill()
            break
        time.sleep(POLL_SECONDS)
    for child in live:
        child.process.wait()


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """A list that grows with Ctrl-C and with every other request to end."""
    requests: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    numbers += [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []  # nohup ignores it
    before = {number: signal.signal(number, lambda number, frame: requests.append(number)) for number in numbers}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
