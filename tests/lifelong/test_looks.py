"""Looks judge the model of their moment by labels that came later, and closed tasks make an estimate for new ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from anyshot.errors import InputError
from anyshot.lifelong import Lifelong
from anyshot.lifelong.looks import Looks, from_json, to_json
from tests.support.lives import draw_task, make_life

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
OPPOSITE = {"yes": "no", "no": "yes"}


def observe_one_by_one(life: Lifelong, name: str, seed: int, count: int) -> np.ndarray:
    x, y = draw_task(seed, count)
    task = life.task(name, classes=["no", "yes"])
    return np.concatenate([task.observe(x[n : n + 1], y[n : n + 1]) for n in range(count)])


def test_later_labels_judge_a_look_and_take_no_part_in_it(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        ids = observe_one_by_one(life, "one", 0, 20)
        life.learn(updates=5)  # on all labels: a look must not see this
        task = life._task("one")
        before = {look.labels: look for look in task._looks.judge(task._learning())}
        assert list(before) == [0, 1, 2, 3, 5, 8, 12, 18]
        y = draw_task(0, 20)[1]
        task.correct(ids[8:], [OPPOSITE[label] for label in y[8:]])
        after = {look.labels: look for look in task._looks.judge(task._learning())}
    for count in (0, 1, 2, 3, 5, 8):  # later labels have turned round, so what was right is wrong
        one, other = before[count], after[count]
        assert (one.progressive, one.cross_validated) == pytest.approx(
            (other.progressive, other.cross_validated), nan_ok=True
        )
        assert one.later_count == other.later_count == 20 - count
        right = (one.later + other.later) * (20 - count)  # 12 turned labels once each, the others twice or never
        assert 12 - 1e-9 <= right <= 12 + 2 * (8 - count) + 1e-9
    assert before[8].later + after[8].later == pytest.approx(1)


def test_looks_survive_a_restart_also_with_more_outputs_than_before(tmp_path: Path) -> None:
    found = {}
    for restart in (True, False):
        folder = tmp_path / f"{restart}"
        life = make_life(folder)
        task = life.task("one")
        x, y = draw_task(0, 30)
        y[25] = "maybe"  # a third class: from two outputs to four
        for n in range(30):
            task.observe(x[n : n + 1], y[n : n + 1])
            if n in (4, 20):
                life.learn(updates=3)  # looks before saw nothing of this
                if restart:
                    life.close()
                    life = Lifelong(folder)
                    task = life.task("one")
        assert len(list((folder / "looks").iterdir())) == 3  # looks between updates share a file
        task.close()
        found[restart] = [from_json(look) for look in task._record.info["looks"]]
        assert not list((folder / "looks").iterdir())
        life.close()
    assert [look.labels for look in found[True]] == [0, 1, 2, 3, 5, 8, 12, 18, 27]
    assert [look.later_count for look in found[True]] == [30 - look.labels for look in found[True]]
    for one, other in zip(found[True], found[False], strict=True):
        assert dataclasses.astuple(one) == pytest.approx(dataclasses.astuple(other), nan_ok=True)


def test_a_damaged_look_is_left_out_with_a_warning(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        observe_one_by_one(life, "one", 0, 9)
        (path,) = (tmp_path / "life" / "looks").iterdir()
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.warns(UserWarning, match="left out"):
            life.task("one").close()
        assert life.task("one")._record.info["looks"] == []


def test_labels_are_cross_validated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    validate = Looks._cross_validate
    monkeypatch.setattr(Looks, "_cross_validate", lambda *given: calls.append(1) or validate(*given))
    with make_life(tmp_path / "life") as life:
        x, y = draw_task(0, 12)
        task = life.task("one", classes=["no", "yes"])
        changes = [
            lambda: task.observe(x[:9], y[:9]),
            lambda: life.learn(updates=1),
            lambda: task.observe(x[9:], y[9:]),
        ]
        for number, change in enumerate(changes, start=1):
            change()
            looks = [task._looks.look(task._learning()) for _ in range(3)]
            assert looks[0] == looks[1] == looks[2]
            assert len(calls) == number


def test_looking_back_shows_what_was_seen_then(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        x, y = draw_task(0, 40)
        task, pool = life.task("one", classes=["no", "yes"]), x[30:]
        task.observe(x[:3], ["no"] * 3)
        life.learn(updates=2)
        then = None
        for n in range(3, 30):
            if n == 12:
                then = task._looks.look(task._learning(), pool)
            task.observe(x[n : n + 1], y[n : n + 1])
        life.learn(updates=5)  # on labels that came later: looking back must not see this
        assert task._looks.look_back(task._learning(), 17, pool) == then
        assert then is not None
        assert (then.labels, then.covered) == (12, 1.0)
        three = task._looks.look_back(task._learning(), 4, pool)
        assert three is not None
        assert (three.labels, three.covered) == (3, 0.5)
        assert task._looks.look_back(task._learning(), 30, pool) is None
        now = task._looks.look(task._learning(), pool)
        right = task.table["right"]
        assert now.count_since(then) == (right[12:].sum(), 18 - right[12:].sum())


def test_only_random_labels_judge(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        x, y = draw_task(0, 30)
        task = life.task("one", classes=["no", "yes"])
        task.observe(x[:10], y[:10])
        choice = task.suggest(x[10:], 8, "uncertainty")
        assert choice.random.sum() == 2
        task.observe(x[10:][choice.places], y[10:][choice.places], random=choice.random)
        assert task.estimate().labels == 12
        judged = task._looks.judge(task._learning())
        assert {look.labels: look.later_count for look in judged} == {0: 12, 10: 2}


@pytest.mark.slow
def test_twenty_closed_tasks_make_an_estimate_that_survives_a_restart(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        for number in range(20):
            assert life.task("new", classes=["no", "yes"]).estimate().past is None
            observe_one_by_one(life, f"task {number}", number, 16)
            life.task(f"task {number}").close()
        x, y = draw_task(99, 60)
        task = life.task("new")
        task.observe(x[:3], y[:3])
        estimate = task.estimate(x[10:])
        assert estimate.past is not None
        assert 0 <= estimate.past.low <= estimate.past.value <= estimate.past.high <= 1
        assert estimate.past.high - estimate.past.low < estimate.own.high - estimate.own.low
        assert task.advise(target=0.01, price=1, budget=9, unlabelled=x[10:]).action == "stop"
        assert task.advise(target=0.999, price=1, budget=9).action != "stop"
        assert task.advise(target=0.999, price=10, budget=9).action == "hopeless"
    with Lifelong(tmp_path / "life") as again:
        assert again.task("new").estimate(x[10:]) == estimate


def test_a_closed_task_predicts_and_keeps_its_looks_when_it_is_closed_again(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        observe_one_by_one(life, "one", 0, 9)
        task = life.task("one")
        task.close()
        looks = task._record.info["looks"]
        assert [look["labels"] for look in looks] == [0, 1, 2, 3, 5, 8]
        x, y = draw_task(5, 40)
        task.close()
        assert life.task("one") is task
        task.predict(x)
        task.estimate()
        assert (task.closed, task._record.info["looks"]) == (True, looks)
        with pytest.raises(InputError, match=r"'one' is closed.*task\.reopen\(\)"):
            task.observe(x, y)
        task.reopen()
        assert life._home.past().tasks == 0
        task.close()
        assert task._record.info["looks"] == looks
    with Lifelong(tmp_path / "life") as again:
        task = again.task("one")
        assert task.closed
        task.reopen()
        for n in range(10):
            task.observe(x[n : n + 1], y[n : n + 1])
        task.close()
        assert task._record.info["looks"][:6] == looks
        assert [look["labels"] for look in task._record.info["looks"][6:]] == [9, 12, 18]


def test_what_past_tasks_showed_is_of_those_that_are_closed(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        a, b = (life.task(name, classes=["no", "yes"]) for name in "ab")
        for task, seed, counts in ((a, 0, (4, 20)), (b, 1, (8, 16))):
            x, y = draw_task(seed, 24)
            for start, count in zip((0, counts[0]), counts, strict=True):
                task.observe(x[start : start + count], y[start : start + count])
        a.close()
        assert [curve.labels.tolist() for curve in life._home.past().curves] == [[0, 4]]
        a.reopen()
        b.close()
        assert a._record.version == b._record.version + 1
        assert [curve.labels.tolist() for curve in life._home.past().curves] == [[0, 8]]


def test_a_look_comes_back_from_json() -> None:
    with_nan = from_json(to_json(from_json({"labels": 3, "progressive": None})))
    assert with_nan.labels == 3
    assert np.isnan(with_nan.progressive)
    known = dataclasses.replace(with_nan, progressive=0.5, cross_validated=0.25, confidence=0.75, later=1.0)
    assert from_json(to_json(known)) == known
