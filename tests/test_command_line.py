"""The command line as a person meets it: every help, every mistake, Ctrl-C at any moment, the shell's completion."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_report import write_run
from test_run_online import WORDS, command, environment

from anyshot.cli import COMMANDS, main
from anyshot.cli.interrupts import delivered, undisguised
from anyshot.cli.taking import commands
from anyshot.runs.offline_presets import OFFLINE_PRESETS
from anyshot.runs.presets import PRESETS

# Help

INNER = ("list", "fetch", "verify", "show")
ASKED = [["--help"], *([name, "--help"] for name in COMMANDS), *(["data", inner, "--help"] for inner in INNER)]
ASKED += [["run", name, "--help"] for name in PRESETS] + [["run", "--resume", "x", "--help"]]
ASKED += [["offline", name, "--help"] for name in OFFLINE_PRESETS] + [["offline", "--resume", "x", "--help"]]
ASK_ALL = """
import contextlib, io, json, sys
from anyshot.cli import main
told = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["anyshot", *words]
    code, out = 0, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out):
        try: main()
        except SystemExit as end: code = end.code or 0
    out.flush()
    told.append([code, out.buffer.getvalue().decode()])
print(json.dumps([told, sorted(sys.modules)]))
"""


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    """What every command says of itself, asked for in one process that must not load what is slow to load."""
    ran = subprocess.run(
        [sys.executable, "-c", ASK_ALL, json.dumps(ASKED)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    told, modules = json.loads(ran.stdout)
    assert not {"jax", "matplotlib", "scipy", "tensorboardX", "mlflow", "wandb"} & set(modules)
    assert [code for code, _ in told] == [0] * len(ASKED)
    return {" ".join(words[:-1]): text for words, (_, text) in zip(ASKED, told, strict=True)}


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


@pytest.mark.parametrize("words", [" ".join(words[:-1]) for words in ASKED])
def test_help_explains_the_command_and_every_option(words: str, helps: dict[str, str]) -> None:
    text = helps[words]
    prose = " ".join(line for line in text.splitlines() if line and line[0] not in "│╭╰" and "usage:" not in line)
    assert len(re.findall(r"[a-z]{2,}", prose)) >= 5, "it has a description"
    for entry in entries(text):
        said = re.sub(r"\(default: .*?\)|\(required\)|\{.*?\}|\[.*?\]|--?[\w.+-]+|[A-Z]{3,}", " ", entry)
        assert len(re.findall(r"[A-Za-z]+", said)) >= 1, f"{entry!r} says nothing"


def test_the_table_of_options_has_what_help_has(helps: dict[str, str]) -> None:
    """The one is made for the shells from the functions' types, the other by tyro."""
    taken = commands()
    assert set(COMMANDS) <= set(taken)
    for name, one in taken.items():
        if name in ("data", "presets", "learners"):  # which list what they have instead
            assert set(one.options) == {"--help"}
            continue
        asked = {"run": "run sinusoid", "offline": "offline sinusoid-offline"}.get(name)
        texts = [helps[asked], helps[f"{name} --resume x"]] if asked else [helps[name]]
        heads = [re.match(r"(?:-h, )?--[\w.-]+(?:, --[\w.-]+)*", entry) for text in texts for entry in entries(text)]
        shown = {option for head in heads if head for option in re.findall(r"--[\w.-]+", head[0])}
        assert set(one.options) == shown, name


# Completion


