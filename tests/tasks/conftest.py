"""Fixtures: a server of mirrors, an empty cache, an empty folder of data, the meshes of the pose tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest

from anyshot.tasks.meshes import Mesh, read_meshes
from tests.support.mirrors import Server


@pytest.fixture(scope="module")
def serving() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.stop.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def server(serving: Server) -> Server:
    serving.asked.clear()
    return serving


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("ANYSHOT_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ANYSHOT_DATA", str(folder))
    return folder


@pytest.fixture(scope="module")
def meshes(real_data: Path) -> dict[str, Mesh]:
    archive = real_data / "pose_meshes" / "pascal3d_cad.zip"
    if not archive.is_file():
        pytest.skip(f"no pose_meshes/pascal3d_cad.zip in {real_data}")
    return {mesh.name: mesh for mesh in read_meshes(archive)}


@pytest.fixture
def without_types() -> Iterator[None]:
    """As users run it: the annotations are not checked."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
