"""Workers on this machine: processes that run one leg after another."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anyshot.sweeps.execute import Ended, Order
from anyshot.sweeps.plan import Leg

WORKER = (sys.executable, "-m", "anyshot.sweeps.worker")


@dataclass
class _Worker:
    """A process, and the leg that it runs."""

    process: subprocess.Popen[bytes]
    log: Path
    leg: Leg | None = None

    def send(self, order: Order) -> None:
        assert self.process.stdin is not None
        self.leg = order.leg
        self.process.stdin.write(order.to_json().encode() + b"\n")
        self.process.stdin.flush()


class LocalPool:
    """Runs legs in processes of this machine.

    Args:
        out: the sweep's folder, for what the workers print.
        workers: how many legs are run at a time.
        device: auto, cpu or gpu.
        checkpoint_seconds: how often runs save, at least.
    """

    def __init__(self, out: Path, workers: int, device: str, checkpoint_seconds: float) -> None:
        self.out, self.size, self.device, self.checkpoint_seconds = out, workers, device, checkpoint_seconds
        self._workers: list[_Worker] = []
        self._ended: deque[Ended] = deque()
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *how: object) -> None:
        for worker in self._workers:
            worker.process.kill()
            worker.process.communicate()
        self._workers.clear()
        self._selector.close()

    @property
    def free(self) -> int:
        """How many more legs can be run now."""
        return self.size - sum(worker.leg is not None for worker in self._workers)

    def submit(self, leg: Leg) -> None:
        """Begin a leg."""
        idle = [worker for worker in self._workers if worker.leg is None]
        worker = idle[0] if idle else self._start()
        with suppress(BrokenPipeError):  # it has died since; `wait` finds out why
            worker.send(Order(leg, str(self.out.resolve()), self.device, self.checkpoint_seconds))

    def wait(self, seconds: float) -> list[Ended]:
        """What has ended, after so many seconds at most."""
        for key, _ in self._selector.select(seconds):
            self._read(key.data)
        found = list(self._ended)
        self._ended.clear()
        return found

    def stop(self) -> None:
        """Ask all to save and end."""
        for worker in self._workers:
            worker.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End all now; they go on from their checkpoints later."""
        for worker in self._workers:
            worker.process.kill()

    def _start(self) -> _Worker:
        number = next(n for n in range(self.size) if all(one.log.stem != f"worker-{n}" for one in self._workers))
        log = self.out / f"worker-{number}.log"
        with log.open("wb") as printed:
            process = subprocess.Popen(  # noqa: S603
                WORKER,
                env=_environment(self.out, self.size, os.environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
                process_group=0,  # so that Ctrl-C reaches it only through us, and once
            )
        worker = _Worker(process, log)
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        return worker

    def _read(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        line = worker.process.stdout.readline()
        leg, worker.leg = worker.leg, None
        if line.endswith(b"\n"):
            kind, why = json.loads(line)
            if leg is not None:
                self._ended.append(Ended(leg, kind, why))
            return
        self._selector.unregister(worker.process.stdout)
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.communicate()
        if leg is not None:
            self._ended.append(Ended(leg, "failed", _explain_death(worker)))


def _environment(out: Path, workers: int, ours: Mapping[str, str]) -> dict[str, str]:
    # A method compiles once for all its seeds. Several runs share a GPU only if none takes all its memory at once.
    shared = {"JAX_COMPILATION_CACHE_DIR": str(out.resolve() / "compiled")}
    shared |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if workers > 1 else {}
    paths = [path for path in (str(Path.cwd()), ours.get("PYTHONPATH", "")) if path]  # where own experiments are
    return shared | dict(ours) | {"PYTHONPATH": os.pathsep.join(paths)}


def _explain_death(worker: _Worker) -> str:
    code = worker.process.returncode
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    lines = [line.strip() for line in worker.log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    return f"the worker {how}" + (f" ({lines[-1][:200]})" if lines else "") + f"; {worker.log} has what it printed"
