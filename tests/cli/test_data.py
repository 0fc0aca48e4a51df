"""`anyshot data`, as a person types it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anyshot.cli import main
from anyshot.tasks.built import Built
from anyshot.tasks.cache import read, write
from anyshot.tasks.catalogue import CATALOGUE

pytestmark = pytest.mark.medium

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
    for words in (["data", "--help"], ["data", "show", "--help"], ["data", "list"]):
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
    assert printed.endswith(", as published\n")
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


@pytest.fixture
def mnist(with_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has the files of MNIST, downloaded into its cache, and nothing else."""
    cache = tmp_path / "cache"
    shutil.copytree(with_data / "mnist", cache / "files/mnist")
    monkeypatch.delenv("ANYSHOT_DATA")
    monkeypatch.setenv("ANYSHOT_CACHE", str(cache))
    return cache


def everything_in(folder: Path) -> dict[str, tuple[int, int]]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


def test_verify_changes_nothing_and_tells_damaged_from_incomplete_from_absent(mnist: Path, anyshot: Anyshot) -> None:
    images = mnist / "files/mnist/train-images-idx3-ubyte.gz"
    whole = images.read_bytes()
    images.write_bytes(whole[:-100])
    before = everything_in(mnist)
    for words in (["rainbow-mnist"], []):
        code, printed, error = anyshot("data", "verify", *words)
        assert code == 1
        assert f"rainbow-mnist: DAMAGED: {images} is not the train-images" in printed
        assert "damaged" in error
    assert everything_in(mnist) == before
    images.unlink()
    code, printed, error = anyshot("data", "verify", "rainbow-mnist")
    assert (code, printed) == (1, "rainbow-mnist: 1 of 2 files good, not built\n")
    assert "rainbow-mnist is incomplete" in error
    code, printed, _ = anyshot("data", "verify")
    assert code == 0
    assert "omniglot: not here" in printed
    assert "omniglot is absent" in anyshot("data", "verify", "omniglot")[2]


def test_verify_looks_at_every_seed_and_setting(mnist: Path, anyshot: Anyshot) -> None:
    small = ("--set", "train_rows=2", "test_rows=1")
    assert anyshot("data", "fetch", "rainbow-mnist", "--seed", "3", *small)[0] == 0
    assert anyshot("data", "fetch", "rainbow-mnist", *small)[0] == 0
    names = sorted(path.name for path in (mnist / "built").iterdir())
    assert names == ["rainbow-mnist-v2-seed0-test_rows1-train_rows2", "rainbow-mnist-v2-seed3-test_rows1-train_rows2"]
    code, printed, _ = anyshot("data", "verify", "rainbow-mnist")
    assert (code, printed) == (
        0,
        f"rainbow-mnist: 2 of 2 files good, {names[0]} as written, {names[1]} as written\n",
    )
    other = mnist / "built" / names[1]
    content = bytearray((other / "y.npy").read_bytes())
    content[-1] ^= 1
    (other / "y.npy").write_bytes(content)
    code, printed, _ = anyshot("data", "verify")
    assert code == 1
    assert f"DAMAGED: {other}: its content" in printed
    shutil.rmtree(other)
    shutil.copytree(mnist / "built" / names[0], other)
    code, printed, _ = anyshot("data", "verify")
    assert code == 1
    assert "which does not belong there" in printed
    (other / "manifest.json").write_text("{}")
    assert anyshot("data", "verify", "rainbow-mnist")[0] == 1


def test_a_set_that_is_whole_but_has_another_fingerprint(mnist: Path, anyshot: Anyshot) -> None:
    assert anyshot("data", "fetch", "rainbow-mnist")[0] == 0
    folder = mnist / "built/rainbow-mnist-v2-seed0"
    built, _ = read(folder)
    key = json.loads((folder / "manifest.json").read_text())["key"]
    zeros = Built(built.arrays | {"y": np.zeros_like(built.arrays["y"])}, built.task_names, built.train_tasks)
    write(folder, key, zeros)
    code, printed, _ = anyshot("data", "verify", "rainbow-mnist")
    assert code == 1
    assert f"but the catalogue says {CATALOGUE['rainbow-mnist'].fingerprint}" in printed
    code, printed, error = anyshot("data", "fetch", "rainbow-mnist")
    assert code == 0
    assert "as published" not in printed
    assert error.startswith("warning: rainbow-mnist has fingerprint")
    assert error.count("\n") == 1


