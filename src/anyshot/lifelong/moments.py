"""What was learned up to the looks at open tasks, on disk until the tasks are closed."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Collection
from pathlib import Path

from anyshot.errors import DataError
from anyshot.lifelong.database import writing
from anyshot.lifelong.learning import Learned, Learning
from anyshot.lifelong.snapshots import hash_arrays, read_snapshot
from anyshot.runs.files import sync_folder
from anyshot.runs.state import state_arrays


class Moments:
    """Files, each with what was learned up to a moment. Looks at the same moment share one.

    Args:
        folder: of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: tuple[Learned, str] | None = None

    def keep(self, learning: Learning) -> str:
        """Write what was learned up to now, if no file has it. Returns the name of the file."""
        learned = learning.now
        if self._last is None or self._last[0] is not learned:
            self._last = learned, hash_arrays(state_arrays(learned.state))
        path = self._path(self._last[1])
        if not path.exists():
            with writing(self._folder):
                learning.save(path, {}, learned)
        return self._last[1]

    def load(self, learning: Learning, name: str) -> Learned | None:
        """What a file holds; None if it is gone, as a task was forgotten since, or damaged, with a warning."""
        path = self._path(name)
        if not path.exists():
            return None
        try:
            return learning.learned_from(*read_snapshot(path), path)
        except DataError as error:
            warnings.warn(f"a look at a task is left out: {error}", stacklevel=2)
            return None

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all other files."""
        for path in self._folder.glob("*.safetensors"):
            if path.stem not in names:
                path.unlink()

    def remove_all(self) -> None:
        """Remove all files, and wait until the disk knows it."""
        self._last = None
        if self._folder.exists():
            shutil.rmtree(self._folder)
            sync_folder(self._folder.parent)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"
