"""What all tasks of a folder share: the store, the settings, the learner."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.errors import InputError
from anyshot.lifelong.contents import StoredTask
from anyshot.lifelong.engine import Labelled
from anyshot.lifelong.estimates import Past
from anyshot.lifelong.learning import Learning
from anyshot.lifelong.looks import from_json as looks_from_json
from anyshot.lifelong.mixture import learn_prior
from anyshot.lifelong.record import FIRST, NEW, Record
from anyshot.lifelong.setup import Setup
from anyshot.lifelong.slots import choose_slots, count_outputs
from anyshot.lifelong.snapshots import Snapshot, list_snapshots, next_path, remove_old
from anyshot.lifelong.store import Store

SNAPSHOTS = "snapshots"
PRIOR_LABELS, PRIOR_TASKS = 5, 20  # the first labels of the last tasks say how to weigh the experts at first


class Home:
    """The records of all tasks and the learner that learns from them.

    Args:
        store: keeps the tasks.
        setup: the settings.
        start: a snapshot to begin with, if the folder has none.
    """

    def __init__(self, store: Store, setup: Setup, start: Path | None) -> None:
        self.store, self.setup = store, setup
        self.changing = threading.RLock()  # one thread changes labels or classes at a time
        self.open = True
        self.records = {task.name: Record(store, task) for task in store.list_tasks()}
        self._start = start
        self._last = next((record for record in reversed(self.records.values()) if record.count), None)
        self._labelled: tuple[list[Labelled], int] | None = None
        self._learning: Learning | None = None
        self._past: tuple[int, Past] | None = None

    @property
    def learning(self) -> Learning | None:
        """The learner; None while it is not known what inputs and labels are."""
        setup = self.setup
        with self.changing:
            if self._learning is None and setup.shape is not None and setup.kind is not None:
                assert setup.dtype is not None
                learning = Learning(
                    setup.learner, setup.shape, setup.dtype, setup.outputs, setup.classification, self.store.read
                )
                saved = self.snapshots
                newest = saved[-1].path if saved else self._start
                if newest is not None:
                    learning.load(newest)
                self._learning = learning
            return self._learning

    @property
    def snapshots(self) -> list[Snapshot]:
        """What is saved of the learner, oldest first."""
        return list_snapshots(self.store.folder / SNAPSHOTS)

    def save(self, tag: str = "") -> None:
        """Save what was learned."""
        if self._learning is not None:
            folder = self.store.folder / SNAPSHOTS
            self._learning.save(next_path(folder), {"tag": tag, **self.describe()})
            remove_old(folder)

    def describe(self) -> dict[str, Any]:
        """What a snapshot says about inputs and labels: names of classes, but no examples."""
        slots: dict[str, int] = {}
        for record in self.records.values():
            slots |= record.slots
        return {**self.setup.describe(), "slots": slots, "prior": self._learn_prior()}

    def begin(self, name: str, classes: list[Any] | None) -> Record:
        """Begin a task."""
        with self.changing:
            if classes is not None:
                self.setup.settle_kind(classification=True)
            info = {**NEW, "fixed": classes is not None, "prior": self._learn_prior()}
            record = Record(self.store, StoredTask(self.store.add_task(name, info), name, info, closed=False, labels=0))
            self.records[name] = record
            self._labelled = None
            if classes is not None:
                self.add_classes(record, classes)
            return record

    def _learn_prior(self) -> list[float]:
        """The experts' weights before the first label of a new task: how they did on the first labels of past ones."""
        past = [record for record in self.records.values() if record.count >= PRIOR_LABELS]
        sums = [
            record.start.follow(record.facts[:PRIOR_LABELS], record.y[:PRIOR_LABELS]).mixture.losses
            for record in past[-PRIOR_TASKS:]
        ]
        return learn_prior(np.array(sums), np.array(FIRST)).tolist() if sums else FIRST

    def add_classes(self, record: Record, names: list[Any]) -> None:
        """Give outputs to new classes of a task. The learner gets more outputs if it has too few."""
        others = [other.slots for other in self.records.values() if other is not record]
        chosen = choose_slots([repr(name) for name in names], record.slots, others)
        outputs = count_outputs([*others, record.slots, chosen])
        if outputs > self.setup.outputs:
            self.setup.settle_outputs(outputs)
            if self._learning is not None:
                self._learning.grow(outputs)
        record.change(classes=[*record.classes, *names], slots=[*record.info["slots"], *chosen.values()])

    def past(self) -> Past:
        """What closed tasks showed."""
        closed = [record for record in self.records.values() if record.closed]
        version = sum(record.version + 1 for record in closed)
        if self._past is None or self._past[0] != version:
            looks = [[looks_from_json(look) for look in record.info["looks"]] for record in closed]
            self._past = version, Past.of(looks, self.setup.measure)
        return self._past[1]

    def labels_changed(self, record: Record) -> None:
        """Learn from the labels of this task as they are now."""
        self._labelled, self._last = None, record

    def remove(self, record: Record) -> None:
        """Remove a task, and everything that was learned."""
        with self.changing:
            self.store.forget(record.number)
            del self.records[record.name]
            self._labelled = None
            self._last = None if self._last is record else self._last
            for snapshot in self.snapshots:
                snapshot.path.unlink()
            if self._learning is not None:
                self._learning.start_again()

    def labelled(self) -> tuple[list[Labelled], int]:
        """The labels of all tasks, and the place of the task that received the last one."""
        if self._labelled is None:
            for record in list(self.records.values()):
                record.labelled()  # may read from disk, so before others have to wait
        with self.changing:
            if self._labelled is None:
                records = list(self.records.values())
                place = records.index(self._last) if self._last in records else 0
                self._labelled = [record.labelled() for record in records], place
            return self._labelled

    def encode(self, x: Any) -> np.ndarray:
        """Inputs as arrays of one shape."""
        self.check_open()
        with self.changing:
            return self.setup.encode(x)

    def check_open(self) -> None:
        """Refuse to work on a folder that was closed."""
        if not self.open:
            folder = str(self.store.folder)
            raise InputError(f"{folder} was closed; open it again with anyshot.Lifelong({folder!r})")

    def close(self) -> None:
        """Let other processes open the folder."""
        with self.changing:
            if self.open:
                self.open = False
                self.store.close()
