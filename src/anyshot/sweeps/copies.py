"""A copy of a sweep's runs in an object store, such as S3, for machines whose disks go away with them.

A run folder needs locks, renames and appends, which object stores do not have. So runs are computed in an ordinary
folder, and each is copied to the store as one object, a tar file: when it ends, and from time to time before. Such an
object is there whole or not at all. Of an unfinished run it holds the newest checkpoint, which has the
log in it.
"""

from __future__ import annotations

import io
import re
import secrets
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from anyshot.atomic import unfinished_folder
from anyshot.errors import DataError, InputError, first_line
from anyshot.runs.checkpoints import EVENTS, list_checkpoints
from anyshot.runs.files import writing
from anyshot.runs.reading import CHECKPOINTS_FOLDER, ENVIRONMENT_FILE, EVENTS_FILE, EXPERIMENT_FILE, SUMMARY_FILE
from anyshot.sweeps.execute import Ended
from anyshot.sweeps.plan import Leg
from anyshot.sweeps.running import Pool

SEND_SECONDS = 60.0  # how often unfinished runs are looked at
AGAIN = "give the same command again: what was computed is kept"


class RunCopies:
    """Copies of run folders at a URL that fsspec knows.

    Args:
        url: such as "s3://bucket/sweep"; it is written to, so that a wrong one is refused now.
    """

    def __init__(self, url: str) -> None:
        if not isinstance(url, str) or not re.match(r"[A-Za-z][\w+.-]*://.", url):
            raise InputError(f"mirror must be a URL such as s3://bucket/sweep, got {url!r}")
        if find_spec("fsspec") is None:
            raise InputError("mirror needs the package fsspec; get it with: pip install 'anyshot[ray]'")
        import fsspec

        self.url, self._sent = url, dict[str, int]()
        try:
            self._store, self._root = fsspec.core.url_to_fs(url)
            self._store.makedirs(self._root, exist_ok=True)
            self._store.pipe_file(f"{self._root}/.anyshot", b"")
        except Exception as error:  # of any package that fsspec calls
            why = first_line(error)
            raise InputError(f"mirror is {url}, which cannot be written: {why}") from error

    def send(self, folder: Path, name: str) -> None:
        """Copy a run, if it has come further than its last copy."""
        packed = _pack(folder)
        if packed is None or self._sent.get(name) == packed[0]:
            return
        with self._working(f"copied to {self.url}"):
            place = f"{self._root}/{name}.tar"
            self._store.makedirs(self._store._parent(place), exist_ok=True)
            part = f"{place}.part-{secrets.token_hex(4)}"  # some stores show what is being written
            self._store.pipe_file(part, packed[1])
            self._store.mv(part, place)
        self._sent[name] = packed[0]

    def fetch(self, out: Path) -> list[str]:
        """Bring the runs back that are not in `out`, and give their names. Folders that are there stay as they are."""
        fetched = []
        with self._working(f"fetched from {self.url}"):
            for name, place in self._list().items():
                folder = out / name
                if out.resolve() not in folder.resolve().parents:
                    raise DataError(f"{place} in the mirror would lie outside {out}; remove it from the mirror")
                if folder.exists() and any(folder.iterdir()):
                    continue
                _unpack(self._store.cat_file(place), folder, out)
                fetched.append(name)
        return fetched

    def send_missing(self, out: Path, names: Iterable[str]) -> None:
        """Copy those of these runs that have no copy yet."""
        with self._working(f"looked for at {self.url}"):
            there = self._list()
        for name in names:
            if name not in there:
                self.send(out / name, name)

    def _list(self) -> dict[str, str]:
        """The names of the runs that have a copy, and where it is."""
        self._store.invalidate_cache()
        places = sorted(place for place in self._store.find(self._root) if place.endswith(".tar"))
        return {place[len(self._root) :].strip("/").removesuffix(".tar"): place for place in places}

    @contextmanager
    def _working(self, what: str) -> Iterator[None]:
        try:
            yield
        except (DataError, InputError):
            raise
        except Exception as error:  # of any package that fsspec calls
            why = first_line(error)
            raise DataError(f"runs cannot be {what}: {why}; {AGAIN}") from error


class CopyingPool:
    """A pool whose runs are copied when they end, and from time to time before.

    Args:
        pool: the workers.
        copies: where to copy to.
        out: the sweep's folder.
    """

    def __init__(self, pool: Pool, copies: RunCopies, out: Path) -> None:
        self._pool, self._copies, self._out = pool, copies, out
        self._running: set[Leg] = set()
        self._looked = time.monotonic()

    @property
    def free(self) -> int:
        """How many more legs can be begun now."""
        return self._pool.free

    def submit(self, leg: Leg) -> None:
        """Begin a leg."""
        self._running.add(leg)
        self._pool.submit(leg)

    def wait(self, seconds: float) -> list[Ended]:
        """What has ended, after so many seconds at most; it has been copied."""
        ended = self._pool.wait(seconds)
        for one in ended:
            self._running.discard(one.leg)
            self._send(one.leg)
        if time.monotonic() - self._looked >= SEND_SECONDS:
            self._looked = time.monotonic()
            for leg in self._running:
                self._send(leg)
        return ended

    def stop(self) -> None:
        """Ask all to save and end."""
        self._pool.stop()

    def kill(self) -> None:
        """End all now."""
        self._pool.kill()

    def _send(self, leg: Leg) -> None:
        self._copies.send(self._out / leg.trial.name, leg.trial.name)


def _pack(folder: Path) -> tuple[int, bytes] | None:
    """A run as it was at its newest checkpoint, as a tar file behind the checkpoint's number; None if it has none."""
    for _ in range(5):  # a run that goes on may remove the checkpoint that is being read
        numbers = list_checkpoints(folder / CHECKPOINTS_FOLDER)
        if not numbers:
            return None
        try:
            newest = folder / CHECKPOINTS_FOLDER / f"{numbers[0]:010d}"
            files = {file.relative_to(folder): file.read_bytes() for file in sorted(newest.iterdir())}
            files[Path(EVENTS_FILE)] = files[newest.relative_to(folder) / EVENTS]
            for name in (EXPERIMENT_FILE, ENVIRONMENT_FILE):
                files[Path(name)] = (folder / name).read_bytes()
            is_finished = (folder / SUMMARY_FILE).exists()
            for name in (EVENTS_FILE, SUMMARY_FILE) if is_finished else ():  # a finished run is not written any more
                files[Path(name)] = (folder / name).read_bytes()
        except (FileNotFoundError, KeyError):
            continue
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path, data in files.items():
                entry = tarfile.TarInfo(str(path))
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return 2 * numbers[0] + is_finished, packed.getvalue()
    return None  # the next look will find it


def _unpack(packed: bytes, folder: Path, out: Path) -> None:
    """Make a run folder; it has its name once it is whole."""
    with writing(out), unfinished_folder(out) as unfinished:
        try:
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(unfinished / "run", filter="data")
        except tarfile.TarError as error:
            raise DataError(f"the copy of {folder} is damaged ({error}); remove it from the mirror") from error
        folder.parent.mkdir(parents=True, exist_ok=True)
        (unfinished / "run").replace(folder)
