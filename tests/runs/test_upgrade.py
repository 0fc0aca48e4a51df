"""Folders that version 0.1 wrote (tests/data/format1) open as if this version had written them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from anyshot.errors import DataError, InputError
from anyshot.runs.files import sealed, unsealed
from anyshot.runs.make import experiment_from
from anyshot.runs.naming import command
from anyshot.runs.reading import read_experiment, read_format, read_run
from anyshot.runs.records import Evaluation, Trial
from anyshot.runs.regret import estimate_regret
from anyshot.runs.running import Run, load_run, run
from anyshot.runs.table import read_runs, run_table
from anyshot.runs.upgrade import upgrade_event
from tests.support.small_runs import small_offline, small_online

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.slow]
FOLDERS = Path(__file__).parent.parent / "data/format1"
SAME = {"online": lambda: small_online(seed=1, num_tasks=3, batch_size=500), "offline": lambda: small_offline(seed=2)}

LATER = {"fresh_test": False, "zero_shot_share": None, "fixed_layers": 0, "kl_layers": "all"}


@pytest.fixture(autouse=True, scope="module")
def single_precision() -> Iterator[None]:
    """As these folders were written."""
    with jax.enable_x64(False):
        yield


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The same experiments, run by this version."""
    folder = tmp_path_factory.mktemp("today")
    return {kind: run(SAME[kind](), folder / kind, progress=False) for kind in SAME}


@pytest.mark.parametrize("kind", list(SAME))
def test_the_record_is_the_one_of_today_but_for_what_was_not_written(kind: str) -> None:
    assert read_format(FOLDERS / kind) == 1
    old, new = read_experiment(FOLDERS / kind).model_dump(), SAME[kind]().record.model_dump()
    assert old["learner"].pop("problem") is old["tasks"].pop("num_tasks") is None
    for part in ("problem", "fields"):
        new["learner"].pop(part)
    old["learner"].pop("fields")
    new["tasks"].pop("num_tasks")
    # Settings that came later have their defaults.
    parts = [(old["protocol"], new["protocol"])]
    parts.append((old["learner"]["hyperparameters"], new["learner"]["hyperparameters"]))
    for old_part, new_part in parts:
        for name in new_part.keys() - old_part.keys():
            assert new_part.pop(name) == LATER[name]
    assert old == new
    made = experiment_from(read_experiment(FOLDERS / kind))
    assert made.record == SAME[kind]().record


def without_what_came_later(content: Any) -> Any:
    """Without the losses of a constant and of each test task, which version 0.1 did not write."""
    if isinstance(content, list | tuple):
        return [without_what_came_later(value) for value in content]
    if not isinstance(content, dict):
        return content
    later = ("constant_loss", "task_loss", "task_accuracy")
    return {name: without_what_came_later(value) for name, value in content.items() if name not in later}


def rounded(content: Any) -> Any:
    """Numbers to four digits: another processor may round otherwise."""
    if isinstance(content, dict):
        return {name: rounded(value) for name, value in content.items()}
    if isinstance(content, list):
        return [rounded(value) for value in content]
    return pytest.approx(content, rel=1e-4, abs=1e-6) if isinstance(content, float) else content


@pytest.mark.parametrize("kind", list(SAME))
def test_it_says_what_the_same_run_says_today(kind: str, today: dict[str, Run]) -> None:
    _, events, summary = read_run(FOLDERS / kind)
    _, new_events, new_summary = read_run(today[kind].folder)
    assert len(events) == len(new_events) == {"online": 23, "offline": 6}[kind]
    assert [event.to_json() for event in events] == [
        rounded(without_what_came_later(event.to_json())) for event in new_events
    ]
    assert summary is not None
    assert new_summary is not None
    hashes = {"experiment_sha256", "events_sha256"}
    old, new = (without_what_came_later(one.model_dump(exclude=hashes)) for one in (summary, new_summary))
    assert old == rounded(new)
    old_table, new_table = read_runs(FOLDERS / kind), today[kind].table
    columns, later = set(new_table.columns), {f"{part}.{name}" for part in ("protocol", "learner") for name in LATER}
    assert set(old_table.columns) | (columns & later) == columns
    as_before = new_table[new_table["event"] != "test task"]  # these rows came later, too
    np.testing.assert_allclose(old_table["loss"], as_before["loss"], rtol=1e-4)


def test_numbers_come_from_the_very_bytes_of_the_old_log() -> None:
    first = read_run(FOLDERS / "online")[1][0]
    assert isinstance(first, Evaluation)
    assert repr(first.loss) in (FOLDERS / "online/events.jsonl").read_text().splitlines()[0]
    assert run_table(read_runs(FOLDERS))["mastered"].tolist() == [2]
    trial = read_run(FOLDERS / "offline")[1][2]
    assert isinstance(trial, Trial)
    assert trial.loss == [1.5907748937606812, 1.6678085327148438, 1.6354970932006836]
    assert trial.train == {"loss": 2.9435982704162598}
    assert trial.rates["eta"] == 0.7995321750640869


@pytest.mark.parametrize("kind", list(SAME))
def test_its_model_predicts_what_the_one_of_today_predicts(kind: str, today: dict[str, Run]) -> None:
    old, new = load_run(FOLDERS / kind), today[kind]
    x = np.linspace(-5, 5, 7, dtype=np.float32)[:, None]
    for shots in (None, (x[:2], np.sin(x[:2]))):
        np.testing.assert_allclose(old.predict(shots, x), new.predict(shots, x), rtol=1e-3, atol=1e-5)
    assert repr(old) == repr(new)


@pytest.mark.slow
def test_its_regret_can_be_estimated() -> None:
    found = estimate_regret(FOLDERS / "online", steps=0)
    assert found["cumulative_loss"] == pytest.approx(22.4, abs=0.05)


@pytest.mark.parametrize("kind", list(SAME))
def test_going_on_in_it_is_refused(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FOLDERS / kind, folder)
    for finished in (True, False):
        if not finished:
            (folder / "summary.json").unlink()
        before = {path: path.read_bytes() for path in folder.rglob("*.json*")}
        with pytest.raises(InputError, match=r"older version.*format 1"):
            run(SAME[kind](), folder, progress=False)
        assert {path: path.read_bytes() for path in folder.rglob("*.json*")} == before


def test_the_command_of_an_old_run_is_that_of_a_new_one() -> None:
    for kind, make in SAME.items():
        assert command(read_experiment(FOLDERS / kind), "x") == command(make().record, "x")


@pytest.mark.parametrize("part", ["settings", "learner", "fingerprint", "seed"])
def test_an_old_record_that_lacks_a_part_is_refused(part: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDERS / "online", tmp_path / "run")
    content = unsealed((tmp_path / "run/experiment.json").read_bytes())
    for wrong in ({name: content[name] for name in content if name != part}, content | {part: [5]}):
        (tmp_path / "run/experiment.json").write_bytes(sealed(wrong))
        with pytest.raises(DataError, match=r"experiment\.json"):
            read_runs(tmp_path)


def test_old_lines_of_other_kinds_are_known() -> None:
    assert upgrade_event({"pretraining": True, "train_loss": 0.5}) == {"kind": "pretraining", "train": {"loss": 0.5}}
    tested = {"test": True, "shots": 1, "loss": 0.1, "loss_error": 0.2, "accuracy": 0.5, "episodes": 3}
    assert upgrade_event(tested) == {"kind": "test", **{name: tested[name] for name in tested if name != "test"}}