def completed(script: str, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    program = f'{script}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _anyshot; printf "%s\\n" "${{COMPREPLY[@]}}"'
    ran = subprocess.run(["bash", "-c", program, "bash", *words], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_completes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["anyshot", "completion", "bash"])
    main()
    script = capsys.readouterr().out
    assert completed(script, "anyshot", "") == [*COMMANDS, "--help", "--version"]
    assert completed(script, "anyshot", "comp") == ["compare", "completion"]
    assert completed(script, "anyshot", "run", "") == list(PRESETS)
    assert completed(script, "anyshot", "run", "sinusoid", "--learner", "ftml-vs") == [
        "ftml-vs",
        "ftml-vs+meta-sgd",
        "ftml-vs-closed-form",
    ]
    assert completed(script, "anyshot", "run", "sinusoid", "--protocol.max") == [
        "--protocol.max-steps",
        "--protocol.max-shots",
    ]
    assert completed(script, "anyshot", "run", "pose", "--track", "") == ["tensorboard", "mlflow", "wandb"]
    assert completed(script, "anyshot", "run", "--resume", "") == [], "bash offers files then"
    assert completed(script, "anyshot", "compare", "") == []
    assert completed(script, "anyshot", "compare", "runs", "--format", "m") == ["markdown"]
    assert completed(script, "anyshot", "data", "") == list(INNER)
    assert completed(script, "anyshot", "data", "show", "o") == ["omniglot"]
    assert completed(script, "anyshot", "data", "show", "omniglot", "--t") == ["--tasks"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_get_the_same_words(
    shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["anyshot", "completion", shell])
    main()
    script = capsys.readouterr().out
    for taken in commands().values():
        for option, values in taken.options.items():
            assert (option if shell == "zsh" else f"-l {option[2:]}") in script
            assert " ".join(values or ()) in script


# Mistakes

Make = Callable[[Path], object]


def finished_run(folder: Path) -> None:
    write_run(folder / "run", "toe", 0)


def broken_line(folder: Path) -> None:
    write_run(folder / "run", "toe", 0, finished=False)
    log = folder / "run/events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"loss"', b'loss"', 1))


def a_file(folder: Path) -> None:
    (folder / "file").write_text("something of yours")


def other_things(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "run/thesis.tex").write_text("something of yours")


def nothing(folder: Path) -> None:
    pass


SINE = "run sinusoid --protocol.tasks 3"
MISTAKES: list[tuple[str, Make, int, str]] = [
    # what was typed, what is there, the exit code, what must be told
    ("rum sinusoid --out new", nothing, 2, "there is no command 'rum'; did you mean run?"),
    ("run sinusiod --out new", nothing, 2, "for anyshot run; did you mean sinusoid? there are rainbow"),
    ("run sinusoid --learner ftlm --out new", nothing, 2, "ftml-vs"),
    ("run sinusoid --protocol.evry 5 --out new", nothing, 2, "--protocol.every"),
    ("run sinusoid --protocol.every five --out new", nothing, 2, "five"),
    ("run sinusoid --protocol.every 0 --out new", nothing, 2, "every must be a whole number of at least 1, got 0"),
    ("run sinusoid --track tensorbord --out new", nothing, 2, "tensorboard"),
    ("run --resume run", other_things, 1, "run is no run folder: it has no experiment.json"),
    ("run --resume nowhere", nothing, 1, "nowhere is no run folder"),
    (f"{SINE} --out run", other_things, 2, "run is no run folder and not empty (it holds thesis.tex"),
    (f"{SINE} --out run", finished_run, 2, 'run holds another experiment: learner is "toe" there and "ftml-vs" here'),
    (f"{SINE} --out file", a_file, 2, "file is a file; a run needs a folder, new or empty"),
    (f"{SINE} --out file/new", a_file, 1, "cannot write into file/new: Not a directory"),
    (f"{SINE} --out /proc/new", nothing, 1, "cannot write into /proc/new: No such file or directory; make room"),
    ("watch run --once", other_things, 2, "run is no run folder and holds none: there is no experiment.json in it"),
    ("watch run --once", broken_line, 1, "run/events.jsonl is damaged in line 1; start the run again"),
    ("compare run", broken_line, 1, "run/events.jsonl is damaged in line 1; start the run again"),
    ("report run", broken_line, 1, "run/events.jsonl is damaged in line 1; start the run again"),
    ("report run --out file/report.html", lambda to: (a_file(to), finished_run(to)), 2, "--out must"),
    ("compare run --out file/t.csv", lambda to: (a_file(to), finished_run(to)), 2, "--out must"),
    ("bench --json nowhere/b.json", nothing, 2, "--json must be a file in a folder that is there"),
    ("bench --repeats 0", nothing, 2, "--repeats must be at least 1, got 0"),
    ("bench --preset sinusiod", nothing, 2, "sinusoid"),
    ("completion powershell", nothing, 2, "anyshot completion takes one of bash, zsh, fish, got 'powershell'"),
    ("presets rainbow", nothing, 2, "anyshot presets takes no arguments, got 'rainbow'"),
]


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*") if path.name != "lock"
    }


@pytest.mark.parametrize(
    ("words", "make", "code", "told"), MISTAKES, ids=[one[0] + one[1].__name__ for one in MISTAKES]
)
def test_a_mistake_is_answered_with_a_sentence(
    words: str,
    make: Make,
    code: int,
    told: str,
    no_data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (no_data / "here").mkdir()
    monkeypatch.chdir(no_data / "here")
    monkeypatch.setattr(sys, "argv", ["anyshot", *words.split()])
    monkeypatch.setattr("anyshot.cli.running.use_device", lambda device, tasks: None)
    make(Path())
    before = content(no_data / "here")
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().err
    assert end.value.code == code
    assert told in " ".join(said.replace("│", " ").split())
    assert "Traceback" not in said
    if "For full helptext" not in said:  # tyro answers what it cannot read in a box
        assert said.startswith("anyshot: ")
        assert said.count("\n") == 1
    assert content(no_data / "here") == before, "nothing is half-written"


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    words = ["run", "sinusoid", "--device", "gpu", "--quiet", "--out", str(tmp_path / "run")]
    program = [sys.executable, "-c", "from anyshot.cli import main; main()"]
    ran = subprocess.run([*program, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("anyshot: --device is gpu, but JAX cannot start there (")
    assert ran.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_one_may_not_write(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    words = command(*SINE.split(), "--out", str(tmp_path / "locked/run"))
    ran = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("anyshot: cannot write into")


# Ctrl-C; once a run is going, tests/test_run_online.py has it


# Shells start what runs in the background with Ctrl-C ignored, and the tests may run there.
DEFAULT = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def interrupted(folder: Path, when: str, after: float = 0.0) -> str:
    """The sentence that Ctrl-C gets, some time after a line of progress."""
    with subprocess.Popen(
        [sys.executable, "-c", DEFAULT + command()[-1], *WORDS, "--out", str(folder)],
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
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert told.count("\n") == 1, told
    assert told.startswith("anyshot: interrupted")
    return told


# Ctrl-C at the very moment when an extension of JAX imports NumPy, and turns whatever happens into an ImportError.
AT_WORST = """
import sys
class Now:
    def find_spec(self, name, *rest):
        if name == "numpy._core.numeric": signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Now())
"""


def test_ctrl_c_while_jax_is_being_imported(tmp_path: Path) -> None:
    words = [sys.executable, "-c", DEFAULT + AT_WORST + command()[-1], *WORDS, "--out", str(tmp_path / "run")]
    ran = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "anyshot: interrupted before the run began\n")
    assert not (tmp_path / "run").exists()


def test_ctrl_c_while_jax_is_starting(tmp_path: Path) -> None:
    told = interrupted(tmp_path / "run", "starting JAX", 0.4)
    assert (told == "anyshot: interrupted before the run began\n") == (not (tmp_path / "run/experiment.json").exists())


def test_ctrl_c_while_compiling_does_not_say_that_anything_was_saved(tmp_path: Path) -> None:
    told = interrupted(tmp_path / "run", "compiling")
    assert told.endswith(f"anyshot run --resume {tmp_path / 'run'} goes on from the beginning: nothing was saved yet\n")
    assert not (tmp_path / "run/checkpoints").exists()


@pytest.mark.parametrize("make", [SystemError, ValueError])
def test_ctrl_c_that_compiled_code_disguises_is_ctrl_c(make: type[Exception]) -> None:
    """JAX's cache calls Python to hash and to compare, and reports what went wrong there as an error of its own."""
    with pytest.raises(KeyboardInterrupt), undisguised():
        raise make("__hash__ returned a result with an exception set") from KeyboardInterrupt()
    with pytest.raises(make, match="another"), undisguised():
        raise make("another")


def test_ctrl_c_that_a_callback_swallows_is_delivered_again() -> None:
    class Last:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def swallowed() -> None:
        with delivered():
            Last()
            time.sleep(10)
            pytest.fail("nothing came")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            swallowed()
    finally:
        signal.signal(signal.SIGINT, before)
