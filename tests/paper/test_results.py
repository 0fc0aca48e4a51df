"""The summaries: what is made of a run, and which files are refused."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyshot.errors import DataError
from paper import jobs, targets
from paper.jobs import Job
from paper.queue import run_jobs
from paper.records import Online
from paper.results import read_result, read_results, result_path, summarise
from tests.paper.made import make_result

pytestmark = pytest.mark.medium

TINY = {"protocol.num_tasks": 3, "protocol.max_steps": 20}


def write(results: Path, job: Job, **changes: Any) -> Path:
    path = result_path(results, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.loads(make_result(job, 20.0).model_dump_json())
    for name, value in changes.items():
        *parents, last = name.split("__")
        place = content
        for parent in parents:
            place = place[parent]
        place[last] = value
    path.write_text(json.dumps(content))
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    job = Job("pose", "toe", 0)
    path = write(tmp_path, job)
    assert read_result(path) == make_result(job, 20.0)
    assert job in read_results(tmp_path)
    assert Job("pose", "toe", 1) not in read_results(tmp_path)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"preset": "rainbow-mnist"}, "move it to rainbow-mnist/toe-s0.json"),
        ({"label": "ftml"}, "move it to pose/ftml-s0.json"),
        ({"experiment__seed": 7}, "move it to pose/toe-s7.json"),
        ({"experiment__learner__name": "ftml-vl"}, "no table"),
        ({"experiment__protocol__max_shots": 3}, "no table"),
        ({"experiment__learner__hyperparameters": {"meta_rate": 0.5}}, "no table"),
        ({"format": 3}, "format"),
        ({"format": 1}, "format"),
        ({"outcome__totals": {}}, "cumulative_loss"),
        ({"outcome__totals__cumulative_loss": "much"}, "cumulative_loss"),
        ({"outcome__kind": "both"}, "kind"),
        ({"more": 1}, "more"),
    ],
)
def test_a_summary_that_is_not_what_it_says_is_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    path = write(tmp_path, Job("pose", "toe", 0), **changes)
    with pytest.raises(DataError, match=re.escape(why)) as refused:
        read_results(tmp_path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("text", ["", "5", "null", "[]", "{", "NaN", "[" * 100_000])
def test_a_damaged_summary_is_refused(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, Job("pose", "toe", 0))
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(str(path))):
        read_results(tmp_path)


def test_a_run_in_no_table_is_refused(tmp_path: Path) -> None:
    write(tmp_path, Job("pose", "a-gem", 0))
    with pytest.raises(DataError, match="no table"):
        read_results(tmp_path)


def test_runs_on_different_tasks_are_refused(tmp_path: Path) -> None:
    write(tmp_path, Job("pose", "toe", 0))
    write(tmp_path, Job("pose", "toe", 1), experiment__tasks__fingerprint="other")
    with pytest.raises(DataError, match="same task set"):
        read_results(tmp_path)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a real run of three sine waves, which the queue has started with the command `anyshot run`."""
    out, job, kept = tmp_path_factory.mktemp("out"), Job("sinusoid", "tiny", 3), list[Job]()
    label = targets.Label(method="tiny", learner="ftml-vs", settings=TINY)
    table = targets.Table(preset="sinusoid", heading="", where="", paper={"tiny": []})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(targets, "LABELS", {"tiny": label})
        patch.setattr(jobs, "TABLES", {"tiny": table})
        outcome = run_jobs([job], out, "cpu", 1, None, kept.append)
        assert (outcome.done, outcome.failed, kept) == ([job.trial], {}, [job])
        yield job.folder(out)


def test_a_summary_has_the_sums_of_the_log(tiny: Path) -> None:
    """Computed here once more, straight from the lines of the log."""
    lines = [json.loads(line) for line in (tiny / "events.jsonl").read_text().splitlines()]
    tasks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        tasks[line["position"]].append(line)
    result = summarise(Job("sinusoid", "ftml-vs", 0), tiny, tiny / "no times")
    assert isinstance(result.outcome, Online)
    totals, found = result.outcome.totals, result.outcome
    assert totals.cumulative_loss == pytest.approx(sum(line["loss"] for line in lines), rel=1e-12)
    assert totals.labels == sum(task[-1]["labels"] for task in tasks.values())
    assert totals.steps == sum(task[-1]["step"] for task in tasks.values())
    assert totals.evaluations == len(lines)
    assert totals.mastered == sum(any(line["mastered"] for line in task) for task in tasks.values())
    sums = [sum(line["loss"] for line in lines if line["position"] <= position) for position in range(3)]
    assert found.cumulative_loss == pytest.approx(sums, abs=1e-4)
    assert found.tasks.name == [task[0]["task"] for task in tasks.values()]
    by_shots = defaultdict(list)
    for line in lines:
        by_shots[line["shots"]].append(line["loss"])
    assert found.loss_by_shots.shots == sorted(by_shots)
    means = [sum(by_shots[s]) / len(by_shots[s]) for s in sorted(by_shots)]
    assert found.loss_by_shots.all == pytest.approx(means, rel=1e-5)
    late = [line["loss"] for line in lines if line["shots"] == 0 and line["position"] >= 1]
    assert found.loss_by_shots.late[0] == pytest.approx(sum(late) / len(late), rel=1e-5)
    assert found.rates["beta"] == pytest.approx([task[-1]["rates"]["beta"] for task in tasks.values()], rel=1e-5)
    assert found.rates["alpha"] == pytest.approx(lines[-1]["rates"]["alpha"], rel=1e-5)


def test_times_count_only_if_they_are_of_all_processes(tiny: Path, tmp_path: Path) -> None:
    times, job = tmp_path / "times", Job("sinusoid", "ftml-vs", 0)
    times.write_text('{"seconds": 3.5, "at_once": 2}\n')
    wall = summarise(job, tiny, times).wall
    assert wall is not None
    assert (wall[0].seconds, wall[0].at_once) == (3.5, 2)
    for text in ("", "damaged\n"):
        times.write_text(text)
        assert summarise(job, tiny, times).wall is None


def test_the_queue_gives_anyshot_the_settings_and_keeps_the_times(tiny: Path) -> None:
    result = summarise(Job("sinusoid", "tiny", 3), tiny, tiny.with_name(f"{tiny.name}.times"))
    assert (result.experiment.seed, result.experiment.protocol["num_tasks"]) == (3, 3)
    assert result.wall is not None
    assert result.wall[0].at_once == 1
