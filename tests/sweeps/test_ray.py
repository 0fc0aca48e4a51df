"""Sweeps on a Ray cluster of several nodes on this machine: nodes, the driver and the head are killed."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyshot import sweep
from tests.support.refusals import assert_refused
from tests.support.sweeps import (
    SMALL,
    count_events,
    count_finished,
    finish,
    results,
    spec_text,
    start_sweep,
    wait_until,
)

DIGITS = {"protocol.num_tasks": 4, "protocol.max_steps": 30, "network.kind": "mlp", "network.hidden": [8]}
SPEC: dict[str, Any] = {
    "experiments": ["rainbow-digits"],
    "learners": ["toe", "ftml"],
    "seeds": list(range(12)),
    "settings": DIGITS,
}
SMALL_STORE = 80_000_000  # bytes; the smallest that Ray takes


class Nodes:
    """A Ray cluster on this machine."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "object_store_memory": SMALL_STORE, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes: list[Any] = []

    def add(self, **variables: str) -> None:
        self.nodes.append(self.cluster.add_node(num_cpus=1, object_store_memory=SMALL_STORE, env_vars=variables))

    def kill_node(self) -> None:
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)

    def kill_all(self) -> None:
        """The head first, with the store of what the cluster knows."""
        for node in [self.cluster.head_node, *self.nodes]:
            if node is not None:
                node.kill_all_processes(check_alive=False, allow_graceful=False)

    @property
    def address(self) -> dict[str, str]:
        return {"RAY_ADDRESS": str(self.cluster.address)}


@pytest.fixture
def quiet_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """No token in the home of who tests, no statistics."""
    for name, value in {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def nodes(quiet_ray: None) -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.kill_all()


def write(path: Path, **changes: Any) -> Path:
    path.write_text(spec_text(SPEC | changes))
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_nodes_driver_and_head_are_killed_and_all_folders_are_as_without(nodes: Nodes, tmp_path: Path) -> None:
    spec, out = write(tmp_path / "spec.toml"), tmp_path / "out"
    nodes.add()
    nodes.add()
    first = start_sweep(spec, out, "--on", "auto", **nodes.address)
    wait_until(lambda: count_events(out) > 5, first)
    nodes.kill_node()
    wait_until(lambda: count_finished(out) >= 4, first)
    first.kill()
    first.communicate()
    assert count_finished(out) < 24
    second = start_sweep(spec, out, "--on", "auto", **nodes.address)
    done = count_finished(out)
    wait_until(lambda: count_finished(out) > done, second)
    nodes.kill_all()
    said = finish(second, 1)
    assert "Ray cluster auto was lost" in said
    assert count_finished(out) < 24
    again = Nodes()
    try:
        again.add()
        last = finish(start_sweep(spec, out, "--on", "auto", **again.address))
    finally:
        again.kill_all()
    assert "24/24 runs finished" in last
    finish(start_sweep(spec, tmp_path / "undisturbed"))
    found = results(out)
    assert len(found) == 24
    assert found == results(tmp_path / "undisturbed")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_node_that_is_full_and_one_that_does_not_see_the_folder(nodes: Nodes, tmp_path: Path) -> None:
    faulty = str(Path(__file__).parent.parent / "support" / "faulty_node")
    paths = {"PYTHONPATH": os.pathsep.join([faulty, os.environ.get("PYTHONPATH", "")])}
    spec = write(tmp_path / "spec.toml", experiments=["sinusoid"], seeds=[0, 1, 2], settings=SMALL)
    nodes.add(**paths, FAULTY_NODE="full:events.jsonl")
    said = finish(start_sweep(spec, tmp_path / "full", "--on", "auto", **nodes.address), 1)
    last = said.strip().splitlines()[-1]
    assert "No space left on device" in last
    assert socket.gethostname() in last
    nodes.kill_node()
    finish(start_sweep(spec, tmp_path / "full", "--on", "auto", **nodes.address))
    assert count_finished(tmp_path / "full") == 6
    nodes.add(**paths, FAULTY_NODE="hidden:.token-")
    said = finish(start_sweep(spec, tmp_path / "hidden", "--on", "auto", **nodes.address), 2)
    assert "does not see --out" in said
    assert not [*(tmp_path / "hidden").glob("*/*")]


@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "ray://127.0.0.1:port"])
def test_a_cluster_that_does_not_answer(address: str, tmp_path: Path) -> None:
    spec = {"experiments": ["sinusoid"], "learners": ["toe"], "settings": SMALL}
    assert_refused(lambda: sweep(spec, tmp_path / "out", on=address, progress=False), [address, "--on local"])
    assert not [*tmp_path.glob("out/*/*")]
