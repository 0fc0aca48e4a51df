"""`anyshot run` in processes of its own: what it writes and prints, Ctrl-C at several moments, a real terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import anyshot
from anyshot.runs.interrupts import redeliver_interrupts, reveal_interrupts
from anyshot.runs.reading import read_environment, read_run
from tests.support.command_line import RUN, SMALL, Anyshot, command, environment, interruptible
from tests.support.terminal import Terminal

pytestmark = pytest.mark.medium


def result(folder: Path) -> dict[str, bytes]:
    """What must be the same however a run came to its end."""
    (last,) = sorted((folder / "checkpoints").iterdir())[-1:]
    files = [folder / "events.jsonl", folder / "summary.json", folder / "experiment.json", *sorted(last.iterdir())]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the command, never interrupted."""
    folder = tmp_path_factory.mktemp("typed") / "run"
    ran = subprocess.run(
        command(*RUN, "--out", str(folder)), env=environment(), check=True, capture_output=True, text=True
    )
    assert "starting JAX" in ran.stdout.splitlines()[0]
    assert str(folder) in ran.stdout.splitlines()[-1]
    return folder


def test_the_folder_holds_the_experiment_that_was_asked_for(typed: Path) -> None:
    record, events, summary = read_run(typed)
    assert (record.kind, record.learner.name, record.seed) == ("online", "ftml-vs", 0)
    wanted = {name: list(value) if isinstance(value, tuple) else value for name, value in SMALL.items()}
    assert wanted.items() <= record.settings().items()
    assert record == anyshot.make_experiment("sinusoid", "ftml-vs", settings=SMALL).record
    assert summary is not None
    assert summary.kind == "online"
    assert summary.total_labels == sum(event.labels for event in events if event.kind == "evaluation" and event.ended)


def test_the_same_command_and_resume_leave_a_finished_run_as_it_is(typed: Path) -> None:
    before = result(typed)
    for words in ([*RUN, "--out", str(typed)], ["run", "--resume", str(typed), "--device", "cpu"]):
        ran = subprocess.run(command(*words, "--quiet"), env=environment(), check=True, capture_output=True, text=True)
        assert (ran.stdout, ran.stderr) == ("", "")
    assert result(typed) == before


@pytest.mark.slow
def test_tasks_in_turn_are_shared_out_among_the_cores_also_when_the_run_goes_on(tmp_path: Path) -> None:
    """The number of devices is settled before JAX starts, which making an experiment does."""
    folder = tmp_path / "run"
    words = [*RUN, "learner.batching=in turn", "protocol.num_tasks=1", "--device", "cpu", "--out", str(folder)]
    for again in (words, ["run", "--resume", str(folder), "--device", "cpu"]):
        subprocess.run(command(*again), env=environment(), check=True, capture_output=True)
    assert [opening["devices"] for opening in read_environment(folder)] == [len(os.sched_getaffinity(0))] * 2


@pytest.mark.slow
def test_an_offline_run_has_the_same_command(here: Path, anyshot_here: Anyshot) -> None:
    few = ["protocol.steps=20", "protocol.steps_per_trial=10", "protocol.max_episodes=40", "network.hidden=4"]
    few += ["protocol.validation_episodes=10", "learner.inner_steps=1", "protocol.test_shots=0,2"]
    words = ["run", "sinusoid-offline", "--learner", "maml", "--seed", "3", "--out", "run", "--set", *few]
    code, printed, _ = anyshot_here(*words)
    assert code == 0
    record, events, summary = read_run(Path("run"))
    assert (record.kind, record.learner.name, record.seed) == ("offline", "maml", 3)
    assert [event.kind for event in events] == ["trial", "trial", "test", "test"]
    assert summary is not None
    assert summary.kind == "offline"
    last = printed.splitlines()[-1]
    assert all(f"loss {score.loss:.3f} with {score.shots}" in last for score in summary.tests)
    assert anyshot_here("run", "--resume", "run", "--quiet") == (0, "", "")


