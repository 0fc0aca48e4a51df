"""A learner that lives with you: tasks come one after another, labels a few at a time, and all are remembered."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from anyshot.errors import InputError
from anyshot.lifelong.arguments import (
    check_classes,
    check_count,
    check_folder,
    check_new_file,
    check_seconds,
    check_tag,
)
from anyshot.lifelong.background import learn_in_background
from anyshot.lifelong.contents import check_name
from anyshot.lifelong.home import Home
from anyshot.lifelong.settings import complete_settings
from anyshot.lifelong.setup import Setup, check_encoder
from anyshot.lifelong.snapshots import Snapshot
from anyshot.lifelong.starting import Start
from anyshot.lifelong.store import DATABASE, open_store
from anyshot.lifelong.summaries import show_tasks, tabulate_tasks
from anyshot.lifelong.task import Task
from anyshot.runs.files import writing
from anyshot.tasks.encoders import Encoder


class Lifelong:
    """Tasks of your own, a learner that learns from all of them, and a folder that keeps both.

    Opened again, it goes on where it was. One process has it at a time.

    Args:
        folder: new, or of an earlier `Lifelong`.
        learner: the method, by its name in the catalogue; by default ridge-head, or the folder's.
        network: "auto" takes one that suits the inputs; or a registered one by name, or with settings such as
            {"kind": "mlp", "hidden": (64,)}.
        encoder: makes arrays of inputs that are no arrays, such as `anyshot.tasks.ImageEncoder`. DataFrames need none.
        max_shots: M, the largest number of labels that the learner adapts to; a task may have more.
        tasks_per_update: the number of tasks in a meta-batch.
        seed: of the initial weights and of every draw.
        start: a file that `export` wrote: a folder without labels begins with what was learned there. Inputs, labels
            and the settings of the learner must be as there.
        hyperparameters: of the learner, such as inner_rate=0.03.

    >>> import tempfile
    >>> import numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> life = Lifelong(folder.name, network={"kind": "mlp", "hidden": (8,)})
    >>> task = life.task("loans-it", classes=["ok", "bad"])
    >>> print(task.predict_proba(np.zeros((1, 3))).shape)
    (1, 2)
    >>> numbers = task.observe(np.eye(3), ["ok", "bad", "ok"])
    >>> print(task)
    <task 'loans-it': 3 labels, classes ok, bad>
    >>> life.close(); folder.cleanup()
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        learner: str | None = None,
        network: str | Mapping[str, Any] | None = None,
        encoder: Encoder | None = None,
        max_shots: int | None = None,
        tasks_per_update: int | None = None,
        seed: int | None = None,
        start: str | Path | None = None,
        **hyperparameters: Any,
    ) -> None:
        given = {"learner": learner, "network": network, "max_shots": max_shots, "seed": seed}
        given |= {"tasks_per_update": tasks_per_update, "hyperparameters": hyperparameters or None}
        given = {name: value for name, value in given.items() if value is not None}
        place = check_folder(folder)
        check_encoder(encoder)
        begin = None if start is None else Start.read(start)
        if not (place / DATABASE).exists():  # what cannot be right is refused before anything is written
            settings = complete_settings(given)
            if begin is not None:
                begin.check(settings)
        store = open_store(place)
        try:
            setup = Setup(store, given, encoder, begin)
            self._home = Home(store, setup, None if begin is None else begin.path)
        except BaseException:
            store.close()
            raise
        self._tasks: dict[str, Task] = {}
        self._is_learning = False

    def __repr__(self) -> str:
        records, learning = self._home.records.values(), self._home.learning
        labels, updates = sum(record.count for record in records), learning.now.updates if learning else 0
        return f"<Lifelong {self._home.store.folder}: {len(records)} tasks, {labels} labels, {updates} updates>"

    def _repr_html_(self) -> str:
        return show_tasks(repr(self).strip("<>"), list(self._home.records.values()) if self._home.open else [])

    def __enter__(self) -> Lifelong:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks, in the order in which they began."""
        return list(self._home.records)

    @property
    def table(self) -> pd.DataFrame:
        """A row for each task: its labels, and how the mixture and each expert did before they saw them."""
        self._home.check_open()
        return tabulate_tasks(self._home.records.values())

    def task(self, name: str, classes: Sequence[Any] | None = None) -> Task:
        """Begin a task, or get one that there is. A closed one stays closed and predicts; see `Task.reopen`.

        Args:
            name: of the task.
            classes: all classes that it has. Without them, classes are those of the labels that come, and floats make
                it a regression.
        """
        home = self._home
        home.check_open()
        check_name(name)
        names = None if classes is None else check_classes(classes)
        if name not in home.records:
            home.begin(name, names)
            return self._task(name)
        task = self._task(name)
        if names is not None and list(map(repr, names)) != list(map(repr, task.classes)):
            raise InputError(f"classes is {names}, but task {name!r} has {task.classes}; leave classes out to get it")
        return task

    def learn(self, seconds: float | int | None = None, updates: int | None = None) -> int:
        """Make meta-updates on the labels of all tasks, and save what was learned.

        Args:
            seconds: for so long.
            updates: or so many. By default until two have been made for each label that there is.

        Returns:
            The number of updates.
        """
        home = self._home
        home.check_open()
        if seconds is not None:
            check_seconds("seconds", seconds)
        if updates is not None:
            check_count("updates", updates)
        if home.learning is None:
            return 0
        if seconds is None and updates is None:
            updates = home.updates_due
        started = time.monotonic()

        def go_on(made: int) -> bool:
            in_time = seconds is None or time.monotonic() - started < seconds
            return in_time and (updates is None or made < updates)

        made = home.learning.learn(home.labelled, go_on)
        home.save()
        return made

    @contextmanager
    def learning(self, pause: float | int = 0.0, save_every: float | int = 30.0) -> Iterator[None]:
        """Learn in the background, in a thread of its own, while the block runs. Predictions do not wait for it.

        It makes two updates for each label that there is, and then waits for new ones.

        Args:
            pause: seconds to rest after each update, so that predictions have the processor to themselves.
            save_every: seconds between snapshots.
        """
        self._home.check_open()
        check_seconds("pause", pause)
        check_seconds("save_every", save_every)
        if self._is_learning:
            raise InputError("learning has begun already; one thread learns at a time")
        self._is_learning = True
        try:
            with learn_in_background(self._home, pause, save_every):
                yield
        finally:
            self._is_learning = False

    def forget(self, name: str, updates: int | None = None) -> None:
        """Remove a task: its inputs, labels and name from the disk, and what was learned from it.

        All snapshots are removed, and the learner learns again from what is left. Of a DataFrame, the categories that
        only inputs of this task have are removed, too. What stays are columns' names, and mean and spread of numbers
        if this task had the first frame; categories of inputs that never had a label, or whose label was deleted
        before; and what you exported or copied elsewhere.

        Args:
            name: of the task.
            updates: to make on what is left; by default as many as had been made.
        """
        home = self._home
        home.check_open()
        if not isinstance(name, str) or name not in home.records:
            raise InputError(f"name must be one of the tasks {', '.join(self.tasks) or '(none)'}, got {name!r}")
        if updates is not None:
            check_count("updates", updates)
        with home.changing:
            wanted = (home.learning.now.updates if home.learning else 0) if updates is None else updates
            home.remove(home.records[name])
            self._tasks.pop(name, None)
            self.learn(updates=wanted)

    @property
    def snapshots(self) -> list[Snapshot]:
        """What is saved of the learner, oldest first, without files that are damaged."""
        return self._home.snapshots

    def save(self, tag: str) -> None:
        """Save what was learned under a name, for `roll_back`. It is kept until a task is forgotten.

        Args:
            tag: up to 100 characters, not only digits; no other snapshot has it.
        """
        self._home.check_open()
        check_tag(tag, [one.tag for one in self._home.snapshots])
        if not self._home.save(tag):
            raise InputError("there is nothing to save yet; observe some labels and learn first")

    def roll_back(self, snapshot: int | str) -> None:
        """Go back to what was learned then. Labels stay.

        Args:
            snapshot: its number or tag; see `snapshots`.
        """
        home = self._home
        home.check_open()
        there = home.snapshots
        found = [one for one in there if snapshot in (one.number, one.tag) and snapshot != "" and snapshot is not True]
        if not found or home.learning is None:
            shown = ", ".join(f"{one.number} {one.tag}".strip() for one in there) or "(none)"
            raise InputError(f"snapshot must be the number or tag of one of these: {shown}; got {snapshot!r}")
        with home.changing:
            if not home.load(home.learning, found[-1].path):
                raise InputError(f"snapshot is {snapshot!r}, which was learned from inputs or labels of another kind")
            home.save()

    def export(self, path: str | Path) -> Path:
        """Write what was learned to one file, for `Lifelong(folder, start=path)` elsewhere.

        It holds weights, settings and the names of classes, but no inputs, no labels and no code. If inputs are frames,
        it holds how they are encoded: names of columns and categories, and the mean and spread of numbers.
        """
        self._home.check_open()
        checked = check_new_file(path)
        if self._home.learning is None:
            raise InputError("there is nothing to export yet; observe some labels and learn first")
        with writing(checked.parent, "export again"):
            self._home.learning.save(checked, {"tag": "", **self._home.describe()})
        return checked

    def close(self) -> None:
        """Close the folder, so that another process can open it."""
        self._home.close()

    def _task(self, name: str) -> Task:
        if name not in self._tasks:
            self._tasks[name] = Task(self._home, self._home.records[name])
        return self._tasks[name]
