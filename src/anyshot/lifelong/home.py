"""What all tasks of a folder share: the store, the settings, the learner."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from anyshot.errors import InputError
from anyshot.learners.catalogue import has_features
from anyshot.lifelong.contents import StoredTask, check_name
from anyshot.lifelong.engine import AllLabelled
from anyshot.lifelong.estimates import Past
from anyshot.lifelong.inputs import Inputs
from anyshot.lifelong.learning import Learning
from anyshot.lifelong.looks import from_json as looks_from_json
from anyshot.lifelong.mixture import learn_prior
from anyshot.lifelong.moments import Moments
from anyshot.lifelong.record import NEW, Record
from anyshot.lifelong.setup import Setup
from anyshot.lifelong.slots import choose_slots, count_outputs
from anyshot.lifelong.snapshots import (
    Snapshot,
    list_snapshots,
    load_newest,
    next_path,
    read_snapshot,
    remove_all,
    remove_old,
)
from anyshot.lifelong.store import Store
from anyshot.tasks.frames import FrameEncoder
from anyshot.tasks.labels import ReadLabels

SNAPSHOTS, LOOKS = "snapshots", "looks"
ROWS_AT_ONCE = 4096
# The experts' weights before any label, without and with features. At first little has been learned.
FIRST = {False: [0.1, 0.45, 0.45], True: [0.03, 0.2, 0.4, 0.37]}
UPDATES_PER_LABEL = 2  # with more, what is learned from a few labels does worse on new tasks
PRIOR_LABELS, PRIOR_TASKS = 5, 20  # the first labels of the last tasks say how to weigh the experts at first


class Home:
    """The records of all tasks and the learner that learns from them.

    Args:
        store: keeps the tasks.
        setup: the settings.
        start: a snapshot to begin with, if the folder has none; it is checked at once.
    """

    def __init__(self, store: Store, setup: Setup, start: Path | None) -> None:
        self.store, self.setup = store, setup
        self.moments = Moments(store.folder / LOOKS)
        self.changing = threading.RLock()  # one thread changes labels or classes at a time
        self.open = True
        self.records = {task.name: Record(store, task) for task in store.list_tasks()}
        self._start = start
        self._last = next((record for record in reversed(self.records.values()) if record.count), None)
        self._labelled: AllLabelled | None = None
        self._learning: Learning | None = None
        self._past: tuple[list[tuple[int, int]], Past] | None = None
        if start is not None:
            _ = self.learning

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
                found = load_newest(self.store.folder / SNAPSHOTS, lambda path: self.load(learning, path))
                if not found and self._start is not None and not self.load(learning, self._start):
                    raise InputError(f"start is {self._start}, which was learned from inputs or labels of another kind")
                self._learning = learning
            return self._learning

    def load(self, learning: Learning, path: Path) -> bool:
        """Go on from a snapshot. Returns whether it was of inputs and labels like these; else nothing is changed."""
        arrays, about = read_snapshot(path)
        now, outputs = self.setup.describe(), about["learner"]["problem"]["outputs"]
        if any(about.get(name, now[name]) != now[name] for name in ("kind", "shape", "dtype")):
            return False
        if not learning.classification and outputs != learning.outputs:
            return False
        learning.restore(arrays, about, path)
        return True

    @property
    def updates_due(self) -> int:
        """How many updates are still to be made on the labels that there are."""
        made = 0 if self._learning is None else self._learning.now.updates
        return max(0, UPDATES_PER_LABEL * int(self.labelled().counts.sum()) - made)

    @property
    def snapshots(self) -> list[Snapshot]:
        """What is saved of the learner, oldest first."""
        return list_snapshots(self.store.folder / SNAPSHOTS)

    def save(self, tag: str = "") -> bool:
        """Save what was learned. Returns whether there was anything: before the first label there is not."""
        learning = self.learning
        if learning is None or self.store.is_empty:
            return False
        folder = self.store.folder / SNAPSHOTS
        learning.save(next_path(folder), {"tag": tag, **self.describe()})
        remove_old(folder)
        return True

    def describe(self) -> dict[str, Any]:
        """What a snapshot says about inputs and labels: names of classes and of categories in frames, but no examples.

        The encoder of frames also has the mean and the spread of each column of numbers, in the frame it was fitted to.
        """
        slots: dict[str, int] = {}
        for record in self.records.values():
            slots |= record.slots
        return {**self.setup.describe(), "slots": slots, "prior": self._learn_prior()}

    def begin(self, name: str, classes: list[Any] | None) -> Record:
        """Begin a task."""
        check_name(name)
        with self.changing:
            if classes is not None:
                labels = ReadLabels(np.array(classes, object), np.ones(len(classes), bool), are_classes=True)
                self.check_labels(labels)
                self._reopen_kind(labels)
            names, others = classes or [], [record.slots for record in self.records.values()]
            kept = {"classes": names, "slots": self._choose_slots(names, {}, others) if names else []}
            info = {**NEW, **kept, "fixed": classes is not None, "prior": self._learn_prior()}
            record = Record(self.store, StoredTask(self.store.add_task(name, info), name, info, closed=False, labels=0))
            self.records[name] = record
            self._labelled = None
            return record

    def _learn_prior(self) -> list[float]:
        """The experts' weights before the first label of a new task: how they did on the first labels of past ones."""
        first = self.setup.start["prior"] if self.setup.start else FIRST[has_features(self.setup.learner.learner)]
        past = [record for record in self.records.values() if record.count]
        sums = [
            record.start.follow(record.facts[:PRIOR_LABELS], record.y[:PRIOR_LABELS]).mixture.losses
            for record in past[-PRIOR_TASKS:]
        ]
        return learn_prior(np.array(sums), np.array(first)).tolist() if sums else first

    def add_classes(self, record: Record, names: list[Any]) -> None:
        """Give outputs to new classes of a task. The learner gets more outputs if it has too few."""
        others = [other.slots for other in self.records.values() if other is not record]
        slots = self._choose_slots(names, record.slots, others)
        record.change(classes=[*record.classes, *names], slots=[*record.info["slots"], *slots])

    def _choose_slots(self, names: list[Any], taken: dict[str, int], others: list[dict[str, int]]) -> list[int]:
        if self.setup.start:
            others = [self.setup.start["slots"], *others]
        chosen = choose_slots([repr(name) for name in names], taken, others)
        self.setup.settle_classes(count_outputs([*others, taken, chosen]))
        if self._learning is not None:
            self._learning.grow(self.setup.outputs)
        return list(chosen.values())

    def check_labels(self, read: ReadLabels) -> None:
        """Refuse labels of another kind than those that there are, or than the classes that tasks were begun with."""
        conflict = self.setup.find_conflict(read)
        decided = self.setup.start or any(record.count or record.info["fixed"] for record in self.records.values())
        if conflict is not None and decided:
            raise InputError(conflict)

    def settle(self, inputs: Inputs, read: ReadLabels) -> None:
        """Store what inputs and labels are; `check_labels` has seen these labels, which are stored next."""
        self._reopen_kind(read)
        if inputs is not self.setup.inputs:
            self._learning = None
        self.setup.settle_inputs(inputs)
        if not read.are_classes:
            self.setup.settle_targets(read)

    def _reopen_kind(self, read: ReadLabels) -> None:
        """Without any label, let these decide anew what labels are."""
        if self.setup.find_conflict(read) is not None:
            self.setup.reopen_kind()
            self._learning = None
            for record in self.records.values():
                record.change(classes=[], slots=[])

    def past(self) -> Past:
        """What closed tasks showed."""
        closed = [record for record in self.records.values() if record.closed]
        version = [(record.number, record.version) for record in closed]
        if self._past is None or self._past[0] != version:
            looks = [[looks_from_json(look) for look in record.info["looks"]] for record in closed]
            self._past = version, Past.of(looks, self.setup.measure)
        return self._past[1]

    def labels_changed(self, record: Record) -> None:
        """Learn from the labels of this task as they are now."""
        self._last = record
        if self._labelled is not None:  # of all other tasks it stays as it is
            self._labelled = self._labelled.replace(list(self.records.values()).index(record), record.labelled())
        if self._start is not None:  # from now on the folder has it
            if not self.snapshots:
                self.save()
            self._start = None

    def remove_moments(self) -> None:
        """Remove from the disk what was learned up to looks that are judged or dropped."""
        self.moments.keep_only({name for record in self.records.values() for name in record.info["kept"].values()})

    def remove(self, record: Record) -> None:
        """Remove a task, everything that was learned, and the names of categories that no other task has."""
        with self.changing:
            remove_all(self.store.folder / SNAPSHOTS)
            self.moments.remove_all()
            if isinstance(self.setup.inputs.encoder, FrameEncoder) and not self.store.is_empty:
                others = [other for other in self.records.values() if other is not record]
                self.setup.forget_categories(self._find_used(others) | ~self._find_used([record]))
            self.store.forget(record.number)  # also clears the database of what it held before
            record.forgotten = True
            del self.records[record.name]
            self._labelled = None
            self._last = None if self._last is record else self._last
            if self._learning is not None:
                self._learning.start_again()

    def _find_used(self, records: Sequence[Record]) -> Bool[np.ndarray, " numbers"]:
        """Which numbers of an encoded frame are 1 in some input of these tasks."""
        assert self.setup.shape is not None
        used = np.zeros(self.setup.shape, bool)
        for record in records:
            for start in range(0, record.count, ROWS_AT_ONCE):
                used |= (self.store.read(record.ids[start : start + ROWS_AT_ONCE]) == 1).any(axis=0)
        return used

    def labelled(self) -> AllLabelled:
        """The labels of all tasks."""
        if self._labelled is None:
            for record in list(self.records.values()):
                record.labelled()  # may read from disk, so before others have to wait
        with self.changing:
            if self._labelled is None:
                records = list(self.records.values())
                place = records.index(self._last) if self._last in records else 0
                self._labelled = AllLabelled.of([record.labelled() for record in records], place)
            return self._labelled

    def encode(self, x: Any) -> np.ndarray:
        """Inputs as arrays of one shape."""
        self.check_open()
        with self.changing:
            rows, inputs = self.setup.encode(x)
            if inputs is not self.setup.inputs:  # there is no label yet, and these decide
                self.setup.inputs, self._learning = inputs, None
            return rows

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
