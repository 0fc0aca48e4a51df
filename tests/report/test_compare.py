"""Which runs are compared with which, what methods are called, and the numbers against NumPy and SciPy."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anyshot
from anyshot.errors import DataError, InputError
from anyshot.report import compare
from anyshot.runs.files import sealed
from anyshot.runs.reading import read_run
from tests.report.conftest import Written
from tests.support.written_runs import TASKS, Events, record_of, write_run

pytestmark = pytest.mark.medium


def total(events: Events) -> float:
    return float(np.sum([event["loss"] for event in events]))


def labels(events: Events) -> int:
    return sum(event["labels"] for event in events if event["ended"])


def test_online_numbers_are_those_of_numpy_and_scipy(online_runs: Written) -> None:
    folder, events = online_runs
    (found,) = compare(folder)
    assert (found.kind, found.against) == ("online", "toe")
    means = found.table["cumulative_loss_mean"]
    assert list(means) == sorted(means), "the best comes first"
    for method, row in found.table.iterrows():
        mine = [events[str(method), seed] for seed in range(3)]
        firsts = [[e["accuracy"] for e in one if e["labels"] == 0][-2:] for one in mine]
        expected = {
            "cumulative_loss": [total(one) for one in mine],
            "labels": [labels(one) for one in mine],
            "test_labels": [100 * TASKS] * 3,
            "mastered": [sum(event["mastered"] for event in one) for one in mine],
            "zero_shot_accuracy": list(np.mean(firsts, axis=1)),
        }
        assert row["n"] == 3
        for name, values in expected.items():
            assert row[f"{name}_mean"] == pytest.approx(np.mean(values), rel=1e-12)
            assert row[f"{name}_deviation"] == pytest.approx(np.std(values, ddof=1), rel=1e-12, abs=1e-12)
        for name, value in (("cumulative_loss", total), ("labels", labels)):
            ours, theirs = ([value(events[one, seed]) for seed in range(3)] for one in (str(method), "toe"))
            less = found.difference(str(method), name)
            if method == "toe":
                assert less is None
                continue
            expected_test = stats.ttest_rel(ours, theirs)
            low, high = expected_test.confidence_interval(0.95)
            assert less is not None
            assert (less.mean, less.low, less.high) == pytest.approx((np.mean(ours) - np.mean(theirs), low, high))
            assert less.p == pytest.approx(expected_test.pvalue)
            assert less.n == 3


def test_offline_numbers_are_those_of_numpy_and_scipy(offline_runs: Written) -> None:
    folder, events = offline_runs
    (found,) = compare(folder)
    assert (found.kind, found.against) == ("offline", "maml")

    def accuracy(learner: str, seed: int) -> list[float]:
        return [event["accuracy"] for event in events[learner, seed] if event["kind"] == "test"]

    names = [f"accuracy_at_{shots}_shots" for shots in (0, 2, 3)]
    assert [measure.name for measure in found.measures] == names
    scores = {name: np.mean([accuracy(name, seed) for seed in range(3)]) for name in ("mann", "maml-vs", "maml")}
    assert found.methods == sorted(scores, key=lambda name: -scores[name]), "the best comes first"
    for method in found.methods:
        values = np.array([accuracy(method, seed) for seed in range(3)])
        for place, name in enumerate(names):
            assert found.table[f"{name}_mean"][method] == pytest.approx(values[:, place].mean())
            assert found.table[f"{name}_deviation"][method] == pytest.approx(values[:, place].std(ddof=1))
            assert found.table[f"{name}_error"][method] == 0.003, "the largest of the seeds"
            less = found.difference(method, name)
            if less is not None:
                theirs = [accuracy("maml", seed)[place] for seed in range(3)]
                assert less.p == pytest.approx(stats.ttest_rel(values[:, place], theirs).pvalue)
    assert not found.notes


def test_a_table_and_folders_give_the_same(online_runs: Written) -> None:
    folder, _ = online_runs
    table = anyshot.read_runs(folder)
    for given in (table, [folder], str(folder), sorted(folder.iterdir())):
        (found,) = compare(given, "ftml")
        assert found.against == "ftml"
        pd.testing.assert_frame_equal(found.table, compare(folder)[0].table)
    few = table[table["seed"] < 2]
    assert list(compare(few)[0].table["n"]) == [2, 2, 2], "a table can be filtered before"


def test_a_table_without_its_folders_can_be_compared(tmp_path: Path) -> None:
    for learner in ("toe", "ftml"):
        write_run(tmp_path / learner, learner, 0)
    table = anyshot.read_runs(tmp_path)
    shutil.rmtree(tmp_path)
    (found,) = compare(table)
    assert found.title == "rainbow-digits"
    assert sorted(found.methods) == ["ftml", "toe"]


def test_settings_of_a_learner_are_ranked_in_one_table(tmp_path: Path) -> None:
    expected = {}
    for rate in (0.01, 0.03, 0.1):
        for seed in (0, 1):
            events = write_run(tmp_path / f"{rate}-{seed}", "ftml-vs", seed, hyperparameters={"inner_rate": rate})
            expected.setdefault(f"ftml-vs (inner_rate {rate})", []).append(total(events))
    write_run(tmp_path / "toe", "toe", 0)
    (found,) = compare(tmp_path, "ftml-vs (inner_rate 0.03)")
    assert found.against == "ftml-vs (inner_rate 0.03)"
    sweep = [method for method in found.methods if method != "toe"]
    assert sweep == sorted(expected, key=lambda method: np.mean(expected[method]))
    assert set(found.table["learner"]) == {"ftml-vs", "toe"}
    assert compare(tmp_path, "ftml-vs")[0].against == sweep[0], "a learner stands for its best method"


def own_part(**parts: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda record: record | {"learner": record["learner"] | parts}


def test_methods_are_told_apart_by_whatever_differs(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "ftml", 0)
    write_run(tmp_path / "b", "ftml", 0, updates_per_step=4)
    write_run(tmp_path / "c", "toe", 0, change_record=own_part(loss={"name": "mine.loss", "sha256": "ab" * 32}))
    write_run(tmp_path / "d", "toe", 0)
    write_run(tmp_path / "e", "own", 0, change_record=own_part(network=None, fields={"width": 3}))
    write_run(tmp_path / "f", "own", 0, change_record=own_part(network=None, fields={"width": 4}))
    (found,) = compare(tmp_path)
    assert {"ftml (updates_per_step 1)", "ftml (updates_per_step 4)"} < set(found.methods)
    assert {"own (width 3)", "own (width 4)"} < set(found.methods)
    (one, other) = (method for method in found.methods if method.startswith("toe"))
    assert {"cross_entropy", "loss"} == {method.removeprefix("toe (loss ").split()[0] for method in (one, other)}
    assert "updates_per_step" not in found.title
    assert "num_tasks 6" in found.title


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("rainbow-digits", {"advance": False}),
        ("rainbow-digits", {"threshold": 0.5}),
        ("rainbow-digits", {"test_size": 50}),
        ("rainbow-digits", {"shuffle_tasks": False}),
        ("rainbow-digits", {"fresh_test": True}),
        ("rainbow-digits-offline", {"order": 3}),
        ("rainbow-digits-offline", {"order": "seed"}),
        ("rainbow-digits-offline", {"validation_tasks": "all"}),
        ("rainbow-digits-offline", {"test_queries": 7}),
        ("rainbow-digits-offline", {"ways": 5}),
    ],
)
def test_another_world_is_another_table(tmp_path: Path, name: str, rules: dict[str, Any]) -> None:
    learner = "maml" if name.endswith("offline") else "toe"
    write_run(tmp_path / "a", learner, 0, name)
    write_run(tmp_path / "b", learner, 0, name, **rules)
    first, second = compare(tmp_path)
    assert len(first.group.runs) == len(second.group.runs) == 1
    assert any(f"protocol.{next(iter(rules))}" in note for note in second.notes)
    assert not any("table of their own" in note for note in first.notes)


def test_other_data_is_another_table_and_online_comes_first(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "maml", 0, "rainbow-digits-offline")
    write_run(tmp_path / "b", "toe", 0)
    write_run(tmp_path / "c", "maml", 0, "sinusoid-offline")
    write_run(tmp_path / "d", "maml", 0, "omniglot-5way", finished=False)
    change = {"tasks": {"name": "rainbow-digits", "fingerprint": "ba4"}}
    write_run(tmp_path / "e", "toe", 0, change_record=lambda record: record | change)
    found = compare(tmp_path, "maml")
    assert [(one.kind, one.against) for one in found] == [("online", "toe")] * 2 + [("offline", "maml")] * 2
    assert "tasks.fingerprint ba4 instead of f00" in found[1].notes[0]
    assert "data.name sinusoid instead of rainbow-digits" in found[3].notes[0]
    left_out = next(note for note in found[3].notes if "omniglot-5way" in note)
    assert "80 steps" in left_out


def until(position: int) -> Callable[[Events], Events]:
    return lambda events: [event for event in events if event["position"] < position]


def test_unfinished_runs_are_left_out_or_cut_to_what_all_have(tmp_path: Path) -> None:
    toe = write_run(tmp_path / "a" / "toe", "toe", 0, finished=False, change=lambda events: events[:-1])
    write_run(tmp_path / "a" / "ftml", "ftml", 0, finished=False, change=until(3))
    with (tmp_path / "a" / "ftml" / "events.jsonl").open("a") as log:
        log.write('{"position":3,"ta')  # a line that is being written
    (found,) = compare(tmp_path / "a")
    assert found.group.num_tasks == 3
    assert found.table["cumulative_loss_mean"]["toe"] == pytest.approx(total(until(3)(toe)))
    assert found.table["labels_mean"]["toe"] == labels(until(3)(toe))
    assert found.table["test_labels_mean"]["toe"] == 300
    assert "3 tasks" in found.notes[0]
    write_run(tmp_path / "b", "ftml-vs", 0)
    (found,) = compare([tmp_path / "a", tmp_path / "b"])
    assert found.methods == ["ftml-vs"]
    assert sum("is not finished" in note for note in found.notes) == 2
    assert any(str(tmp_path / "a" / "ftml") in note and "3 tasks" in note for note in found.notes)
    write_run(tmp_path / "c", "toe", 0, finished=False, change=lambda events: [])
    with pytest.raises(DataError, match="0 tasks"):
        compare(tmp_path / "c")


def test_offline_runs_that_are_not_finished_have_nothing_to_compare(tmp_path: Path) -> None:
    name = "rainbow-digits-offline"
    write_run(tmp_path / "vs", "maml-vs", 0, name, finished=False, change=lambda events: events[:2])
    with pytest.raises(DataError, match="40 steps"):
        compare(tmp_path)
    write_run(tmp_path / "vl", "maml-vl", 0, name, finished=False)  # tested, but it has no summary yet
    write_run(tmp_path / "maml", "maml", 0, name)
    (found,) = compare(tmp_path)
    assert found.methods == ["maml"]
    assert sum("is left out" in note for note in found.notes) == 2


def test_seeds_that_are_missing_are_named(tmp_path: Path) -> None:
    for learner, seed in (("toe", 0), ("toe", 1), ("ftml", 0), ("ftml-vs", 7)):
        write_run(tmp_path / f"{learner}-{seed}", learner, seed)
    (found,) = compare(tmp_path)
    notes = " ".join(found.notes)
    assert "toe: 0 and 1" in notes
    assert "No seed in common with toe, so no difference: ftml-vs." in notes
    assert "One seed in common with toe gives no interval: ftml." in notes
    assert found.difference("ftml-vs", "labels") is None
    less = found.difference("ftml", "labels")
    assert less is not None
    assert (less.n, less.low, less.p) == (1, None, None)
    (found,) = compare(tmp_path / "ftml-0")
    assert "nothing to compare" in found.notes[0]
    assert found.differences.empty


def test_a_regression_has_losses(tmp_path: Path) -> None:
    for learner in ("toe", "ftml"):
        events = write_run(tmp_path / "on" / learner, learner, 3, "sinusoid")
        write_run(tmp_path / "off" / learner, {"toe": "mann", "ftml": "maml"}[learner], 3, "sinusoid-offline")
    online, offline = compare(tmp_path)
    firsts = [event["loss"] for event in events if event["labels"] == 0]
    assert online.table["zero_shot_loss_mean"]["ftml"] == pytest.approx(np.mean(firsts[-2:]))
    assert not any("accuracy" in column for one in (online, offline) for column in one.table)
    means = offline.table.filter(like="_mean").mean(axis=1)
    assert list(means) == sorted(means), "the lowest loss comes first"


def test_tests_that_stayed_uncertain_are_named(tmp_path: Path) -> None:
    def widen(events: Events) -> Events:
        return [event | ({"accuracy_error": 0.0042} if event["kind"] == "test" else {}) for event in events]

    write_run(tmp_path / "a", "maml", 4, "rainbow-digits-offline", change=widen)
    write_run(tmp_path / "b", "mann", 1, "rainbow-digits-offline")
    (found,) = compare(tmp_path)
    (note,) = (note for note in found.notes if "standard_error" in note)
    assert "maml seed 4: 0.42" in note
    assert "mann" not in note


def rename(events: Events) -> Events:
    return [event | {"task": "another"} if event["position"] == 2 else event for event in events]


@pytest.mark.parametrize(
    ("kind", "words", "names"),
    [
        (InputError, "a run folder is missing", []),
        (InputError, "nowhere is not there", ["nowhere"]),
        (InputError, "empty is not a run folder and holds none", ["empty"]),
        (InputError, "are the same experiment", ["toe", "twin"]),
        (DataError, "not the same stream: task 3 is 'task", ["toe", "other"]),
        (DataError, "not the same stream: task 6 is 'task", ["toe", "short"]),
        (DataError, "does not have an evaluation", ["odd"]),
        (DataError, "each of 0, 2 and 3 shots", ["untested"]),
        (DataError, "is damaged in line 3", ["line"]),
        (DataError, "is not as the finished run has written it", ["log"]),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(
    tmp_path: Path, kind: type[Exception], words: str, names: list[str]
) -> None:
    write_run(tmp_path / "toe", "toe", 0)
    write_run(tmp_path / "other", "ftml", 0, change=rename)
    write_run(tmp_path / "short", "ftml", 0, change=until(5))
    write_run(tmp_path / "twin", "toe", 0)
    write_run(tmp_path / "odd", "ftml", 0, change=lambda events: [])
    write_run(tmp_path / "untested", "maml", 0, "rainbow-digits-offline", change=lambda events: events[:-1])
    write_run(tmp_path / "line", "ftml", 0, finished=False)
    data = (tmp_path / "line" / "events.jsonl").read_bytes().split(b"\n")
    (tmp_path / "line" / "events.jsonl").write_bytes(b"\n".join([*data[:2], b"{broken", *data[3:]]))
    write_run(tmp_path / "log", "ftml", 0)
    (tmp_path / "log" / "events.jsonl").unlink()
    (tmp_path / "empty").mkdir()
    with pytest.raises(kind) as caught:
        compare([tmp_path / name for name in names])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_reference_and_an_unknown_table_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "toe", "toe", 0)
    with pytest.raises(InputError, match=r"against .*toe.* got 'ftml'"):
        compare(tmp_path, "ftml")
    with pytest.raises(InputError, match=r"runs .* 'kind'"):
        compare(anyshot.read_runs(tmp_path).drop(columns="kind"))
    with pytest.raises(InputError, match=r"runs .* empty"):
        compare(anyshot.read_runs(tmp_path).head(0))


NESTED: Any = 1
for _ in range(500):
    NESTED = [NESTED]
ODD: list[Any] = [{}, [], 5, None, "text", NESTED, {"format": 2}, {"format": 3}, {"format": "2"}, {"seed": 3}]


@pytest.mark.parametrize("file", ["experiment.json", "summary.json", "environment.json"])
@pytest.mark.parametrize("content", ODD, ids=lambda content: str(content)[:20])
@pytest.mark.parametrize("name", ["rainbow-digits", "rainbow-digits-offline"])
def test_sealed_files_of_other_content_raise_our_errors(tmp_path: Path, file: str, content: Any, name: str) -> None:
    write_run(tmp_path / "run", "ftml", 0, name)
    (tmp_path / "run" / file).write_bytes(sealed(content))
    if file == "environment.json":
        assert compare(tmp_path)
        return
    with pytest.raises(DataError):
        compare(tmp_path)


def test_odd_values_in_a_record_raise_our_errors_or_are_harmless(tmp_path: Path) -> None:
    number = 0
    for part in ("protocol", "learner", "tasks", "seed", "kind"):
        for value in (-1, "x", None, {"a": 1}):
            write_run(tmp_path / str(number), "ftml", 0, change_record=lambda r, p=part, v=value: r | {p: v})
            with pytest.raises(DataError):
                compare(tmp_path / str(number))
            number += 1
    for name in ("threshold", "measure", "num_tasks", "advance", "standard_error", "validation_tasks", "max_shots"):
        for value in ("x", [[1]], -1):
            for preset in ("rainbow-digits", "rainbow-digits-offline"):
                write_run(
                    tmp_path / str(number),
                    "ftml",
                    0,
                    preset,
                    change_record=lambda r, n=name, v=value: r | {"protocol": r["protocol"] | {n: v}},
                )
                with contextlib.suppress(DataError, InputError):
                    compare(tmp_path / str(number))
                number += 1


def without(rules: dict[str, Any], name: str) -> dict[str, Any]:
    return {rule: value for rule, value in rules.items() if rule != name}


def test_a_record_without_a_rule_is_compared(tmp_path: Path) -> None:
    for name in ("rainbow-digits", "rainbow-digits-offline"):
        record = record_of("maml", 0, name)
        for rule in record.protocol:
            if rule in ("test_size", "test_shots"):
                continue
            folder = tmp_path / f"{name}-{rule}"
            write_run(
                folder, "maml", 0, name, change_record=lambda r, x=rule: r | {"protocol": without(r["protocol"], x)}
            )
            assert compare(folder)


@pytest.mark.parametrize("name", ["sinusoid", "sinusoid-offline"])
def test_a_loss_in_a_regression_is_also_a_share_of_that_of_a_constant(tmp_path: Path, name: str) -> None:
    def with_constant(events: Any) -> Any:
        return [one | {"constant_loss": 4.0} if one["kind"] != "trial" else one for one in events]

    learner = "maml" if name.endswith("offline") else "toe"
    for seed in (0, 1):
        write_run(tmp_path / str(seed), learner, seed, name, change=with_constant)
    (found,) = compare(tmp_path)
    (row,) = found.table.to_dict("records")
    events = [event for seed in (0, 1) for event in read_run(tmp_path / str(seed))[1] if event.kind != "trial"]
    if name == "sinusoid":
        losses = [[event.loss for event in read_run(tmp_path / str(seed))[1]] for seed in (0, 1)]
        expected = np.mean([np.sum(own) / (4 * len(own)) for own in losses])
        assert row["share_of_constant_mean"] == pytest.approx(expected)
    else:
        at_two = [event.loss for event in events if event.shots == 2]
        assert row["share_of_constant_at_2_shots_mean"] == pytest.approx(np.mean(at_two) / 4)
    assert "share of a constant's" in found.format()
    write_run(tmp_path / "old", learner, 2, name)  # by a version that did not measure it
    (mixed,) = compare(tmp_path)
    assert not any("share" in column for column in mixed.table)


def test_a_run_without_a_rule_that_was_added_later_is_of_the_same_world(tmp_path: Path) -> None:
    write_run(tmp_path / "new", "toe", 0)
    write_run(
        tmp_path / "old", "toe", 1, change_record=lambda r: r | {"protocol": without(r["protocol"], "fresh_test")}
    )
    (found,) = compare(tmp_path)
    assert found.table["n"].tolist() == [2]


def test_the_kind_of_a_network_may_be_anything(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "ftml", 0, change_record=own_part(network={"kind": ["mlp"]}))
    assert compare(tmp_path)[0].title == "rainbow-digits"


def test_a_name_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    for learner in ("toe\x1b[2J", "evil\n\u202e\x07"):
        write_run(tmp_path / learner.encode().hex(), learner, 0)
    (found,) = compare(tmp_path)
    for form in ("text", "markdown", "latex", "csv", "json"):
        assert found.format(form).replace("\n", "").isprintable()
    assert "toe\\x1b[2J" in found.format()
    with pytest.raises(InputError) as caught:
        compare(tmp_path, "x")
    assert str(caught.value).isprintable()


def test_folders_of_the_older_format_can_be_compared() -> None:
    online, offline = compare(Path(__file__).parent.parent / "data" / "format1")
    assert (online.kind, offline.kind) == ("online", "offline")
    assert online.table["cumulative_loss_mean"].notna().all()
    assert offline.table.filter(like="_mean").notna().all(axis=None)


def test_real_runs_are_compared(real_runs: Path) -> None:
    online, offline = compare(real_runs)
    assert sorted(online.methods) == ["ftml-vs", "toe"]
    finished = anyshot.load_run(real_runs / "toe-0")
    assert finished.summary is not None
    assert online.table["cumulative_loss_mean"]["toe"] == finished.summary.total_loss  # type: ignore[union-attr]
    assert online.table["labels_mean"]["toe"] == finished.summary.total_labels  # type: ignore[union-attr]
    assert list(offline.table["n"]) == [2]
