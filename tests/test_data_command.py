"""`anyshot data`, as a person types it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anyshot.cli import main

Anyshot = Callable[..., tuple[int, str, str]]


@pytest.fixture
def anyshot(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Anyshot:
    """Runs a command; gives its exit code, what it printed, and what it said on standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["anyshot", *words])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_help_answers_without_jax_and_at_once() -> None:
    program = "import sys\nfrom anyshot.cli import main\ntry: main()\nfinally: print('jax' in sys.modules)"
    for words in (["--help"], ["data", "--help"], ["data", "show", "--help"], ["data", "list"], ["--version"]):
        started = time.perf_counter()
        ran = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
        assert time.perf_counter() - started < 0.5 * 5, "the bar is half a second on an idle machine"
        assert ran.stdout.endswith("False\n"), words


def test_list_says_what_is_here(no_data: Path, anyshot: Anyshot) -> None:
    code, printed, _ = anyshot("data", "list")
    assert code == 0
    lines = {line.split()[0]: line for line in printed.splitlines() if line.strip()}
    assert "embedded" in lines["rainbow-digits"]
    assert "no: fetch it" in lines["rainbow-mnist"]
    assert "no: see fetch" in lines["pose"]
    assert "CC BY-SA 3.0" in lines["rainbow-mnist"]
    assert str(no_data / "cache") in lines["files"]


@pytest.mark.parametrize(("name", "task"), [("rainbow-digits", "red full 0"), ("sinusoid", None)])
def test_sheets_of_the_embedded_sets(name: str, task: str | None, no_data: Path, anyshot: Anyshot) -> None:
    out = no_data / "new folder" / "sheet.png"
    code, printed, _ = anyshot("data", "show", name, "--out", str(out), "--tasks", "3", "--examples", "4")
    lines = printed.splitlines()
    assert (code, lines[-1]) == (0, f"contact sheet: {out}")
    with Image.open(out) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert min(pixels.shape[:2]) > 200
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50, "there is something in it"
    assert [path.name for path in out.parent.iterdir()] == ["sheet.png"]
    if task:
        counts = next(line for line in lines if line.startswith(task)).split()[3:]
        assert sum(map(int, counts)) == 340
        assert len(lines) == 1 + 56 + 1


def test_fetch_verify_and_damage(
    with_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anyshot: Anyshot
) -> None:
    data = tmp_path / "data"
    shutil.copytree(with_data / "mnist", data / "mnist")
    monkeypatch.setenv("ANYSHOT_DATA", str(data))
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    code, printed, _ = anyshot("data", "verify", "rainbow-mnist")
    assert (code, printed) == (0, "rainbow-mnist: 2 of 2 files good, not built\n")
    code, printed, _ = anyshot("data", "fetch", "rainbow-mnist")
    assert code == 0
    assert "56 tasks, 50,400 examples, fingerprint" in printed
    code, printed, _ = anyshot("data", "verify")
    assert code == 0
    assert "rainbow-mnist: 2 of 2 files good, fingerprint" in printed
    assert "omniglot: not here" in printed
    assert anyshot("data", "verify", "omniglot")[0] == 1
    (built,) = (tmp_path / "cache/built").iterdir()
    content = bytearray((built / "x.npy").read_bytes())
    content[10_000_000] ^= 4
    (built / "x.npy").write_bytes(content)
    code, printed, error = anyshot("data", "verify")
    assert code == 1
    assert "rainbow-mnist: DAMAGED" in printed
    assert "--rebuild" in error
    assert anyshot("data", "fetch", "rainbow-mnist", "--rebuild")[0] == 0
    assert anyshot("data", "verify", "rainbow-mnist")[0] == 0
    images = data / "mnist/train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:-100])
    code, printed, _ = anyshot("data", "verify", "rainbow-mnist")
    assert code == 1
    assert str(images) in printed


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("data show rainbow-mnits --out a.png", 2, "rainbow-mnits"),
        ("data show sinusoid --out a.txt", 2, "out must end in .png, .svg or .pdf, got 'a.txt'"),
        ("data show sinusoid --out /dev/null/a.png", 2, "out must be a file that can be written"),
        ("data show sinusoid --out a.png --tasks 0", 2, "tasks must be 1..100, got 0"),
        ("data show sinusoid", 2, "--out"),
        ("data fetch contextual-miniimagenet", 1, "may not be redistributed"),
        ("data fetch pose", 1, "PASCAL3D+_release1.1.zip"),
        ("data fetch rainbow-digits --seed -1", 2, "seed must be a whole number of at least 0, got -1"),
        ("data", 2, "list"),
        ("dta", 2, "dta"),
    ],
)
def test_nonsense_is_a_sentence_and_an_exit_code(
    words: str, code: int, told: str, no_data: Path, monkeypatch: pytest.MonkeyPatch, anyshot: Anyshot
) -> None:
    monkeypatch.chdir(no_data)
    got, _, error = anyshot(*words.split())
    assert got == code
    assert told in error
    assert "Traceback" not in error
    assert not list(no_data.glob("a*"))


def test_a_wrong_data_folder_is_named(no_data: Path, monkeypatch: pytest.MonkeyPatch, anyshot: Anyshot) -> None:
    monkeypatch.setenv("ANYSHOT_DATA", "/no/such/folder")
    code, _, error = anyshot("data", "list")
    assert code == 1
    assert "ANYSHOT_DATA is /no/such/folder" in error