def test_files_of_ones_own_are_named(no_data: Path, monkeypatch: pytest.MonkeyPatch, anyshot: Anyshot) -> None:
    (no_data / "miniimagenet/images").mkdir(parents=True)
    monkeypatch.setenv("ANYSHOT_DATA", str(no_data))
    code, printed, _ = anyshot("data", "verify", "contextual-miniimagenet")
    assert code == 0
    assert f"files of your own in {no_data}/miniimagenet/images, not built" in printed
    code, _, error = anyshot("data", "fetch", "contextual-miniimagenet")
    assert code == 1
    assert "train.csv is missing" in error


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("data show rainbow-mnits --out a.png", 2, "rainbow-mnits"),
        ("data show sinusoid --out a.txt", 2, "out must end in .png, .svg or .pdf, got 'a.txt'"),
        ("data show sinusoid --out /dev/null/a.png", 2, "out must be a file that can be written"),
        ("data show sinusoid --out a.png --tasks 0", 2, "tasks must be a whole number from 1 to 100, got 0"),
        ("data show sinusoid", 2, "--out"),
        (
            "data fetch contextual-miniimagenet",
            1,
            "val.npz, test.npz, classes.csv of miniimagenet (129.2 MB) are missing",
        ),
        ("data fetch pose", 1, "PASCAL3D+_release1.1.zip"),
        ("data fetch rainbow-digits --seed -1", 2, "seed must be a whole number of at least 0 and below 2**32, got -1"),
        (
            "data fetch rainbow-digits --set test_rows",
            2,
            "--set takes NAME=VALUE with a number or a word, such as size=42",
        ),
        ("data fetch rainbow-digits --set test_rows=2.5", 2, "such as size=42, got 'test_rows=2.5'"),
        ("data fetch rainbow-digits --set test_rows=2 test_rows=3", 2, "--set has test_rows twice"),
        (
            "data fetch rainbow-digits --set size=3",
            2,
            "rainbow-digits has no setting 'size'; it has train_rows, test_rows",
        ),
        ("data", 2, "list"),
        ("dta", 2, "dta"),
    ],
)
def test_nonsense_is_a_sentence_and_an_exit_code(
    words: str, code: int, part: str, no_data: Path, monkeypatch: pytest.MonkeyPatch, anyshot: Anyshot
) -> None:
    monkeypatch.chdir(no_data)
    monkeypatch.setattr("anyshot.tasks.store.stream", lambda *_: pytest.fail("downloaded"))
    got, _, error = anyshot(*words.split())
    assert got == code
    assert part in error
    assert "Traceback" not in error
    assert not list(no_data.glob("a*"))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--out a.txt", "out must end in"),
        ("--out a.png --tasks 101", "100, got 101"),
        ("--out a.png --examples 0", "examples must be a whole number from 1 to 100"),
        ("--out a.png --tasks 100 --examples 100", "tasks x examples must be at most 2,000, got 100 x 100"),
        ("--out a.png --draw -1", "draw must be a whole number of at least 0"),
        ("--out a.png --seed -1", "seed must be a whole number of at least 0"),
        ("--out a.png --set width=3", "no setting 'width'"),
    ],
)
def test_show_checks_what_is_asked_for_before_it_builds_anything(
    words: str, part: str, no_data: Path, monkeypatch: pytest.MonkeyPatch, anyshot: Anyshot
) -> None:
    monkeypatch.setattr("anyshot.tasks.load.load_tasks", lambda *_, **__: pytest.fail("built"))
    code, _, error = anyshot("data", "show", "rainbow-digits", *words.split())
    assert code == 2
    assert part in error


