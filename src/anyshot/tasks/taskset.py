"""Task sets: the examples of T tasks as arrays, made of your own data or by `load_tasks`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Int

from anyshot.errors import InputError
from anyshot.inputs import is_known
from anyshot.tasks.encoders import Encoder
from anyshot.tasks.fingerprint import hash_arrays, hash_lines
from anyshot.tasks.frames import FrameEncoder, read_frames
from anyshot.tasks.images import ImageEncoder, find_images
from anyshot.tasks.labels import ClassNames, Label
from anyshot.tasks.own_arrays import join_arrays, read_pairs, split_rows
from anyshot.tasks.rows import PARTS, Part, TaskRows
from anyshot.tasks.taskset_checks import check_content, check_numbers, check_structure

Tasks = TypeVar("Tasks", bound="TaskSet")


@dataclasses.dataclass(frozen=True)
class Origin:
    """How to make a task set again: `load_tasks(origin.name, seed=origin.seed, **dict(origin.settings))`.

    Attributes:
        name: of the task set in the catalogue.
        seed: of the task set.
        settings: names and values of the settings that are not the default, sorted by name.
    """

    name: str
    seed: int = 0
    settings: tuple[tuple[str, int | str], ...] = ()


class TaskSet(TaskRows):
    """T tasks that share one pool of examples.

    Each task has rows of the pool to train on (`train_rows`) and others to test on (`test_rows`). Draws return row
    numbers, not copies of examples. `look_up` returns the examples of these rows.

    `x` and `y` may be memory-mapped files; on the host, draws read only the rows they need. Call `on_device` before you
    look up examples inside `jax.jit` or `jax.vmap`. Integer labels are classes, counted from 0, and booleans become the
    classes 0 and 1; float labels are targets of a regression.

    Args:
        name: of the task set.
        x: inputs, one row per example.
        y: labels, one row per example.
        train_rows: rows of `x` and `y` to train on, one line per task.
        test_rows: rows to test on, one line per task; none of them is in `train_rows` of the same task.
        task_names: one name per task.
        fingerprint: identifies the content. By default the arrays are checked for NaN and the like, then hashed; if it
            is given, the values in `x` and `y` are not read.
        train_tasks: offline split: the first `train_tasks` tasks are for meta-training; 0 if there is no split.
        train_counts: how many of a task's train rows are its own, if tasks have different sizes; those behind them are
            padding, which is never drawn as data. None if all tasks have as many rows as `train_rows` has columns.
        test_counts: the same for the test rows.
        origin: how `load_tasks` makes this set again; None for a set of your own.
        class_names: what the classes 0, 1, ... are called; None if they have no names but their numbers.
        unlabelled: how many examples of each task were left out because they had no label; None if nobody counted.
        encoder: what made the inputs of frames, images or texts, and makes those of new ones.

    >>> import jax, numpy as np
    >>> pool = np.arange(6.0, dtype=np.float32)[:, None]
    >>> tasks = TaskSet("toy", pool, 10 * pool, np.array([[0, 1], [3, 4]]), np.array([[2], [5]]), ("low", "high"))
    >>> shots = tasks.shots(jax.random.key(0), task=1, count=2)
    >>> print(sorted(shots.x[:, 0].tolist()), tasks.look_up(tasks.test_rows[1])[1])
    [3.0, 4.0] [[50.]]
    """

    equal_sizes: ClassVar[bool] = False  # whether all tasks must have the same number of rows

    origin: Origin | None = eqx.field(static=True, default=None)
    class_names: tuple[Label, ...] | None = eqx.field(static=True, default=None)
    unlabelled: tuple[int, ...] | None = eqx.field(static=True, default=None)
    encoder: Encoder | None = eqx.field(static=True, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.task_names, list):
            self.task_names = tuple(self.task_names)
        if getattr(self.y, "dtype", None) == np.bool_:
            self.y = self.y.astype(np.int32)
        arrays = {name: getattr(self, name) for name in ("x", "y", "train_rows", "test_rows")}
        counts = {"train_rows": self.train_counts, "test_rows": self.test_counts}
        check_structure(self.name, self.task_names, arrays, counts)
        self.train_counts, self.test_counts = (
            None if own is None or set(own) == {arrays[part].shape[1]} else own for part, own in counts.items()
        )
        if self.equal_sizes and (self.train_counts or self.test_counts):
            raise InputError(f"{type(self).__name__} needs the same number of rows for each task, got {counts}")
        if not self.fingerprint and all(is_known(array) for array in arrays.values()):
            on_host = {name: np.asarray(array) for name, array in arrays.items()}
            check_content(self.task_names, on_host, self.train_tasks, self.class_names)
            sizes = {"train_counts": self.train_counts, "test_counts": self.test_counts}
            on_host |= {name: np.asarray(own) for name, own in sizes.items() if own is not None}
            self.fingerprint = hash_arrays(on_host, self.task_names, self.train_tasks)

    @classmethod
    def from_arrays(
        cls: type[Tasks],
        tasks: Mapping[str, tuple[Any, Any]] | Sequence[tuple[Any, Any]],
        *,
        encoder: Encoder | None = None,
        test_size: int | float = 0.25,
        name: str = "own tasks",
        seed: int = 0,
        train_tasks: int = 0,
    ) -> Tasks:
        """Make a task set from one pair (x, y) per task: inputs and labels. Tasks may have different sizes.

        Strings, whole numbers, booleans and pandas categories are classes. They become numbers 0..C-1, and `decode`
        gives them back. Floats are targets of a regression. Examples whose label is None, NaN or NA are left out.

        Args:
            tasks: the pairs by the name of the task, or a sequence of pairs, whose tasks are called "task 0" and so on.
            encoder: makes arrays of inputs that are none, such as texts; by default inputs are arrays.
            test_size: rows of each task that are for testing: a number of rows (int), or a share of them (float below
                1), rounded to whole rows.
            name: of the task set.
            seed: decides which rows of a task are for testing.
            train_tasks: offline split: the first `train_tasks` tasks are for meta-training; 0 if there is no split.

        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(20, 5))
        >>> signs = np.where(x[:, 0] > 0, "up", "down")
        >>> tasks = TaskSet.from_arrays({"all": (x, signs), "few": (x[:9], signs[:9])}, test_size=3)
        >>> print(tasks.class_names, tasks.y[:4], tasks.counts("train"), tasks.decode([0, 1]))
        ('down', 'up') [1 1 0 0] [17  6] ['down' 'up']
        """
        inputs, labels = read_pairs(tasks, encoder.encode if encoder else None)
        split = split_rows(list(inputs), [len(x) for x in inputs.values()], test_size, seed)
        own = vars(join_arrays(inputs, labels)) | vars(split)
        return cls(name=name, task_names=tuple(inputs), train_tasks=train_tasks, encoder=encoder, **own)

    @classmethod
    def from_frames(
        cls: type[Tasks],
        frames: Mapping[str, Any] | Sequence[Any],
        target: str | Sequence[str],
        *,
        encoder: FrameEncoder | None = None,
        kinds: Mapping[str, str] | None = None,
        test_size: int | float = 0.25,
        name: str = "own tasks",
        seed: int = 0,
        train_tasks: int = 0,
    ) -> Tasks:
        """Make a task set from one pandas DataFrame per task. One column holds the labels, the others are inputs.

        Columns may be numbers, booleans, dates, categories or text, with missing values. `tasks.encoder` makes inputs
        of new frames. Labels are read as by `from_arrays`.

        Args:
            frames: by the name of the task, or a sequence. All need the columns of the first; others are ignored.
            target: the column of the labels; several columns are the components of a regression's target.
            encoder: already fitted; by default it is fitted on the train rows of all tasks.
            kinds: of columns that are not what they look like, such as {"postcode": "category"}; see `FrameEncoder`.
            test_size: as in `from_arrays`, and so are the others.
            name: of the task set.
            seed: decides which rows of a task are for testing.
            train_tasks: offline split.

        >>> import pandas as pd
        >>> loans = pd.DataFrame({"age": [31, 45, 52, 60], "city": list("abba"), "risk": ["low", "high", None, "low"]})
        >>> tasks = TaskSet.from_frames({"2023": loans, "2024": loans[:2]}, target="risk", test_size=0)
        >>> print(tasks.x.shape, tasks.class_names, tasks.unlabelled, tasks.encoder.column_names)
        (5, 3) ('high', 'low') (1, 0) ['age', 'city=a', 'city=b']
        """
        encoder, inputs, labels, split = read_frames(frames, target, encoder, kinds, test_size, seed)
        own = vars(join_arrays(inputs, labels)) | vars(split)
        return cls(name=name, task_names=tuple(inputs), train_tasks=train_tasks, encoder=encoder, **own)

    @classmethod
    def from_folder(
        cls: type[Tasks],
        path: str | Path,
        *,
        size: tuple[int, int] = (28, 28),
        channels: int = 3,
        test_size: int | float = 0.25,
        name: str = "",
        seed: int = 0,
        train_tasks: int = 0,
    ) -> Tasks:
        """Make a task set from image files `path/task/class/image.png`. The names of the folders are the classes.

        Args:
            path: of the folder with one folder per task. Hidden files are skipped; a file that is no image is refused.
            size: height and width that the images are resized to.
            channels: 3 for colour, 1 for grey.
            test_size: as in `from_arrays`, and so are the others.
            name: of the task set; by default that of the folder.
            seed: decides which rows of a task are for testing.
            train_tasks: offline split.
        """
        pairs = find_images(Path(path))
        return cls.from_arrays(
            pairs,
            encoder=ImageEncoder(size, channels),
            test_size=test_size,
            name=name or Path(path).resolve().name,
            seed=seed,
            train_tasks=train_tasks,
        )

    @property
    def task_classes(self) -> Bool[np.ndarray, "tasks classes"]:
        """Which classes each task has, among its train and test rows."""
        present = np.zeros((self.num_tasks, len(self._classes().names)), bool)
        y = np.asarray(self.y)
        for task in range(self.num_tasks):
            for part in PARTS:
                present[task, y[self.rows_of(task, part)]] = True
        return present

    def encode(self, labels: Any) -> Int[np.ndarray, " n"]:
        """The numbers of these classes, which shots need."""
        return self._classes().encode(labels)

    def decode(self, numbers: Any) -> np.ndarray:
        """The classes of these numbers, as they were given: `tasks.decode(run.predict(shots, x).argmax(-1))`."""
        return self._classes().decode(numbers)

    def choose(self, outputs: Any, task: int) -> np.ndarray:
        """For each row of outputs the class whose output is the largest, among the classes that the task has."""
        return self.decode(np.where(self.task_classes[task], np.asarray(outputs), -np.inf).argmax(-1))

    def select(self: Tasks, tasks: Iterable[int]) -> Tasks:
        """The set of these tasks only, in this order. Draws from it return nothing of the other tasks.

        It keeps the offline split if the tasks to train on come first; otherwise it has none. It has no `origin`.
        """
        chosen = np.asarray(list(tasks))
        check_numbers(self.name, chosen, self.num_tasks)
        names = tuple(self.task_names[task] for task in chosen)
        trains = chosen < self.train_tasks
        return dataclasses.replace(
            self,
            **self._select_rows("train", chosen),
            **self._select_rows("test", chosen),
            task_names=names,
            fingerprint=hash_lines({"of": self.fingerprint}, names, tasks=chosen.tolist()),
            train_tasks=int(trains.sum()) if trains[: trains.sum()].all() else 0,
            origin=None,
            unlabelled=None if self.unlabelled is None else tuple(self.unlabelled[task] for task in chosen),
        )

    def offline_split(self: Tasks) -> tuple[Tasks, Tasks]:
        """The tasks for meta-training, and the unseen tasks for testing."""
        if not 0 < self.train_tasks < self.num_tasks:
            raise InputError(
                f"{self.name} has no offline split: {self.train_tasks} of {self.num_tasks} tasks train; "
                "split before selecting, or select tasks of both kinds, those to train on first"
            )
        return self.select(range(self.train_tasks)), self.select(range(self.train_tasks, self.num_tasks))

    def _select_rows(self, part: Part, chosen: Int[np.ndarray, " n"]) -> dict[str, Any]:
        rows, uneven = self._rows(part)[chosen], self._uneven(part)
        if uneven is None:
            return {f"{part}_rows": rows}
        own = tuple(uneven[task] for task in chosen)
        return {f"{part}_rows": rows[:, : max(own)], f"{part}_counts": own}

    def _classes(self) -> ClassNames:
        if not np.issubdtype(self.y.dtype, np.integer) or self.unit > 1 or self.y.ndim > 1:
            raise InputError(f"{self.name} has no classes: an example is a pair, or its label is a target")
        return ClassNames(self.class_names or tuple(range(int(np.max(self.y)) + 1)))