def test_a_tracker_gets_the_events(here: Path, anyshot_here: Anyshot) -> None:
    code, printed, error = anyshot_here(*RUN, "--learner", "toe", "--out", "run", "--track", "tensorboard")
    assert (code, error) == (0, "")
    assert list(Path("run/tensorboard").iterdir())
    assert "run/tensorboard" in printed


def test_a_tracker_that_is_not_installed_is_refused_before_anything_is_written(
    here: Path, anyshot_here: Anyshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyshot.runs.trackers.find_spec", lambda name: None)
    code, _, error = anyshot_here(*RUN, "--out", "run", "--track", "mlflow")
    assert code == 2
    assert "mlflow" in error
    assert "pip install" in error
    assert not Path("run").exists()


# Ctrl-C


def interrupt(folder: Path, when: str, after: float = 0.0) -> str:
    """The sentence after a Ctrl-C some time after a line of progress."""
    with subprocess.Popen(
        interruptible(*RUN, "--out", str(folder)),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while when not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert error.count("\n") == 1, error
    assert error.startswith("anyshot: interrupted")
    return error


# Ctrl-C at the moment when an extension of JAX imports NumPy, and turns whatever happens into an ImportError.
AT_WORST = """
import sys
class Now:
    def find_spec(self, name, *rest):
        if name == "numpy._core.numeric": signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Now())
"""


def test_ctrl_c_while_jax_is_being_imported(tmp_path: Path) -> None:
    words = interruptible(*RUN, "--out", str(tmp_path / "run"), before=AT_WORST)
    ran = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "anyshot: interrupted before the run began\n")
    assert not (tmp_path / "run").exists()


def test_ctrl_c_while_jax_is_starting(tmp_path: Path) -> None:
    error = interrupt(tmp_path / "run", "starting JAX", 0.4)
    assert ("before the run began" in error) == (not (tmp_path / "run/experiment.json").exists())


def test_ctrl_c_while_compiling_does_not_say_that_anything_was_saved(tmp_path: Path) -> None:
    error = interrupt(tmp_path / "run", "compiling")
    assert f"anyshot run --resume {tmp_path / 'run'}" in error
    assert "nothing was saved" in error
    assert not (tmp_path / "run/checkpoints").exists()


def test_ctrl_c_typed_on_a_terminal_saves_and_the_run_goes_on_from_there(typed: Path, tmp_path: Path) -> None:
    """A bar on the terminal, one sentence after Ctrl-C, and in the end the bytes of the run that was left alone."""
    folder = tmp_path / "a run"
    log = folder / "events.jsonl"
    words = interruptible(*RUN, "--out", str(folder), "--checkpoint-seconds", "0")
    with Terminal(words, environment(), tmp_path) as terminal:
        while not (log.exists() and log.stat().st_size):
            assert terminal.read(0.002), terminal.shown
        terminal.press("\x03")
        code = terminal.wait()
    assert code == 130, terminal.shown
    assert "/6 tasks" in terminal.shown
    assert "\x1b[" in terminal.raw, "the progress is drawn"
    assert "Traceback" not in terminal.shown
    last = terminal.shown.strip().splitlines()[-1]
    assert last == f"anyshot: interrupted and saved; go on with: anyshot run --resume '{folder}'"
    assert any((folder / "checkpoints").iterdir())
    subprocess.run(command("run", "--resume", str(folder)), env=environment(), check=True, capture_output=True)
    assert result(folder) == result(typed)


@pytest.mark.parametrize("make", [SystemError, ValueError])
def test_ctrl_c_that_compiled_code_disguises_is_ctrl_c(make: type[Exception]) -> None:
    """JAX's cache calls Python to hash and to compare, and reports what went wrong there as an error of its own."""
    with pytest.raises(KeyboardInterrupt), reveal_interrupts():
        raise make("__hash__ returned a result with an exception set") from KeyboardInterrupt()
    with pytest.raises(make, match="another"), reveal_interrupts():
        raise make("another")


def test_ctrl_c_that_a_callback_swallows_is_delivered_again() -> None:
    class Last:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def swallow() -> None:
        with redeliver_interrupts():
            Last()
            time.sleep(10)
            pytest.fail("nothing came")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            swallow()
    finally:
        signal.signal(signal.SIGINT, before)
