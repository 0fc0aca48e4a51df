"""The runs behind a table: where each is kept, and how far it is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from anyshot.errors import DataError, InputError
from anyshot.report.naming import title
from anyshot.reproduction.table import Table
from anyshot.runs.offline_presets import OFFLINE_PRESETS
from anyshot.runs.reading import EVENTS, EXPERIMENT, read_experiment, read_summary
from anyshot.runs.settings import any_settings_from

CHECKPOINT_SECONDS = 30
LINE = 100_000  # bytes: no event is longer


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        preset: its setting.
        learner: the method.
        seed: of all that is random.
    """

    preset: str
    learner: str
    seed: int

    @property
    def name(self) -> str:
        """In short.

        >>> Job("pose", "toe", 1).name
        'pose toe, seed 1'
        """
        return f"{self.preset} {self.learner}, seed {self.seed}"

    def folder(self, out: Path) -> Path:
        """Its run folder; the log and the times of what is started there have the same name with an ending."""
        return out / self.preset / f"{self.learner}-s{self.seed}"

    def log(self, out: Path) -> Path:
        """What the process that ran last has printed."""
        return self.folder(out).with_name(f"{self.learner}-s{self.seed}.log")

    def times(self, out: Path) -> Path:
        """How long each process ran: JSON lines."""
        return self.folder(out).with_name(f"{self.learner}-s{self.seed}.times")

    def words(self, out: Path, device: str) -> list[str]:
        """The command line, behind `anyshot`.

        >>> print(*Job("pose", "toe", 1).words(Path("runs"), "gpu"))
        run pose --learner toe --seed 1 --out runs/pose/toe-s1 --checkpoint-seconds 30 --device gpu
        """
        verb = "offline" if self.preset in OFFLINE_PRESETS else "run"
        words = [verb, self.preset, "--learner", self.learner, "--seed", str(self.seed), "--out", str(self.folder(out))]
        return [*words, "--checkpoint-seconds", str(CHECKPOINT_SECONDS), "--device", device]

    def finished(self, out: Path) -> bool:
        """Whether its folder holds this very run, at its end."""
        folder = self.folder(out)
        if not (folder / EXPERIMENT).is_file():
            return False
        try:
            done = read_summary(folder) is not None
            return done and described(read_experiment(folder)) == (self.preset, self.learner, self.seed)
        except (DataError, InputError):  # the run itself heals what is damaged, and refuses what is another's
            return False


def jobs_of(tables: Iterable[Table], seeds: int) -> list[Job]:
    """The runs of some tables, each once: in each table all methods with seed 0, then with seed 1, and so on."""
    every = (Job(table.preset, name, seed) for table in tables for seed in range(seeds) for name in table.paper)
    return list(dict.fromkeys(every))


def described(experiment: dict[str, Any]) -> tuple[str, str, int]:
    """Title, learner and seed of what an experiment's file or a summary describes."""
    return title(any_settings_from(experiment["settings"])), experiment["learner"], experiment["seed"]


def last_event(folder: Path) -> dict[str, Any] | None:
    """The last event in a run's log, which may be growing; None if there is none yet."""
    if not (folder / EVENTS).is_file():
        return None
    with (folder / EVENTS).open("rb") as log:
        log.seek(0, 2)
        log.seek(max(0, log.tell() - LINE))
        lines = log.read().split(b"\n")[:-1]
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except ValueError:  # cut off by a crash, to be written again
            continue
        if _is_event(found):
            return cast("dict[str, Any]", found)
    return None


def progress(folder: Path) -> str | None:
    """How far a run is, in words; None if it has not begun."""
    event = last_event(folder)
    if event is None:
        return None
    if "pretraining" in event:
        return "pretraining"
    if "position" in event:
        return f"{event['position'] + event['ended']} tasks, {event['total_labels']:,} labels"
    return "testing" if "test" in event else f"step {event['step']:,}"


def _is_event(found: Any) -> bool:
    """Whether it says how far the run is; of other lines the run itself tells what is wrong with them."""
    if not isinstance(found, dict):
        return False
    needed = ("position", "ended", "total_labels") if "position" in found else ("step",)
    return "pretraining" in found or "test" in found or all(isinstance(found.get(name), int) for name in needed)