@pytest.mark.parametrize("kind", ["link to a file", "dangling link", "pipe", "device", "folder"])
def test_show_replaces_nothing_but_regular_files(
    kind: str, no_data: Path, monkeypatch: pytest.MonkeyPatch, anyshot: Anyshot
) -> None:
    monkeypatch.setattr("anyshot.tasks.load.load_tasks", lambda *_, **__: pytest.fail("built"))
    out, target = no_data / "sheet.png", no_data / "target.png"
    if kind == "pipe":
        os.mkfifo(out)
    elif kind == "folder":
        out.mkdir()
    elif kind == "device":
        try:
            os.mknod(out, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes devices")
    else:
        out.symlink_to(target)
        if kind == "link to a file":
            target.write_text("mine")
    before = out.lstat()
    code, _, error = anyshot("data", "show", "rainbow-digits", "--out", str(out))
    assert code == 2
    assert f"{out} is a" in error
    after = out.lstat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)
    assert [path.read_text() for path in [target] if path.exists()] == (["mine"] if kind == "link to a file" else [])


def test_show_replaces_a_regular_file(no_data: Path, anyshot: Anyshot) -> None:
    out = no_data / "sheet.svg"
    out.write_text("old")
    assert anyshot("data", "show", "sinusoid", "--out", str(out), "--tasks", "1")[0] == 0
    assert "<svg" in out.read_text()


def test_a_set_of_an_older_version_does_not_count(no_data: Path, anyshot: Anyshot) -> None:
    built = Built({"given": np.zeros(3), "held": np.zeros(3)}, ("a",))
    write(no_data / "cache/built/pose-v1-seed0", {"name": "pose", "version": 1, "seed": 0, "settings": {}}, built)
    code, printed, error = anyshot("data", "verify", "pose")
    assert code == 1
    assert "pose-v1-seed0 of another version" in printed
    assert "pose is absent" in error
    assert anyshot("data", "verify")[0] == 0


def test_settings_and_seeds_of_show(no_data: Path, anyshot: Anyshot) -> None:
    def sheet(*words: str) -> bytes:
        out = no_data / "sheet.png"
        small = ("--out", str(out), "--tasks", "2", "--examples", "2", "--set", "train_rows=30", "test_rows=5")
        code, printed, _ = anyshot("data", "show", "rainbow-digits", *small, *words)
        assert code == 0
        assert sum(map(int, printed.splitlines()[1].split()[3:])) == 35
        return out.read_bytes()

    assert len({sheet(), sheet("--seed", "1"), sheet("--draw", "1")}) == 3
    assert sheet("--seed", "1") == sheet("--seed", "1")


@pytest.mark.slow
def test_large_sheets_are_drawn_in_time(no_data: Path, anyshot: Anyshot) -> None:
    started = time.perf_counter()
    out = no_data / "sheet.png"
    assert anyshot("data", "show", "rainbow-digits", "--out", str(out), "--tasks", "30", "--examples", "50")[0] == 0
    assert time.perf_counter() - started < 10 * 4, (
        "it takes 10 s on an idle machine, and took 78 with a panel a picture"
    )


def test_a_wrong_data_folder_is_no_damage(no_data: Path, monkeypatch: pytest.MonkeyPatch, anyshot: Anyshot) -> None:
    monkeypatch.setenv("ANYSHOT_DATA", "/no/such/folder")
    assert anyshot("data", "verify", "sinusoid")[0] == 0
    code, printed, error = anyshot("data", "verify", "pose")
    assert code == 1
    assert "DAMAGED" not in printed
    assert "ANYSHOT_DATA is /no/such/folder" in error


def test_a_closed_standard_output_is_no_reason_to_fail(no_data: Path) -> None:
    program = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    listing = "from anyshot.cli.data import main; main(['list'])"
    ran = subprocess.run([sys.executable, "-c", program, listing], stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_wrong_data_folder_is_named(no_data: Path, monkeypatch: pytest.MonkeyPatch, anyshot: Anyshot) -> None:
    monkeypatch.setenv("ANYSHOT_DATA", "/no/such/folder")
    code, _, error = anyshot("data", "list")
    assert code == 1
    assert "ANYSHOT_DATA is /no/such/folder" in error
