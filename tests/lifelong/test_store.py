"""The store against a model of it in memory, and against kills, full disks, damage and bad input."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from anyshot.errors import RunError
from anyshot.lifelong import segments
from anyshot.lifelong.store import DeletedError, Store, open_store
from tests.support.refusals import assert_refused
from tests.support.stores import (
    all_bytes,
    append,
    make_facts,
    make_x,
    small_store,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Two tasks and seven examples."""
    with small_store(tmp_path / "store") as made:
        yield made


# A model -------------------------------------------------------------------------------------------------------------


class StoreMachine(RuleBasedStateMachine):
    """Whatever is done in whatever order, the store holds what a few dicts hold."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.small = patch.multiple(segments, SMALLEST=200, LARGEST=1000)  # of which an example takes 64
        self.small.start()
        self.store = open_store(self.folder)
        self.tasks: dict[int, dict[str, Any]] = {}
        self.settings: dict[str, Any] = {}
        self.examples: dict[int, dict[str, Any]] = {}
        self.happened: list[tuple[str, int, int | None]] = []
        self.begun = self.appended = 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.small.stop()
            shutil.rmtree(self.folder)

    @rule(real=st.booleans(), size=st.sampled_from([None, 1, 3]))
    def add_task(self, real: bool, size: int | None) -> None:
        name = f"<name {self.begun}>"
        assert self.store.add_task(name, {"note": name}) == self.begun
        self.tasks[self.begun] = {"name": name, "info": {"note": name}, "closed": False, "real": real, "size": size}
        self.happened.append(("task", self.begun, None))
        self.begun += 1

    def labels(self, task: int, count: int) -> np.ndarray:
        kind = self.tasks[task]
        shape = (count,) if kind["size"] is None else (count, kind["size"])
        drawn = np.random.default_rng(len(self.happened)).integers(10**11, 10**12, shape)
        return drawn / np.float64(7) if kind["real"] else drawn

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), count=st.integers(1, 9))
    def append(self, data: st.DataObject, count: int) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        numbers = np.arange(self.appended, self.appended + count)
        y = self.labels(task, count)
        assert self.store.append(task, make_x(numbers), y, make_facts(numbers)).tolist() == numbers.tolist()
        for number, label, fact in zip(numbers.tolist(), y.tolist(), make_facts(numbers), strict=True):
            self.examples[number] = {"task": task, "y": label, "facts": fact}
            self.happened.append(("append", task, number))
        self.appended += count

    def some(self, data: st.DataObject) -> tuple[int, list[int]]:
        """A task, and some of its examples."""
        task = self.examples[data.draw(st.sampled_from(sorted(self.examples)))]["task"]
        ids = [id_ for id_, example in self.examples.items() if example["task"] == task]
        return task, data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))

    @precondition(lambda self: self.examples)
    @rule(data=st.data(), facts=st.booleans())
    def correct(self, data: st.DataObject, facts: bool) -> None:
        task, ids = self.some(data)
        y, new = self.labels(task, len(ids)), [{"corrected": len(self.happened)} for _ in ids]
        self.store.correct(ids, y, new if facts else None)
        for id_, label, fact in zip(ids, y.tolist(), new, strict=True):
            self.examples[id_] |= {"y": label, **({"facts": fact} if facts else {})}
            self.happened.append(("correct", task, id_))

    @precondition(lambda self: self.examples)
    @rule(data=st.data(), length=st.integers(0, 300))
    def set_facts(self, data: st.DataObject, length: int) -> None:
        _, ids = self.some(data)
        self.store.set_facts(np.array(ids), [{"text": "x" * length, "number": id_} for id_ in ids])
        for id_ in ids:
            self.examples[id_]["facts"] = {"text": "x" * length, "number": id_}

    def assert_erased(self, ids: list[int], words: list[str]) -> None:
        texts = [json.dumps(label) for id_ in ids for label in np.ravel(self.examples[id_]["y"]).tolist()]
        data = all_bytes(self.folder)
        assert not any(x.tobytes() in data for x in make_x(ids))
        assert not any(text.encode() in data for text in texts + words)

    @precondition(lambda self: self.examples)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        task, ids = self.some(data)
        self.store.delete(ids)
        self.assert_erased(ids, [])
        for id_ in ids:
            del self.examples[id_]
            self.happened.append(("delete", task, id_))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        ids = [id_ for id_, example in self.examples.items() if example["task"] == task]
        self.store.forget(task)
        self.assert_erased(ids, [self.tasks.pop(task)["name"]])
        for id_ in ids:
            del self.examples[id_]
        self.happened.append(("forget", task, None))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), closed=st.none() | st.booleans(), info=st.none() | st.just({"new": [1, None]}))
    def change_task(self, data: st.DataObject, closed: bool | None, info: dict[str, Any] | None) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        self.store.change_task(task, info=info, closed=closed)
        self.tasks[task] |= ({} if closed is None else {"closed": closed}) | ({} if info is None else {"info": info})

    @rule(value=st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False)))
    def set_settings(self, value: dict[str, Any]) -> None:
        self.store.set_settings(value)
        self.settings = value

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.folder)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "store"):
            return
        tasks = self.store.list_tasks()
        assert [task.number for task in tasks] == sorted(self.tasks)
        for task in tasks:
            model = self.tasks[task.number]
            assert (task.name, task.info, task.closed) == (model["name"], model["info"], model["closed"])
            ids = sorted(id_ for id_, example in self.examples.items() if example["task"] == task.number)
            examples = self.store.examples(task.number)
            assert task.labels == len(ids)
            assert examples.ids.tolist() == ids
            assert examples.y.tolist() == [self.examples[id_]["y"] for id_ in ids]
            assert examples.facts == [self.examples[id_]["facts"] for id_ in ids]
            if ids:
                np.testing.assert_array_equal(self.store.read(examples.rows[::-1]), make_x(ids)[::-1])
        events = self.store.events()
        assert [(event.kind, event.task, event.example) for event in events] == self.happened
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert self.store.events(since=len(events) - 1) == events[-1:]
        assert self.store.settings == self.settings
        counts = self.store.counts
        assert (counts.tasks, counts.examples) == (len(self.tasks), len(self.examples))
        assert (counts.appended, counts.events) == (self.appended, len(events))


test_the_store_agrees_with_a_model = pytest.mark.medium(StoreMachine.TestCase)
StoreMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


def test_corrections_are_kept_until_the_example_is_deleted(store: Store) -> None:
    store.correct([2, 0], np.array([7, 8]))
    changes = [(event.example, event.old, event.new) for event in store.events() if event.kind == "correct"]
    assert changes == [(2, 20, 7), (0, 0, 8)]
    store.delete([0])
    changes = [(event.example, event.old, event.new) for event in store.events() if event.kind == "correct"]
    assert changes == [(2, 20, 7), (0, None, None)]


def test_numbers_come_back_as_they_went_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(size=50) * 10.0 ** rng.integers(-30, 30, 50), [0.0, -0.0]])
    whole = np.array([2**63 - 1, -(2**63), 0])
    with open_store(tmp_path) as store:
        for i, labels in enumerate([y * 1e270, y.astype(np.float32), whole, whole.astype(np.int32).reshape(1, 3)]):
            task = store.add_task(str(i), {})
            store.append(task, np.zeros((len(labels), 1), np.uint8), labels, [{}] * len(labels))
            found = store.examples(task).y
            assert found.dtype == (np.int64 if labels.dtype.kind == "i" else np.float64)
            assert found.astype(labels.dtype).tobytes() == labels.tobytes()
            assert found.shape == labels.shape


# Others --------------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_threads_read_while_others_append_correct_and_delete(tmp_path: Path) -> None:
    """What is read is always whole: label, facts and input of an example fit together."""
    with open_store(tmp_path) as store, patch.multiple(segments, SMALLEST=640, LARGEST=6400):
        for number in range(3):
            store.add_task(str(number), {})
        stop, failures, seen, lock = threading.Event(), [], set(), threading.Lock()

        def learn(task: int) -> None:
            try:
                while not stop.is_set():
                    examples = store.examples(task)
                    assert examples.y.tolist() == (10 * examples.ids).tolist()
                    assert [fact["number"] for fact in examples.facts] == examples.ids.tolist()
                    try:
                        found = store.read(examples.rows)
                    except DeletedError:
                        continue
                    if len(found):
                        np.testing.assert_array_equal(found, make_x(examples.ids))
                    seen.update(examples.ids.tolist())
            except BaseException as error:
                failures.append(error)

        def work(task: int) -> None:
            try:
                for step in range(12):
                    with lock:  # as the content is told from the number
                        ids = append(store, task, 5)
                    store.correct(ids[:2], 10 * ids[:2])
                    if step % 4 == 3:
                        store.delete(ids[1:3])
            except BaseException as error:
                failures.append(error)

        learners = [threading.Thread(target=learn, args=(task,)) for task in range(3)]
        workers = [threading.Thread(target=work, args=(task,)) for task in range(2)]
        for thread in learners + workers:
            thread.start()
        for thread in workers:
            thread.join()
        stop.set()
        for thread in learners:
            thread.join()
        assert not failures
        assert len(seen) > 20
        assert [task.labels for task in store.list_tasks()] == [54, 54, 0]


def test_deleted_rows_are_told_from_damaged_ones(store: Store) -> None:
    store.delete([1])
    with pytest.raises(DeletedError, match="1 has been deleted"):
        store.read(np.array([0, 1]))


@pytest.mark.parametrize("call", ["read", "examples", "append", "delete", "settings", "list_tasks"])
def test_after_close_each_call_says_so(call: str, store: Store) -> None:
    store.close()
    store.close()
    calls: dict[str, Callable[[], Any]] = {
        "read": lambda: store.read(np.array([0])),
        "examples": lambda: store.examples(0),
        "append": lambda: store.append(0, make_x([7]), np.array([1]), [{}]),
        "delete": lambda: store.delete([0]),
        "settings": lambda: store.settings,
        "list_tasks": store.list_tasks,
    }
    with pytest.raises(RunError, match=f"{store.folder} is closed"):
        calls[call]()


# Bad input -----------------------------------------------------------------------------------------------------------


NaN = np.full((1, 5, 3), np.nan, np.float32)
X, Y = make_x([7]), np.array([70])
REFUSALS: list[tuple[str, Callable[[Store], Any], list[str]]] = [
    ("nan", lambda s: s.append(0, NaN, Y, [{}]), ["x ", "(0, 0, 0)"]),
    ("inf", lambda s: s.append(0, NaN + np.inf, Y, [{}]), ["x ", "NaN and infinity"]),
    ("shape", lambda s: s.append(0, X[:, :4], Y, [{}]), ["x ", "(5, 3)", "(4, 3)"]),
    ("dtype of another", lambda s: s.append(0, X.astype(np.uint8), Y, [{}]), ["x ", "float32", "uint8"]),
    ("dtype", lambda s: s.append(0, X.astype(np.float64), Y, [{}]), ["x ", "float64"]),
    ("list", lambda s: s.append(0, X.tolist(), Y, [{}]), ["x ", "list"]),
    ("scalar", lambda s: s.append(0, np.zeros((), np.float32), Y, [{}]), ["x ", "()"]),
    ("nothing in it", lambda s: s.append(0, X[:, :0], Y, [{}]), ["x ", "(1, 0, 3)"]),
    ("lengths", lambda s: s.append(0, X, np.array([1, 2]), [{}]), ["x has 1", "y has 2"]),
    ("facts", lambda s: s.append(0, X, Y, []), ["x has 1", "facts has 0"]),
    ("no JSON", lambda s: s.append(0, X, Y, [{"p": np.zeros(2)}]), ["facts[0]", "JSON"]),
    ("nan in JSON", lambda s: s.append(0, X, Y, [{"p": float("nan")}]), ["facts[0]", "JSON"]),
    ("tuple in JSON", lambda s: s.append(0, X, Y, [{"p": (1, 2)}]), ["facts[0]", "tuples"]),
    ("no dict", lambda s: s.append(0, X, Y, [[1]]), ["facts[0]", "list"]),  # type: ignore[list-item]
    ("string labels", lambda s: s.append(0, X, np.array(["ok"]), [{}]), ["y ", "<U2"]),
    ("bool labels", lambda s: s.append(0, X, np.array([True]), [{}]), ["y ", "bool"]),
    ("nan labels", lambda s: s.append(0, X, np.array([np.nan]), [{}]), ["y ", "non-finite"]),
    ("real labels", lambda s: s.append(0, X, np.array([1.0]), [{}]), ["y ", "int64", "float64", "first"]),
    ("wide labels", lambda s: s.append(0, X, np.array([[1, 2]]), [{}]), ["y ", "(n,)", "(n, 2)"]),
    ("deep labels", lambda s: s.append(0, X, np.zeros((1, 2, 2)), [{}]), ["y ", "(1, 2, 2)"]),
    ("large labels", lambda s: s.append(0, X, np.array([2**64 - 1], np.uint64), [{}]), ["y ", "18446744073709551615"]),
    ("no such task", lambda s: s.append(5, X, Y, [{}]), ["task", "5"]),
    ("no such task to read", lambda s: s.examples(-1), ["task", "-1"]),
    ("no such task to forget", lambda s: s.forget(2), ["task", "2"]),
    ("no such task to change", lambda s: s.change_task(2, closed=True), ["task", "2"]),
    ("a name twice", lambda s: s.add_task("first", {}), ["name", "'first'"]),
    ("no name", lambda s: s.add_task("", {}), ["name", "''"]),
    ("half a character", lambda s: s.add_task("\ud800", {}), ["name", "printable"]),
    ("info", lambda s: s.add_task("third", {"x": {1, 2}}), ["info", "set"]),
    ("settings", lambda s: s.set_settings({1: "a"}), ["settings", "strings as keys"]),  # type: ignore[dict-item]
    ("no such example", lambda s: s.correct([0, 9], np.array([1, 2])), ["ids", "9"]),
    ("an example twice", lambda s: s.delete([1, 2, 1]), ["ids", "1"]),
    ("ids", lambda s: s.delete([0.5]), ["ids", "0.5"]),  # type: ignore[list-item]
    ("another kind of label", lambda s: s.correct([0], np.array([0.5])), ["y ", "int64"]),
    ("facts of a correction", lambda s: s.correct([0], Y, []), ["ids has 1", "facts has 0"]),
    ("facts of nothing", lambda s: s.set_facts([9], [{}]), ["ids", "9"]),
    ("row", lambda s: s.read(np.array([3, 7])), ["rows", "7"]),
    ("row below zero", lambda s: s.read(np.array([-1])), ["rows", "-1"]),
    ("half a row", lambda s: s.read(np.array([0.5])), ["rows", "float64"]),
]


@pytest.mark.parametrize(("call", "words"), [pytest.param(*case[1:], id=case[0]) for case in REFUSALS])
def test_bad_input_is_refused_before_anything_is_written(
    call: Callable[[Store], Any], words: list[str], store: Store
) -> None:
    files = [store.folder / "segments" / "000000.bin", store.folder / "store.sqlite", store.folder / "store.sqlite-wal"]
    before = [path.read_bytes() for path in files]
    assert_refused(lambda: call(store), words)
    assert [path.read_bytes() for path in files] == before


def test_nothing_can_be_appended_and_read(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        task = store.add_task("only", {})
        assert store.append(task, np.zeros((0, 3), np.uint8), np.zeros(0, int), []).tolist() == []
        assert len(store.examples(task).y) == len(store.read(store.examples(task).rows)) == 0
        store.forget(task)
        store.append(store.add_task("next", {}), X, Y, [{}])  # which says what an input is
