"""Every help text: it explains every option, and answers without loading what is slow to load."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import subprocess
import sys

import pytest

import anyshot
from anyshot.cli.app import COMMANDS
from anyshot.runs.presets import PRESETS
from tests.support.command_line import command

pytestmark = pytest.mark.medium

DATA = ("list", "fetch", "verify", "show")
ASKED = [[], *([name] for name in COMMANDS), *(["data", name] for name in DATA)]
ASKED += [["run", name] for name in PRESETS] + [["run", "--resume"]]
SLOW = {
    "jax",
    "equinox",
    "pandas",
    "matplotlib",
    "scipy",
    "sklearn",
    "tensorboardX",
    "mlflow",
    "wandb",
    "ray",
    "optuna",
}
ASK_ALL = """
import contextlib, io, json, sys
from anyshot.cli import main
answers = []
for words in json.loads(sys.argv[1]):
    code, out = 0, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out):
        try: main([*words, "--help"])
        except SystemExit as end: code = end.code or 0
    out.flush()
    answers.append([code, out.buffer.getvalue().decode()])
print(json.dumps([answers, sorted(sys.modules)]))
"""


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    """All help texts, asked for in one process."""
    ran = subprocess.run(
        [sys.executable, "-c", ASK_ALL, json.dumps(ASKED)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    answers, modules = json.loads(ran.stdout)
    assert not SLOW & set(modules)
    assert [code for code, _ in answers] == [0] * len(ASKED)
    return {" ".join(words): text for words, (_, text) in zip(ASKED, answers, strict=True)}


def entries(text: str) -> list[str]:
    """Every option with all that is said about it, taken out of the boxes."""
    found: list[str] = []
    for line in text.splitlines():
        inside = line.strip("│ ")
        if re.match("-h|--[a-z]", inside):
            found.append(inside)
        elif found and line.startswith("│") and not inside.startswith("─"):
            found[-1] += f" {inside}"
        elif found and line.startswith("╰"):
            found.append("")
    return [entry for entry in found if entry]


@pytest.mark.parametrize("words", [" ".join(words) for words in ASKED])
def test_help_explains_the_command_and_every_option(words: str, helps: dict[str, str]) -> None:
    text = helps[words]
    prose = " ".join(line for line in text.splitlines() if line and line[0] not in "│╭╰" and "usage:" not in line)
    assert len(re.findall(r"[a-z]{2,}", prose)) >= 5, "it has a description"
    for entry in entries(text):
        said = re.sub(r"\(default: .*?\)|\(required\)|\{.*?\}|\[.*?\]|--?[\w.+-]+|[A-Z]{3,}", " ", entry)
        assert len(re.findall(r"[A-Za-z]+", said)) >= 1, f"{entry!r} says nothing"


def test_help_lists_all_commands_and_all_presets(helps: dict[str, str]) -> None:
    assert all(f"• {name}" in helps[""] for name in COMMANDS)
    assert all(f"• {name}" in helps["run"] for name in (*PRESETS, "--resume"))
    assert "reproduce" not in helps[""]
    assert "offline " not in helps[""]


def test_the_options_of_run_are_the_same_for_every_preset(helps: dict[str, str]) -> None:
    wanted = {"--help", "--out", "--learner", "--seed", "--set", "--device", "--checkpoint-seconds", "--quiet"}
    wanted |= {"--devices", "--hosts"}
    for name in PRESETS:
        found = {option for entry in entries(helps[f"run {name}"]) for option in re.findall(r"--[\w-]+", entry)[:1]}
        assert found == wanted | {"--track", "--dry-run"}
    resumed = {option for entry in entries(helps["run --resume"]) for option in re.findall(r"--[\w-]+", entry)[:1]}
    assert resumed == {"--help", "--device", "--devices", "--hosts", "--checkpoint-seconds", "--quiet", "--track"}


def test_help_answers_at_once_also_as_a_module() -> None:
    """A quarter of a second on an idle machine; time of the processor is counted, as other tests run beside this."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = subprocess.run(command("--help"), capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert "usage: anyshot " in ran.stdout
    assert min(times) < 0.6
    ran = subprocess.run(command("--version"), capture_output=True, text=True, check=True)
    assert ran.stdout == f"anyshot {anyshot.__version__}\n"


def test_without_a_command_there_is_help_and_an_exit_code() -> None:
    ran = subprocess.run(command(), capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert all(name in ran.stdout for name in COMMANDS)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_is_closed_cut_off_or_full(unbuffered: str) -> None:
    def run(*words: str, into: str) -> subprocess.CompletedProcess[str]:
        line = f"{shlex.join(command(*words))} {into}; exit ${{PIPESTATUS[0]}}"
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment)

    cut = run("presets", into="| head -n 1")
    assert (cut.returncode, cut.stdout, cut.stderr) == (0, "presets:\n", "")
    for words in (["presets"], ["presets", "--help"]):
        closed = run(*words, into=">&-")
        assert (closed.returncode, closed.stderr) == (0, "")
        full = run(*words, into="> /dev/full")
        assert full.returncode == 1
        assert full.stderr.startswith("anyshot: ")
        assert full.stderr.count("\n") == 1
