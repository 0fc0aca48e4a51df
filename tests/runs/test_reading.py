"""Reading run folders: whatever the files hold, the answer is what they say, or one sentence that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anyshot.errors import DataError, InputError
from anyshot.runs.files import sealed, unsealed
from anyshot.runs.folder import RunFolder
from anyshot.runs.make import experiment_from, make_experiment
from anyshot.runs.reading import find_runs, read_environment, read_events, read_experiment, read_format, read_summary
from anyshot.runs.records import ExperimentRecord, Trial
from anyshot.runs.running import load_run
from anyshot.runs.table import read_runs, run_table
from tests.support.refusals import as_a_user_runs_it
from tests.support.toy_runs import EXPERIMENT, Stop, no_warning, toy, toy_event

GOOD = json.dumps(toy_event(0).to_json()).encode() + b"\n"
DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (GOOD + GOOD[:-1], 1),  # half-written, though it could be read
        (GOOD + b'{"kind":', 1),
        (GOOD + b'{"kind:\xff}\n', 1),
        (GOOD + b"[]\n" + GOOD, "line 2"),
        (b'{"a:\n' + GOOD, "line 1"),
        (GOOD + DEEP + b"\n", "line 2"),
        (GOOD + b'{"kind":"evaluation","task":' + DEEP + b"}\n" + GOOD, "line 2"),
        (GOOD + GOOD.replace(b"0.5", b"NaN"), "line 2"),
        (GOOD + GOOD.replace(b"0.5", b"1e999"), "line 2"),
        (GOOD + GOOD.replace(b"0.5", b"1" * 5000), "line 2"),
        (GOOD + b'{"kind":"trial","step":1,"better":true,"ended":true}\n', "line 2"),
    ],
)
def test_the_log_of_a_run_that_lives(log: bytes, found: int | str, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        toy(tmp_path, stop=0)
    (tmp_path / "events.jsonl").write_bytes(log)
    if isinstance(found, int):
        assert read_events(tmp_path) == [toy_event(0)] * found
    else:
        with pytest.raises(DataError, match=rf"events\.jsonl .*{found}"):
            read_runs(tmp_path)


def test_a_trial_needs_a_number_for_each_number_of_shots(tmp_path: Path) -> None:
    offline = {**EXPERIMENT.model_dump(), "kind": "offline", "protocol": {"test_shots": [0, 5]}}
    with RunFolder.opened(tmp_path, ExperimentRecord.model_validate(offline), {}, no_warning) as run:
        run.resume()
        run.append([Trial(step=1, loss=[0.1, 0.2], better=True, ended=False)])
        assert len(read_runs(tmp_path)) == 2
        run.append([Trial(step=2, loss=[0.1], better=True, ended=False)])
    with pytest.raises(DataError, match=r"events\.jsonl .*line 2"):
        read_runs(tmp_path)


@pytest.mark.parametrize("wrong", [5, None, [], "x", {}, {"a": 1}, {"format": 2}, {"format": "2"}, {"format": 0}])
def test_a_sealed_experiment_of_other_content_is_named(wrong: Any, tmp_path: Path) -> None:
    toy(tmp_path)
    (tmp_path / "experiment.json").write_bytes(sealed(wrong))
    for read in (read_experiment, read_runs, load_run, toy):
        with pytest.raises(DataError, match=r"experiment\.json"):
            read(tmp_path)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["summary.json", "environment.json", "checkpoints/0000000009/manifest.json"])
def test_another_sealed_file_is_no_experiment_and_an_experiment_no_other_file(name: str, tmp_path: Path) -> None:
    toy(tmp_path / "run")
    good = (tmp_path / "run/experiment.json").read_bytes()
    (tmp_path / "run/experiment.json").write_bytes((tmp_path / "run" / name).read_bytes())
    with pytest.raises(DataError, match=r"experiment\.json"):
        read_runs(tmp_path)
    (tmp_path / "run/experiment.json").write_bytes(good)
    (tmp_path / "run/summary.json").write_bytes(good)
    with pytest.raises(DataError, match=r"summary\.json"):
        read_runs(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    toy(tmp_path)
    record = unsealed((tmp_path / "experiment.json").read_bytes())
    (tmp_path / "experiment.json").write_bytes(sealed({**record, "format": 99, "more": []}))
    for read in (read_format, read_experiment, read_events, read_summary, read_runs, load_run, toy):
        with pytest.raises(DataError, match=r"format 99.*newer"):
            read(tmp_path)  # type: ignore[operator]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder whose run has begun, and what its experiment.json holds."""
    folder = tmp_path_factory.mktemp("begun")
    experiment = make_experiment("sinusoid", settings={"data.num_tasks": 6, "network.hidden": (8,)})
    with RunFolder.opened(folder, experiment.record, {}, no_warning) as run:
        run.resume()
        run.append([toy_event(0)])
    return folder, experiment.record.model_dump(mode="json")


