"""A mistake is answered with one sentence and an exit code, and nothing is half-written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyshot.runs.files import sealed, unsealed
from tests.support.command_line import RUN, Anyshot, command, list_files

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
Make = Callable[[Path], object]  # makes what is in the current folder, given a finished run of TOE


def nothing(run: Path) -> None:
    pass


def finished(run: Path) -> None:
    shutil.copytree(run, "run")


def broken_line(run: Path) -> None:
    finished(run)
    Path("run/summary.json").unlink()
    log = Path("run/events.jsonl")
    log.write_bytes(log.read_bytes().replace(b'"loss"', b'loss"', 1))


def a_file(run: Path) -> None:
    Path("file").write_text("something of yours")


def other_things(run: Path) -> None:
    Path("run").mkdir()
    Path("run/thesis.tex").write_text("something of yours")


def a_run_and_a_file(run: Path) -> None:
    finished(run)
    a_file(run)


MISTAKES: list[tuple[str, Make, int, tuple[str, ...]]] = [
    # what was typed, what is there, the exit code, what the message must name
    ("rum sinusoid --out new", nothing, 2, ("'rum'", "'run'")),
    ("offline sinusoid-offline --out new", nothing, 2, ("'offline'",)),
    ("reproduce table-2", nothing, 2, ("'reproduce'",)),
    ("run sinusiod --out new", nothing, 2, ("'sinusiod'", "'sinusoid'")),
    ("run --out new", nothing, 2, ("--out",)),
    ("run sinusoid", nothing, 2, ("--out",)),
    ("run sinusoid --out new --learner ftlm", nothing, 2, ("'ftlm'", "'ftml'")),
    ("run sinusoid --out new --learner protonet", nothing, 2, ("protonet", "regression")),
    ("run sinusoid --out new --seed -1", nothing, 2, ("seed", "-1")),
    ("run sinusoid --out new --seed one", nothing, 2, ("--seed", "one")),
    ("run sinusoid --out new --device tpu", nothing, 2, ("--device", "tpu")),
    ("run sinusoid --out new --outt x", nothing, 2, ("--outt", "--out")),
    ("run sinusoid --out new --track tensorbord", nothing, 2, ("--track", "tensorbord", "tensorboard")),
    ("run sinusoid --out new --checkpoint-seconds -1", nothing, 2, ("checkpoint_seconds", "-1")),
    ("run sinusoid --out new --set protocol.evry=5", nothing, 2, ("'protocol.evry'",)),
    ("run sinusoid --out new --set protocol.max_step=5", nothing, 2, ("'protocol.max_step'", "protocol.max_steps")),
    ("run sinusoid --out new --set max_steps=5", nothing, 2, ("'max_steps'", "protocol.max_steps")),
    ("run sinusoid --out new --set protocol.max_steps", nothing, 2, ("--set", "NAME=VALUE", "'protocol.max_steps'")),
    ("run sinusoid --out new --set data.seed=1 --set data.seed=2", nothing, 2, ("data.seed", "twice")),
    ("run sinusoid --out new --set data.name=pose", nothing, 2, ("data.name",)),
    ("run sinusoid --out new --set protocol.max_steps=many", nothing, 2, ("max_steps", "many")),
    ("run sinusoid --out new --set protocol.threshold=nan", nothing, 2, ("threshold", "nan")),
    ("run sinusoid --out new --set protocol.measure=accuracy", nothing, 2, ("measure", "accuracy")),
    ("run sinusoid --out new --set protocol.num_tasks=101", nothing, 2, ("num_tasks", "101", "100")),
    ("run sinusoid --out new --set protocol.test_size=500", nothing, 2, ("test_size", "500", "100")),
    ("run sinusoid --out new --set learner.first_rate=-1", nothing, 2, ("first_rate", "-1")),
    ("run sinusoid --out new --set network.kind=conv4", nothing, 2, ("conv4", "(1,)")),
    ("run --resume", nothing, 2, ("DIR",)),
    ("run --resume nowhere", nothing, 1, ("nowhere", "experiment.json")),
    ("run --resume run", other_things, 1, ("run", "experiment.json")),
    ("run sinusoid --out run", other_things, 2, ("run", "thesis.tex")),
    ("run sinusoid --out run", finished, 2, ("run", "another experiment")),
    ("run sinusoid --out file", a_file, 2, ("file is a file",)),
    ("run sinusoid --out file/new", a_file, 1, ("file/new", "Not a directory")),
    ("run sinusoid --out /proc/new", nothing, 1, ("/proc/new", "No such file or directory")),
    ("sweep", nothing, 2, ("SPEC.toml",)),
    ("sweep nowhere.toml --out new", nothing, 2, ("nowhere.toml", "No such file")),
    ("sweep file --out new", a_file, 2, ("file", "TOML")),
    ("sweep file --out=", a_file, 2, ("--out", "''")),
    ("sweep file --out s3://bucket/sweep", a_file, 2, ("--out", "s3://bucket/sweep", "locks")),
    ("sweep file --out new --workers two", a_file, 2, ("--workers", "whole number", "two")),
    ("run sinusoid --out=", nothing, 2, ("--out", "''")),
    ("run sinusoid --out new --devices two", nothing, 2, ("--devices", "whole number or auto", "two")),
    ("run sinusoid --out new --hosts here:1 two 0", nothing, 2, ("--hosts", "HOST:PORT", "here:1 two 0")),
    ("compare", nothing, 2, ("run folder",)),
    ("compare run", other_things, 2, ("run", "experiment.json")),
    ("compare run", broken_line, 1, ("run/events.jsonl", "line 1")),
    ("compare run --against ftml", finished, 2, ("against", "'ftml'", "toe")),
    ("compare run --format pdf", finished, 2, ("--format", "pdf")),
    ("compare run --out table.pdf", finished, 2, ("out", "table.pdf", ".csv")),
    ("compare run --out file/t.csv", a_run_and_a_file, 2, ("out", "file/t.csv")),
    ("report run", broken_line, 1, ("run/events.jsonl", "line 1")),
    ("report run --out file/report.html", a_run_and_a_file, 2, ("out", "file/report.html")),
    ("watch run --once", other_things, 2, ("run", "experiment.json")),
    ("watch run --once", broken_line, 1, ("run/events.jsonl", "line 1")),
    ("bench --repeats 0", nothing, 2, ("--repeats", "0")),
    ("bench --preset sinusiod", nothing, 2, ("'sinusiod'", "'sinusoid'")),
    ("bench --preset sinusoid-offline", nothing, 2, ("--preset", "sinusoid-offline", "online")),
    ("bench --learner fmtl", nothing, 2, ("'fmtl'", "'ftml'")),
    ("bench --json file/b.json", a_file, 2, ("file/b.json",)),
    ("presets rainbow-digit", nothing, 2, ("'rainbow-digit'", "'rainbow-digits'")),
    ("presets sinusoid --learner ftlm", nothing, 2, ("'ftlm'", "'ftml'")),
    ("learners ftlm", nothing, 2, ("'ftlm'", "'ftml'")),
    ("demo --seeds 0", nothing, 2, ("--seeds", "0")),
    ("demo --seeds 21", nothing, 2, ("--seeds", "21")),
    ("demo --out file", a_file, 2, ("--out", "file")),
    ("demo --out file/report", a_file, 2, ("--out", "file/report")),
    ("completion powershell", nothing, 2, ("powershell", "bash")),
]


def check_answer(code: int, wanted_code: int, error: str, names: tuple[str, ...]) -> None:
    assert code == wanted_code, error
    assert "Traceback" not in error
    flat = " ".join(error.replace("│", " ").split())
    assert all(name in flat for name in names), flat
    if "For full helptext" not in error:  # tyro explains what it cannot parse in a box
        assert error.startswith("anyshot: ")
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "make", "code", "names"), MISTAKES, ids=[f"{mistake[0]} {mistake[1].__name__}" for mistake in MISTAKES]
)
def test_a_mistake_is_answered_with_a_sentence(
    words: str,
    make: Make,
    code: int,
    names: tuple[str, ...],
    here: Path,
    finished_run: Path,
    anyshot_here: Anyshot,
) -> None:
    make(finished_run)
    before = list_files(here)
    found, _, error = anyshot_here(*words.split())
    check_answer(found, code, error, names)
    assert list_files(here) == before, "nothing is written"


# Settings that a run could not keep. They were accepted once, and the folder was spoiled for the right ones.
SPOILERS = [
    ("rainbow-digits", "network.channels=0", ("channels", "0")),
    ("rainbow-digits", "network.channels=1000000", ("channels", "1000000")),
    ("rainbow-digits", "network.stride=0", ("stride", "0")),
    ("rainbow-digits", "network.hidden=40", ("network.hidden",)),
    ("sinusoid", "network.hidden=0", ("hidden", "0")),
    ("sinusoid", "network.channels=8", ("network.channels",)),
    ("sinusoid", "network.stride=2", ("network.stride",)),
    ("sinusoid", "protocol.max_steps=99999999999", ("max_steps", "99999999999")),
    ("sinusoid", "protocol.max_shots=1000000", ("max_shots", "1000000")),
    ("sinusoid", "protocol.steps_per_arrival=1000000", ("steps_per_arrival", "1000000")),
    ("sinusoid", "learner.adaptation_steps=1000000", ("adaptation_steps", "1000000")),
    ("sinusoid --learner ftml-vs", "learner.inner_steps=1000000", ("inner_steps", "1000000")),
    ("sinusoid --learner ftml-vs", "learner.fixed_layers=3", ("fixed_layers", "3 layers", "got 3")),
    ("sinusoid-offline", "protocol.zero_shot_share=1.0", ("zero_shot_share", "below 1", "1.0")),
    ("sinusoid", "data.num_tasks=1000000000", ("num_tasks", "1000000000")),
    ("sinusoid", "data.train_rows=1000000000000", ("train_rows", "1000000000000")),
    ("sinusoid-offline", "protocol.max_shots=1000000", ("max_shots", "1000000")),
    ("sinusoid-offline", "protocol.steps_per_trial=1000000", ("steps_per_trial", "1000000")),
]


@pytest.mark.parametrize(("preset", "setting", "names"), SPOILERS, ids=[f"{one[0]} {one[1]}" for one in SPOILERS])
def test_settings_that_cannot_be_leave_no_folder(
    preset: str, setting: str, names: tuple[str, ...], here: Path, anyshot_here: Anyshot
) -> None:
    started = time.monotonic()
    code, _, error = anyshot_here("run", *preset.split(), "--out", "new", "--quiet", "--set", setting)
    check_answer(code, 2, error, names)
    assert list_files(here) == {}
    assert time.monotonic() - started < 10


def test_the_corrected_command_works_in_the_same_folder(here: Path, anyshot_here: Anyshot) -> None:
    assert anyshot_here(*RUN, "network.hidden=0", "--out", "new", "--quiet")[0] == 2  # hidden twice
    assert anyshot_here("run", "sinusoid", "--set", "network.hidden=0", "--out", "new", "--quiet")[0] == 2
    assert anyshot_here(*RUN, "--learner", "toe", "--out", "new", "--quiet") == (0, "", "")
    assert Path("new/summary.json").exists()


HUGE: list[tuple[tuple[str, ...], Any, str]] = [
    (("tasks", "origin", "settings", "num_tasks"), 10**9, "num_tasks"),
    (("tasks", "origin", "settings", "train_rows"), 10**12, "train_rows"),
    (("protocol", "max_steps"), 10**12, "max_steps"),
    (("protocol", "max_shots"), 10**9, "max_shots"),
    (("protocol", "steps_per_arrival"), 10**9, "steps_per_arrival"),
    (("learner", "network", "hidden"), [10**9], "hidden"),
    (("learner", "problem", "outputs"), 10**12, "outputs"),
    (("learner", "problem", "max_shots"), 10**12, "max_shots"),
]


@pytest.mark.parametrize(("path", "value", "name"), HUGE, ids=[".".join(one[0]) for one in HUGE])
def test_huge_sizes_in_an_experiment_file_are_refused_at_once(
    path: tuple[str, ...], value: Any, name: str, here: Path, finished_run: Path, anyshot_here: Anyshot
) -> None:
    finished(finished_run)
    Path("run/summary.json").unlink()
    place = Path("run/experiment.json")
    content = unsealed(place.read_bytes())
    *outer, last = path
    inner = content
    for part in outer:
        inner = inner[part]
    inner[last] = value
    place.write_bytes(sealed(content))
    started = time.monotonic()
    code, _, error = anyshot_here("run", "--resume", "run", "--quiet")
    check_answer(code, 2, error, (name,))
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("words", ["bench --preset sinusoid --json", "compare run --out", "report run --out"])
@pytest.mark.parametrize("kind", ["device", "pipe", "link", "folder"])
def test_only_new_and_regular_files_are_written(
    words: str, kind: str, here: Path, finished_run: Path, anyshot_here: Anyshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were replaced by a regular file: as root, /dev/null too."""
    finished(finished_run)
    monkeypatch.setattr("anyshot.runs.timing.time_experiment", lambda *given: pytest.fail("measured"))
    place = Path("out.html" if "report" in words else "out.json")
    if kind == "device":
        os.mknod(place, 0o600 | 0o020000, os.makedev(1, 3)) if os.geteuid() == 0 else place.symlink_to("/dev/null")
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        Path("target").write_text("something of yours")
        place.symlink_to("target")
    else:
        place.mkdir()
    before = place.lstat()
    code, _, error = anyshot_here(*words.split(), str(place))
    check_answer(code, 2, error, (str(place),))
    after = place.lstat()
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    words = command("run", "sinusoid", "--device", "gpu", "--quiet", "--out", str(tmp_path / "run"))
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    check_answer(ran.returncode, 2, ran.stderr, ("--device", "gpu", "--device cpu"))
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(here: Path, anyshot_here: Anyshot) -> None:
    Path("locked").mkdir(mode=0o500)
    code, _, error = anyshot_here(*RUN, "--out", "locked/run")
    check_answer(code, 1, error, ("locked/run",))


def test_a_device_without_enough_memory(here: Path, anyshot_here: Anyshot, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any, **named: Any) -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.\nmore lines")

    monkeypatch.setattr("anyshot.runs.running.drive", fail)
    code, _, error = anyshot_here(*RUN, "--out", "new", "--quiet")
    check_answer(code, 1, error, ("memory", "9 bytes"))


def test_an_unknown_setting_is_not_taken_for_a_value(here: Path, anyshot_here: Anyshot) -> None:
    """Everything behind --set is a setting, up to the next option."""
    code, _, error = anyshot_here("run", "sinusoid", "--set", "protocol.num_tasks=3", "oops", "--out", "new")
    check_answer(code, 2, error, ("'oops'", "NAME=VALUE"))
    assert json.dumps(list_files(here)) == "{}"
