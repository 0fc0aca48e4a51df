"""The completion scripts, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anyshot.cli.app import COMMANDS
from anyshot.learners.catalogue import LEARNERS
from anyshot.runs.presets import PRESETS
from tests.support.command_line import Anyshot, command
from tests.support.terminal import Terminal

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def script() -> str:
    return subprocess.run(command("completion", "bash"), capture_output=True, text=True, check=True).stdout


def complete(script: str, *words: str) -> list[str]:
    """What bash offers for the last word, by the function that the script has registered."""
    program = f"""{script}
function=$(complete -p anyshot | sed -E 's/.*-F ([^ ]+).*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); $function; printf "%s\\n" "${{COMPREPLY[@]}}" """
    ran = subprocess.run(["bash", "-c", program, "bash", *words], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return sorted(ran.stdout.split())


def test_bash_completes_commands_presets_options_and_values(script: str) -> None:
    assert set(complete(script, "anyshot", "")) >= set(COMMANDS)
    assert complete(script, "anyshot", "comp") == ["compare", "completion"]
    assert set(complete(script, "anyshot", "run", "")) >= {*PRESETS, "--resume"}
    assert complete(script, "anyshot", "run", "sinu") == ["sinusoid", "sinusoid-offline"]
    assert complete(script, "anyshot", "run", "sinusoid", "--che") == ["--checkpoint-seconds"]
    assert complete(script, "anyshot", "run", "sinusoid", "--learner", "") == sorted(LEARNERS)
    assert complete(script, "anyshot", "run", "pose", "--device", "") == ["auto", "cpu", "gpu"]
    assert complete(script, "anyshot", "run", "pose", "--track", "t") == ["tensorboard"]
    assert complete(script, "anyshot", "compare", "runs", "--format", "m") == ["markdown"]
    assert complete(script, "anyshot", "bench", "--preset", "sinu") == ["sinusoid", "sinusoid-offline"]
    assert complete(script, "anyshot", "data", "s") == ["show"]
    assert complete(script, "anyshot", "compare", "ru") == [], "bash offers files then"


def test_the_tab_key_completes_in_a_real_terminal(script: str, tmp_path: Path) -> None:
    (tmp_path / "runs-of-today").mkdir()
    (tmp_path / "rc").write_text(f"{script}\nPS1='> '; anyshot() {{ printf '<%s>' \"$@\"; echo; }}\n")
    environment = os.environ | {"TERM": "dumb", "INPUTRC": "/dev/null"}
    with Terminal(["bash", "--noprofile", "--rcfile", "rc", "-i"], environment, tmp_path) as terminal:
        terminal.wait_for("> ")
        terminal.press("anyshot ru\t sinusoid-o\t\n")
        terminal.wait_for("<run><sinusoid-offline>")
        terminal.press("anyshot compare runs-o\t\n")
        terminal.wait_for("<compare><runs-of-today/>")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_names(shell: str, tmp_path: Path, anyshot_here: Anyshot) -> None:
    code, script, _ = anyshot_here("completion", shell)
    assert code == 0
    assert all(repr(name) in script for name in (*COMMANDS, *PRESETS, *LEARNERS))
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_the_completer_runs_with_any_python(script: str) -> None:
    """tyro's script calls python3, which need not be the one that anyshot is installed in."""
    assert sys.prefix not in script