REMOVED = object()


def replaced(content: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """The content with `value` in the place of each of its parts, one at a time; `REMOVED` removes the part."""
    if isinstance(content, dict):
        for name in content:
            new = {} if value is REMOVED else {name: value}
            yield f".{name}", {**{other: content[other] for other in content if other != name}, **new}
            for place, inner in replaced(content[name], value):
                yield f".{name}{place}", {**content, name: inner}
    elif isinstance(content, list):
        for number, part in enumerate(content):
            here = [] if value is REMOVED else [("", value)]
            for place, inner in [*here, *replaced(part, value)]:
                yield f"[{number}]{place}", [*content[:number], inner, *content[number + 1 :]]


NESTED: list[Any] = []
for _ in range(300):
    NESTED = [NESTED]


WRONG = [pytest.param(NESTED, id="nested"), pytest.param(REMOVED, id="removed")]
WRONG += [
    pytest.param(value, marks=pytest.mark.slow) for value in (None, "x", 5, -1, 1e308, [], {}, True, 10**30, "\ud800")
]


def open_again(folder: Path, record: ExperimentRecord) -> None:
    with RunFolder.opened(folder, record, {}, no_warning):
        pass


@pytest.mark.medium
@pytest.mark.parametrize("value", WRONG)
def test_a_sealed_but_wrong_experiment_is_read_or_refused(begun: tuple[Path, dict[str, Any]], value: Any) -> None:
    folder, good = begun
    sentences = []
    for place, content in replaced(good, value):
        (folder / "experiment.json").write_bytes(sealed(content))
        calls: list[Callable[[], Any]] = [
            lambda: run_table(read_runs(folder)),
            lambda: load_run(folder),
            lambda: open_again(folder, ExperimentRecord.model_validate(good)),
        ]
        if ".tasks.origin" not in place:  # which would load other data
            calls.append(lambda: experiment_from(read_experiment(folder)))
        for call in calls:
            try:
                with as_a_user_runs_it():
                    call()
            except (DataError, InputError) as error:
                sentences.append(str(error))
            except Exception as error:
                raise AssertionError(f"{place}: {type(error).__name__}: {str(error)[:200]}") from error
    assert len(sentences) > 40
    assert not any("\n" in sentence for sentence in sentences)
    (folder / "experiment.json").write_bytes(sealed(good))
    assert experiment_from(read_experiment(folder)).record.model_dump(mode="json") == good


def test_an_environment_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert read_environment(tmp_path) == []
    for content in (5, None, {}, "x"):
        (tmp_path / "environment.json").write_bytes(sealed(content))
        assert read_environment(tmp_path) == []


def test_run_folders_are_found_where_they_are(tmp_path: Path) -> None:
    for name in ("a", "b/c/d"):
        with RunFolder.opened(tmp_path / name, EXPERIMENT, {}, no_warning):
            pass
    (tmp_path / "e").mkdir()
    (tmp_path / "f").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert find_runs([tmp_path / "b", tmp_path / "a", tmp_path / "link"]) == [tmp_path / "b/c/d", tmp_path / "a"]
    for places, words in [([], "missing"), ([tmp_path / "e"], "e is not"), ([tmp_path / "f"], "f is a file")]:
        with pytest.raises(InputError, match=words):
            find_runs(places)
    with pytest.raises(InputError, match="nowhere is not there"):
        find_runs([tmp_path / "a", tmp_path / "nowhere"])
