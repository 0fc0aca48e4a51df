"""Workers on a Ray cluster. Ray only decides where a leg runs, and runs it again if its node is lost."""

from __future__ import annotations

import os
import secrets
import socket
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anyshot.errors import InputError, RunError, first_line
from anyshot.runs.files import writing
from anyshot.sweeps.execute import Ended, Order, execute
from anyshot.sweeps.plan import Leg
from anyshot.version import __version__

MOST_RETRIES = 20  # of a leg whose node or worker was lost
SECONDS_TO_CONNECT, SECONDS_TO_LOOK = 5.0, 120.0
SECONDS_WITHOUT_HEAD = 40.0  # Ray ends the whole process without a word to it after 60
# Variables that numbers depend on: the workers have them as we do, whoever has started the nodes.
NUMERIC = ("JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")
AGAIN = "start the cluster again and give the same command: every run goes on from its last checkpoint"
START = "start one with `ray start --head`, or use --on local"


class RayPool:
    """Runs legs as Ray tasks.

    Args:
        address: "auto" for the cluster of this machine, or "ray://HOST:PORT".
        out: the sweep's folder, on a path that all nodes see.
        workers: how many legs are run at a time, at most; None: as many as the cluster has room for.
        gpus: of one leg; a part of one, such as 0.25, lets several share a GPU. None: 1 if the cluster has GPUs.
        device: auto, cpu or gpu.
        checkpoint_seconds: how often runs save, at least.
    """

    def __init__(
        self,
        address: str,
        out: Path,
        workers: int | None,
        gpus: float | None,
        device: str,
        checkpoint_seconds: float,
    ) -> None:
        if find_spec("ray") is None:
            raise InputError("--on ray needs the package ray; get it with: pip install 'anyshot[ray]'")
        self.address, self.out, self.size = address, out, workers
        self.gpus, self.device, self.checkpoint_seconds = gpus, device, checkpoint_seconds
        self._legs: dict[Any, Leg] = {}
        self._head, self._seen, self._looked = address, 0.0, 0.0

    def __enter__(self) -> RayPool:
        _connect(self.address)
        import ray

        if self.address == "auto":
            self._head = ray.get_runtime_context().gcs_address
        self._seen = time.monotonic()
        try:
            _check_nodes(self.out)
            if ray.cluster_resources().get("CPU", 0) < 1:
                raise InputError(f"--on is {self.address}, but no node of that cluster has a CPU for tasks; add one")
            has_gpus = ray.cluster_resources().get("GPU", 0) > 0 and self.device != "cpu"
            if self.gpus and not has_gpus:
                raise InputError(f"--gpus is {self.gpus:g}, but no node of the Ray cluster {self.address} has a GPU")
            gpus = (1.0 if has_gpus else 0.0) if self.gpus is None else self.gpus
            variables = {name: os.environ[name] for name in NUMERIC if name in os.environ}
            variables |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if 0 < gpus < 1 else {}
            how: dict[str, Any] = {"num_cpus": 1, "num_gpus": gpus, "max_retries": MOST_RETRIES}
            self._run = ray.remote(**how, runtime_env={"env_vars": variables})(_run_order)
        except BaseException:
            ray.shutdown()
            raise
        return self

    def __exit__(self, *how: object) -> None:
        import ray

        ray.shutdown()

    @property
    def free(self) -> int:
        """How many more legs can be handed to Ray now; it has a queue of its own."""
        return 10**9 if self.size is None else self.size - len(self._legs)

    def submit(self, leg: Leg) -> None:
        """Hand a leg to Ray, under a name that its dashboard shows."""
        order = Order(leg, str(self.out.resolve()), self.device, self.checkpoint_seconds)
        self._legs[self._run.options(name=f"anyshot: {leg}").remote(order.to_json())] = leg

    def wait(self, seconds: float) -> list[Ended]:
        """What has ended, after so many seconds at most."""
        import ray

        self._look_for_head()
        try:
            ready, _ = ray.wait(list(self._legs), num_returns=1, timeout=seconds)
            return [self._take(one) for one in ready]
        except (ConnectionError, ray.exceptions.RaySystemError, ray.exceptions.GetTimeoutError) as error:
            raise RunError(f"the Ray cluster {self.address} was lost ({first_line(error)}); {AGAIN}") from error

    def stop(self) -> None:
        """Ask all to save and end."""
        import ray

        for one in self._legs:
            ray.cancel(one, force=False)

    def kill(self) -> None:
        """End all now; they go on from their checkpoints later."""
        import ray

        for one in self._legs:
            ray.cancel(one, force=True)

    def _look_for_head(self) -> None:
        now = time.monotonic()
        if now - self._looked < SECONDS_TO_CONNECT:
            return
        self._looked = now
        try:
            _reach(self._head)
            self._seen = now
        except OSError as error:
            if now - self._seen > SECONDS_WITHOUT_HEAD:
                raise RunError(f"the head of the Ray cluster {self.address} was lost ({error}); {AGAIN}") from error

    def _take(self, ready: Any) -> Ended:
        import ray

        leg = self._legs.pop(ready)
        try:
            kind, why, node = ray.get(ready)
            return Ended(leg, kind, f"{why} (on {node})" if why else "")
        except (ray.exceptions.TaskCancelledError, KeyboardInterrupt):
            return Ended(leg, "stopped", "it was asked to stop")
        except ray.exceptions.RayError as error:  # its nodes were lost again and again, or it ran out of memory
            raised = isinstance(error, ray.exceptions.RayTaskError)
            return Ended(leg, "failed", _last_line(error) if raised else first_line(error))


