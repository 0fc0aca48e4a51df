"""Specs: what they expand to, and what is refused before anything is written."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from anyshot.errors import InputError
from anyshot.sweeps.plan import make_plan
from anyshot.sweeps.spec import read_spec
from anyshot.sweeps.sweeping import check_spec, sweep
from anyshot.sweeps.trials import Candidate, list_candidates
from tests.support.refusals import assert_refused
from tests.support.sweeps import SMALL

PAGE = Path(__file__).parents[2] / "docs/sweeps.md"
TOML = """
experiments = ["sinusoid"]
learners = ["ftml", "toe"]
seeds = [0, 1]

[settings]
protocol.num_tasks = 3
"network.hidden" = [8]

[grid]
learner.meta_rate = [0.01, 0.001]
protocol.updates_per_step = [1, 2, 3]
"""


def test_a_grid_has_every_combination(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(TOML)
    spec = read_spec(tmp_path / "spec.toml")
    found = list_candidates(spec)
    assert spec.count == 24
    assert len(set(found)) == len(found) == 12
    assert {one.learner for one in found} == {"ftml", "toe"}
    assert all(one.settings["network.hidden"] == [8] for one in found)
    assert len({one.name for one in found}) == 12
    pairs = {(one.settings.get("learner.meta_rate"), one.settings.get("protocol.updates_per_step")) for one in found}
    assert pairs == {(rate, n) for rate in (0.01, None) for n in (None, 2, 3)}, "the preset's own values are no change"


def test_a_list_has_its_rows_and_names_say_nothing_of_order_or_form() -> None:
    rows: list[dict[str, Any]] = [{"learner": "toe"}, {"settings": {"learner": {"inner_rate": 0.3}}}]
    found = list_candidates(read_spec({"experiments": ["sinusoid"], "learners": ["ftml"], "list": rows}))
    assert [(one.learner, one.settings) for one in found] == [("toe", {}), ("ftml", {"learner.inner_rate": 0.3})]
    one = Candidate.of("sinusoid", "ftml", {"network.hidden": (8,), "learner.meta_rate": 1})
    two = Candidate.of("sinusoid", "ftml", {"learner.meta_rate": 1.0, "network.hidden": [8], "protocol.max_shots": 10})
    assert one == two, "max_shots 10 is the preset's"


GOOD: dict[str, Any] = {"experiments": ["sinusoid"], "learners": ["ftml"], "settings": SMALL}
SPACE = {"learner.inner_rate": {"low": 0.01, "high": 0.1, "log": True}}
BAD: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown experiment": ({"experiments": ["sinusiod"]}, ("'sinusiod'", "'sinusoid'")),
    "unknown learner": ({"learners": ["ftlm"]}, ("'ftlm'", "'ftml'")),
    "unknown key": ({"grids": {}}, ("grids",)),
    "unknown setting": ({"grid": {"protocol.max_step": [1]}}, ("protocol.max_step", "protocol.max_steps")),
    "a learner without the setting": ({"learners": ["toe"], "grid": {"learner.inner_rate": [1.0]}}, ("toe on", "rate")),
    "wrong type": ({"seeds": ["zero"]}, ("seeds", "'zero'")),
    "no list": ({"experiments": "sinusoid"}, ("experiments must be a list", "'sinusoid'")),
    "no name": ({"learners": [7]}, ("learners must be a list", "the entry 7")),
    "no table": ({"settings": 3}, ("settings must be a table", "3")),
    "an empty table": ({"settings": {"learner": {}}}, ("settings: learner is an empty table",)),
    "a value of no kind": (
        {"settings": {"network.hidden": [{"a": 1}]}},
        ("settings.network.hidden must be", "{'a': 1}"),
    ),
    "a grid without lists": ({"grid": {"learner.inner_rate": 0.1}}, ("grid.learner.inner_rate must be a list", "0.1")),
    "a row that is none": ({"list": [3]}, ("list.0 must be a table", "3")),
    "a key of a row": ({"list": [{"learners": ["toe"]}]}, ("no key list.0.learners", "did you mean learner?")),
    "learners beside a list": ({"list": [{"learner": "toe"}]}, ("learners is ['ftml']", "no effect", "leave it out")),
    "experiments beside a list": ({"list": [{"experiment": "pose"}]}, ("experiments has sinusoid", "no effect")),
    "no trials": ({"search": {"space": SPACE}}, ("search.trials is missing", "whole number from 1 to 10,000")),
    "half a range": ({"search": {"trials": 1, "space": {"learner.eta": {"low": 1}}}}, ("learner.eta.high is missing",)),
    "a range of texts": (
        {"search": {"trials": 1, "space": {"learner.eta": {"low": "1", "high": 2}}}},
        ("search.space.learner.eta.low must be a number", "'1'"),
    ),
    "neither range nor list": (
        {"search": {"trials": 1, "space": {"learner.eta": 3}}},
        ("learner.eta must be a range", "3"),
    ),
    "a factor of 1": (
        {"search": {"trials": 2, "space": SPACE}, "stopping": {"tasks": [1], "factor": 1}},
        ("stopping.factor must be a number above 1", "got 1"),
    ),
    "more fixed layers than there are": (
        {"grid": {"learner.fixed_layers": [0, 2]}},
        ("fixed_layers", "2 layers", "got 2"),
    ),
    "drawn in the middle": (
        {"search": {"trials": 40, "space": {"learner.fixed_layers": [0, 2, 1], "learner.inner_rate": [0.1]}}},
        ("fixed_layers", "got 2"),
    ),
    "an own experiment without the seed": (
        {"experiments": ["tests.support.own_experiments:make_without_seed"], "seeds": [0, 1], "settings": {}},
        ("make_without_seed", "asked for seed 1", "with seed 0"),
    ),
    "no seeds": ({"seeds": []}, ("seeds",)),
    "a seed twice": ({"seeds": [1, 1]}, ("seeds", "twice")),
    "empty grid": ({"grid": {}}, ("grid",)),
    "empty grid entry": ({"grid": {"learner.inner_rate": []}}, ("grid.learner.inner_rate",)),
    "bad value": ({"grid": {"learner.inner_rate": [0.1, -1.0]}}, ("inner_rate", "-1")),
    "bad value of the protocol": ({"grid": {"protocol.updates_per_step": ["many"]}}, ("updates_per_step", "many")),
    "too many": ({"seeds": list(range(10)), "grid": {f"a.{n}": list(range(10)) for n in range(6)}}, ("10,000,000",)),
    "grid and list": ({"grid": {"learner.inner_rate": [0.1]}, "list": [{}]}, ("grid and list",)),
    "fixed and varied": ({"grid": {"protocol.max_steps": [1, 2]}}, ("protocol.max_steps", "settings")),
    "stopping alone": ({"stopping": {"tasks": [1]}}, ("stopping", "search")),
    "a range upside down": ({"search": {"trials": 2, "space": {"learner.eta": {"low": 2, "high": 1}}}}, ("low", "2")),
    "a stream that is searched": (
        {"search": {"trials": 2, "space": {"data.seed": [1, 2]}}, "stopping": {"tasks": [1]}},
        ("data.seed", "stream"),
    ),
    "stopping at the end": ({"search": {"trials": 2, "space": SPACE}, "stopping": {"tasks": [2, 6]}}, ("6",)),
    "stopping offline": (
        {
            "experiments": ["sinusoid-offline"],
            "learners": ["maml"],
            "settings": {},
            "search": {"trials": 2, "space": SPACE},
            "stopping": {"tasks": [1]},
        },
        ("sinusoid-offline", "offline"),
    ),
    "own code that is not there": ({"experiments": ["no.such.module:make"]}, ("no.such.module:make", "imported")),
    "a function of this place": ({"experiments": [lambda learner, seed, settings: None]}, ("lambda", "import")),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_spec_is_refused_in_one_sentence_before_anything_is_written(name: str, tmp_path: Path) -> None:
    changes, words = BAD[name]
    assert_refused(lambda: sweep(GOOD | changes, tmp_path / "out", progress=False), [*words])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"on": "cloud"}, "cloud"),
        ({"workers": 0}, "workers"),
        ({"gpus": 0.5}, "gpus"),
        ({"on": "auto", "gpus": 1.5}, "1.5"),
        ({"device": "tpu"}, "tpu"),
        ({"checkpoint_seconds": float("nan")}, "checkpoint_seconds"),
        *(({name: wrong}, name) for name in ("on", "workers", "gpus", "device") for wrong in ([], True, b"x")),
        *(({"checkpoint_seconds": wrong}, "checkpoint_seconds") for wrong in (None, "1", True)),
        ({"progress": "no"}, "progress"),
        *(({"out": wrong}, "out") for wrong in (None, 3, "", " ", "s3://bucket/sweep", b"x", "a\0b")),
        *(({"spec": wrong}, "spec") for wrong in (None, 3, [GOOD], "")),
        ({"on": "ray://localhost:1"}, "localhost:1"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: dict[str, Any], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    how: dict[str, Any] = {"spec": GOOD, "out": tmp_path / "out", "progress": False} | arguments
    assert_refused(lambda: sweep(**how), [word])
    assert not [*tmp_path.iterdir()], "not even a lock"


@pytest.mark.parametrize("text", ["experiments = [", "\udcff", None])
def test_a_file_that_is_no_spec(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "s.toml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"s\.toml"):
        read_spec(tmp_path / "s.toml")


@pytest.mark.parametrize("text", re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL))
def test_the_specs_of_the_docs_are_accepted(text: str, tmp_path: Path) -> None:
    spec = read_spec(tomllib.loads(text))
    check_spec(spec, tmp_path)
    assert make_plan(spec).trials > 1