def _run_order(line: str) -> tuple[str, str, str]:
    return (*execute(Order.from_json(line)), socket.gethostname())


def _connect(address: str) -> None:
    """Connect to a cluster; refused in one sentence where there is none."""
    import ray

    place = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if place and place not in ("auto", "local"):
        try:
            _reach(place)
        except OSError as error:
            raise InputError(f"--on is {address}, but no Ray cluster answers at {place} ({error}); {START}") from error
    try:
        ray.init(address, log_to_driver=False, logging_level="warning")
    except (ConnectionError, RuntimeError, TimeoutError) as error:
        raise InputError(
            f"--on is {address}, but there is no Ray cluster to join ({first_line(error)}); {START}"
        ) from error


def _reach(address: str) -> None:
    """Fail with an OSError if nobody listens at an address with a host and a port."""
    try:
        place = urlsplit(address if "://" in address else f"ray://{address}")
        host, port = place.hostname or "", place.port or 10001
    except ValueError as error:  # the port is no number
        raise OSError(str(error)) from error
    with socket.create_connection((host, port), SECONDS_TO_CONNECT):
        pass


def _check_nodes(out: Path) -> None:
    """Refuse nodes that do not see the sweep's folder, or have another anyshot."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    place = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.is_dir())  # `out` may be new
    token, said = place / f".token-{secrets.token_hex(8)}", secrets.token_hex(8)
    with writing(place):
        token.write_text(said)
    try:
        look = ray.remote(num_cpus=0, max_retries=0)(_look)
        asked = {}
        for node in ray.nodes():
            if node["Alive"]:
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                asked[node["NodeManagerAddress"], node["NodeID"][:8]] = look.options(
                    name="anyshot: check of the folder", scheduling_strategy=there
                ).remote(str(token))
        for (address, number), answer in asked.items():
            node = f"the Ray node {address} ({number})"
            try:
                found, version = ray.get(answer, timeout=SECONDS_TO_LOOK)
            except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
                continue  # it died since the list was made, and takes no part
            except ray.exceptions.RayError as error:
                raise InputError(f"{node} cannot run anyshot ({_last_line(error)}); install it there") from error
            if found != said:
                raise InputError(
                    f"{node} does not see --out {out.resolve()}; choose a folder that all nodes see, such as one on NFS"
                )
            if version != __version__:
                raise InputError(f"{node} has anyshot {version}, and here is {__version__}; install the same")
    finally:
        token.unlink(missing_ok=True)


def _look(token: str) -> tuple[str | None, str]:
    """What a node finds in the file, and its anyshot."""
    try:
        return Path(token).read_text(), __version__
    except OSError:
        return None, __version__


def _last_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[-1].rstrip(".")
