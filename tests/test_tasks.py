"""The task sets: what they are made of, draws from them, and that they are the same everywhere."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from anyshot.errors import DataError, InputError
from anyshot.tasks import ClassTasks, PairTasks, TaskSet, load_tasks, miniimagenet
from anyshot.tasks.catalogue import CATALOGUE
from anyshot.tasks.fingerprint import array_sha256
from anyshot.tasks.load import differs
from anyshot.tasks.miniimagenet import contextual_miniimagenet
from anyshot.tasks.rainbow import COLOURS, LOOKS, coloured

KEY = jax.random.key(0)
SMALL = {"train": 2, "val": 1, "test": 1}  # classes of the small mini-ImageNet here
MNIST = ("images-idx3", "labels-idx1")


def toy(kind: type[TaskSet], tasks: int = 5, given: int = 6, held: int = 4) -> TaskSet:
    """Examples that are their own row number, labels that are their task: what is drawn can be seen in it."""
    rows = np.arange(tasks * (given + held)).reshape(tasks, -1)
    names = tuple(f"task {task}" for task in range(tasks))
    labels = np.arange(tasks).repeat(given + held)
    return kind("toy", rows.reshape(-1), labels, rows[:, :given], rows[:, given:], names, "f", train_tasks=3)


def changed(**fields: object) -> TaskSet:
    return dataclasses.replace(toy(TaskSet), **fields)  # type: ignore[arg-type]


# Fingerprints


@pytest.mark.parametrize("name", [name for name, one in CATALOGUE.items() if not one.files])
def test_embedded_sets_have_the_fingerprint_of_the_table(name: str, no_data: Path) -> None:
    started = time.perf_counter()
    assert load_tasks(name).fingerprint == CATALOGUE[name].fingerprint
    assert time.perf_counter() - started < 2 * 4, "the bar is 2 s on an idle machine"
    assert load_tasks(name, seed=1).fingerprint != CATALOGUE[name].fingerprint
    assert not no_data.joinpath("cache").exists()


@pytest.mark.parametrize(
    "name",
    [
        "rainbow-mnist",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("omniglot", "contextual-miniimagenet", "pose")),
    ],
)
def test_sets_of_real_data_have_the_fingerprint_of_the_table_and_load_at_once(name: str, with_data: Path) -> None:
    started = time.perf_counter()
    first = load_tasks(name)
    assert time.perf_counter() - started < 120, "the bar is 2 minutes on 2 cores, mini-ImageNet's decoding included"
    started = time.perf_counter()
    second = load_tasks(name)
    seconds = time.perf_counter() - started
    assert first.fingerprint == second.fingerprint == CATALOGUE[name].fingerprint
    assert seconds < 1 * 4, "the bar is 1 s on an idle machine"
    assert isinstance(second.x, np.memmap)


def test_every_bit_of_an_array_counts() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    different = [array.reshape(4, 3), array.astype(np.int64), array.T, array.astype(np.uint32)]
    different += [np.where(np.arange(12).reshape(3, 4) == place, array ^ 1, array) for place in range(12)]
    assert len({array_sha256(one) for one in [array, *different]}) == 1 + len(different)
    assert array_sha256(array.astype(">i4")) == array_sha256(array) == array_sha256(array.copy(order="F"))


def test_large_arrays_are_hashed_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshot.tasks.fingerprint.BLOCK", 5)
    blocks = b"".join(hashlib.sha256(part).digest() for part in (bytes(range(5)), bytes(range(5, 8))))
    assert array_sha256(np.arange(8, dtype=np.uint8)) == hashlib.sha256(b"|u1 (8,)\n" + blocks).hexdigest()


# Draws


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(0, 6), st.sampled_from(["given", "held"]))
def test_draws_are_different_examples_of_the_task_and_part(seed: int, task: int, count: int, part: str) -> None:
    tasks = toy(TaskSet)
    count = min(count, getattr(tasks, part).shape[1])
    rows = np.asarray(tasks.draw(jax.random.key(seed), task, count, part))
    assert len(set(rows.tolist())) == count
    assert set(rows.tolist()) <= set(getattr(tasks, part)[task].tolist())


def test_every_example_and_order_is_drawn_equally_often() -> None:
    tasks = toy(TaskSet, tasks=1, given=4)
    rows = jax.vmap(lambda key: tasks.draw(key, 0, 2))(jax.random.split(KEY, 12_000))
    counts = np.bincount(np.asarray(rows[:, 0] * 4 + rows[:, 1]), minlength=16).reshape(4, 4)
    assert (np.diag(counts) == 0).all()
    expected = 1000
    chi_square = ((counts[~np.eye(4, dtype=bool)] - expected) ** 2 / expected).sum()
    assert chi_square < 31.3, "11 degrees of freedom: exceeded once in a thousand times"


@pytest.mark.parametrize("kind", [TaskSet, PairTasks])
def test_draws_are_the_same_inside_a_compiled_function_on_device(kind: type[TaskSet]) -> None:
    tasks = toy(kind)
    compiled = eqx.filter_jit(jax.vmap(lambda set_, key, task: set_.shots(key, task, 3, size=5), in_axes=(None, 0, 0)))
    keys = jax.random.split(KEY, 5)
    together = compiled(tasks.on_device(), keys, jnp.arange(5))
    for task in range(5):
        alone = tasks.shots(keys[task], task, 3, size=5)
        assert (alone.x == together.x[task]).all()
        assert (alone.y == together.y[task]).all()
    assert (together.count == 3).all()


def test_a_selection_draws_nothing_of_other_tasks_and_has_its_own_fingerprint() -> None:
    tasks = toy(TaskSet)
    chosen = tasks.select([4, 1])
    assert chosen.task_names == ("task 4", "task 1")
    assert set(np.asarray(chosen.draw(KEY, 0, 6)).tolist()) == set(tasks.given[4].tolist())
    fingerprints = {
        tasks.fingerprint,
        chosen.fingerprint,
        tasks.select([1, 4]).fingerprint,
        tasks.select([4]).fingerprint,
    }
    assert len(fingerprints) == 4
    train, test = tasks.offline_split()
    assert (train.task_names, test.task_names) == (tasks.task_names[:3], tasks.task_names[3:])


def test_a_selection_keeps_the_offline_split_only_if_training_tasks_come_first() -> None:
    tasks = toy(TaskSet)  # the first 3 of 5 train
    train, test = tasks.select([2, 0, 4]).offline_split()
    assert (train.task_names, test.task_names) == (("task 2", "task 0"), ("task 4",))
    for mixed in ([4, 1], [1, 4, 0], [3, 4]):
        with pytest.raises(InputError, match="toy has no offline split: 0 of"):
            tasks.select(mixed).offline_split()


def test_a_set_of_ones_own_has_a_fingerprint_of_all_that_is_in_it() -> None:
    def own(**changed: object) -> str:
        rows = np.arange(8).reshape(2, 4)
        fields = {
            "x": np.arange(8),
            "y": np.zeros(8),
            "given": rows[:, :3],
            "held": rows[:, 3:],
            "task_names": ("a", "b"),
        }
        return TaskSet(**{"name": "own", **fields, **changed}).fingerprint  # type: ignore[arg-type]

    others = [
        own(x=np.arange(8) + 1),
        own(y=np.ones(8)),
        own(given=np.array([[0, 1], [4, 5]])),
        own(held=np.array([[], []], int)),
        own(task_names=("a", "c")),
        own(train_tasks=1),
    ]
    assert len({own(), *others}) == 1 + len(others)
    assert own() == own()
    assert own(fingerprint="mine") == "mine"
    assert load_tasks("sinusoid").fingerprint == dataclasses.replace(load_tasks("sinusoid"), fingerprint="").fingerprint


@pytest.fixture
def mapped(tmp_path: Path) -> TaskSet:
    """A task set whose examples are a memory-mapped file."""
    tasks = toy(TaskSet)
    np.save(tmp_path / "x.npy", tasks.x)
    return dataclasses.replace(tasks, x=np.load(tmp_path / "x.npy", mmap_mode="r"))


def test_a_file_on_the_host_is_not_copied_into_a_compiled_function(mapped: TaskSet) -> None:
    for transformed, key in ((jax.jit, KEY), (jax.vmap, jax.random.split(KEY, 2))):
        with pytest.raises(InputError, match=r"call tasks.on_device\(\) first"):
            transformed(lambda key: mapped.shots(key, 3, 4))(key)
        transformed(lambda key: mapped.draw(key, 3, 4))(key)  # rows are small
    alone, device = mapped.shots(KEY, 3, 4), mapped.on_device()
    assert (jax.jit(lambda key: device.shots(key, 3, 4))(KEY).x == alone.x).all()
    assert mapped.example()[0].shape == ()


def check_pairs(tasks: PairTasks, draws: int, size: int, part: str) -> np.ndarray:
    """Draw pairs of every task and check what must hold of them; returns the pool's rows (draws, size, 2)."""
    task = np.arange(draws) % tasks.tasks
    draw = jax.jit(jax.vmap(lambda key, which: tasks.draw(key, which, size, part)))
    rows = np.asarray(draw(jax.random.split(KEY, draws), jnp.asarray(task)))
    classes, own = np.asarray(tasks.y)[rows], np.asarray(tasks.y)[np.asarray(tasks.given)[task, :1]]
    same = classes[..., 0] == classes[..., 1]
    assert (classes[..., 0] == own).all(), "the reference is of the task's class"
    assert (tasks.look_up(rows[:5])[1] == same[:5]).all()
    assert (same.reshape(draws, size // 2, 2).sum(axis=2) == 1).all(), "one positive in every two"
    assert (rows[..., 0] != rows[..., 1]).all(), "no image is compared with itself"
    assert abs(same[:, 0].mean() - 0.5) < 4 * 0.5 / np.sqrt(draws), "which of the two comes first is random"
    assert set(rows.ravel().tolist()) <= set(np.asarray(getattr(tasks, part)).ravel().tolist())
    return rows


@pytest.mark.parametrize("part", ["given", "held"])
def test_pairs_over_ten_thousand_draws(part: str) -> None:
    rows = check_pairs(toy(PairTasks), 10_000, 6, part)
    assert len(set(rows.ravel().tolist())) == toy(PairTasks)._part(part).size, "every image turns up"


@pytest.mark.slow
def test_real_pairs_never_show_a_test_class_in_training(with_data: Path) -> None:
    whole = load_tasks("contextual-miniimagenet")
    assert (whole.tasks, whole.x.shape) == (100, (60_000, 84, 84, 3))
    train, test = whole.offline_split()
    assert (train.tasks, test.tasks) == (90, 10)
    seen = check_pairs(train, 9_990, 20, "given")
    assert np.asarray(whole.y)[seen].max() == 89
    unseen = check_pairs(test, 1_000, 20, "held")
    assert np.asarray(whole.y)[unseen].min() == 90
    everything = np.concatenate([whole.given, whole.held], axis=1)
    assert len(np.unique(everything)) == 60_000
    assert (np.asarray(whole.y)[everything] == np.arange(100)[:, None]).all()


@pytest.mark.slow
def test_the_images_miniimagenet_has_twice_are_those_the_documentation_tells_of(with_data: Path) -> None:
    tasks = load_tasks("contextual-miniimagenet")
    first: dict[bytes, int] = {}
    rows = enumerate(hashlib.sha256(image).digest() for image in tasks.x)
    twice = np.array([(first[digest], row) for row, digest in rows if first.setdefault(digest, row) != row])
    classes, given = np.asarray(tasks.y)[twice], np.isin(twice, tasks.given)
    assert len(twice) == 8
    assert (classes[:, 0] != classes[:, 1]).sum() == 7
    assert (given[:, 0] != given[:, 1])[classes[:, 0] != classes[:, 1]].sum() == (given[:, 0] != given[:, 1]).sum() == 4
    assert ((classes < tasks.train_tasks).all(axis=1) | (classes >= tasks.train_tasks).all(axis=1)).all()


def test_pairs_of_an_odd_batch_and_a_single_class() -> None:
    tasks = toy(PairTasks)
    assert tasks.draw(KEY, 0, 5).shape == (5, 2)
    with pytest.raises(InputError, match="single task"):
        tasks.select([2]).draw(KEY, 0, 2)


def test_episodes_of_classes() -> None:
    classes = toy(ClassTasks, tasks=9, given=7)
    episode = jax.jit(lambda key: classes.episode(key, ways=4, shots=2, queries=3, size=4))
    for seed in range(50):
        one = episode(jax.random.key(seed))
        train, val = (np.asarray(part.x) for part in (one.train, one.val))
        assert (one.train.count, one.val.count, len(train)) == (8, 12, 16)
        assert len(set(train.tolist() + val.tolist())) == 16 + 12, "no example twice"
        real_class = np.asarray(classes.y)[np.concatenate([train, val])]
        label = np.concatenate([one.train.y, one.val.y])
        assert len(set(zip(real_class.tolist(), label.tolist(), strict=True))) == 4, "one label a class"
        assert len(set(real_class.tolist())) == 4
        assert (np.asarray(one.train.y).reshape(4, 4) == np.arange(4)).all(), "shot by shot"


# Rainbow


def naive_look(ink: np.ndarray, colour: str, half: bool, turns: int) -> np.ndarray:
    """One image, pixel by pixel, in floating point: the definition in words of the design."""
    size = len(ink)
    canvas = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if not half:
                canvas[i, j] = ink[i, j]
            elif size // 4 <= i < size // 4 + size // 2 and size // 4 <= j < size // 4 + size // 2:
                a, b = 2 * (i - size // 4), 2 * (j - size // 4)
                canvas[i, j] = np.floor(
                    (float(ink[a, b]) + ink[a, b + 1] + ink[a + 1, b] + ink[a + 1, b + 1]) / 4 + 0.5
                )
    for _ in range(turns):  # a quarter turn counter-clockwise: the right-hand column becomes the top row
        canvas = np.array([[canvas[j, size - 1 - i] for j in range(size)] for i in range(size)])
    share = canvas[..., None] / 255
    return np.round(share * 255 + (1 - share) * np.array(COLOURS[colour])).astype(int)


def test_rainbow_mnist_is_what_the_paper_says(with_data: Path) -> None:
    tasks = load_tasks("rainbow-mnist")
    images, labels = (gzip.decompress((with_data / f"mnist/train-{file}-ubyte.gz").read_bytes()) for file in MNIST)
    images = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28)
    labels = np.frombuffer(labels, np.uint8, offset=8)
    source = np.load(next(Path(tasks.x.filename).parent.glob("source.npy")))
    rows = np.concatenate([tasks.given, tasks.held], axis=1)
    assert rows.shape == (56, 900)
    assert len(np.unique(rows)) == len(np.unique(source)) == 50_400 == len(source)
    assert (labels[source] == tasks.y).all()
    assert len(set(tasks.task_names)) == 56
    assert (len(tasks.offline_split()[0].task_names), tasks.x.dtype) == (20, np.uint8)
    for task, (colour, half, turns) in enumerate(LOOKS):
        assert tasks.task_names[task] == f"{colour} {'half' if half else 'full'} {90 * turns}"
        for row in rows[task, [0, 850]]:
            difference = naive_look(images[source[row]], colour, half, turns) - tasks.x[row].astype(int)
            assert np.abs(difference).max() <= (0 if colour != "orange" else 1)  # 127 x k / 255 may tie


def test_rainbow_mnist_builds_in_ten_seconds_and_a_gigabyte(with_data: Path, tmp_path: Path) -> None:
    program = """
import re, time; started = time.perf_counter()
from anyshot.tasks import load_tasks
load_tasks("rainbow-mnist"); seconds = time.perf_counter() - started
print(seconds, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])"""
    environment = {"ANYSHOT_DATA": str(with_data), "ANYSHOT_CACHE": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    seconds, kibibytes = map(float, ran.stdout.split())
    assert seconds < 10
    assert kibibytes < 2**20


@given(st.integers(0, 255), st.integers(0, 3), st.booleans(), st.sampled_from(sorted(COLOURS)))
def test_a_flat_digit_keeps_its_shade(level: int, turns: int, half: bool, colour: str) -> None:
    image = coloured(np.full((1, 8, 8), level, np.uint8), colour, half, turns)[0]
    shade = (level * 255 + (255 - level) * np.array(COLOURS[colour]) + 127) // 255
    assert (image[4, 4] == shade).all()
    assert (image[0, 0] == (COLOURS[colour] if half else shade)).all()


def test_rainbow_digits_holds_digits_back() -> None:
    from anyshot.tasks.rainbow import rainbow_digits

    built = rainbow_digits({}, seed=3)
    source, given, held = (built.arrays[name] for name in ("source", "given", "held"))
    assert not set(source[given].ravel().tolist()) & set(source[held].ravel().tolist())
    assert all(len(set(source[rows].tolist())) == len(rows) for rows in [*given, *held])


# The others


def test_sinusoid_is_its_formula() -> None:
    tasks = load_tasks("sinusoid", tasks=7, given=5, held=3)
    for task, name in enumerate(tasks.task_names):
        amplitude, phase = (float(number) for number in name.replace(")", "").split(" sin(x - "))
        x, y = tasks.look_up(tasks.given[task])
        assert np.abs(y - amplitude * np.sin(x - phase)).max() < 0.005 * (1 + amplitude) + 1e-6, "names have two digits"
        assert 0.1 <= amplitude <= 5
        assert 0 <= phase <= 3.15
        assert np.abs(x).max() <= 5


@pytest.mark.slow
def test_omniglot_is_ink_on_black_in_four_rotations(with_data: Path) -> None:
    import zipfile

    classes = load_tasks("omniglot")
    assert (classes.tasks, classes.given.shape, classes.x.shape[1:]) == (6492, (6492, 20), (28, 28, 1))
    assert [part.tasks for part in classes.offline_split()] == [4800, 4 * 423]
    upright, quarter = classes.look_up(classes.given[0])[0], classes.look_up(classes.given[1])[0]
    assert (np.rot90(upright, axes=(1, 2)) == quarter).all()
    alphabet, number, _ = classes.task_names[0].rsplit(" ", 2)
    compared = 0
    for archive in ("images_background", "images_evaluation"):
        with zipfile.ZipFile(with_data / f"omniglot/{archive}.zip") as opened:
            members = sorted(m for m in opened.namelist() if f"/{alphabet}/character{number}/" in m)
            for member, image in zip(members, upright, strict=False):
                with Image.open(io.BytesIO(opened.read(member))) as picture:
                    direct = 255 - np.asarray(picture.convert("L").resize((28, 28), Image.Resampling.LANCZOS))
                assert (direct == image[..., 0]).all()
                compared += 1
    assert compared == 20
    assert 0.02 < classes.x[:1000].mean() / 255 < 0.25, "strokes are thin"


def write_folder_of_images(folder: Path, classes: int, each: int) -> np.ndarray:
    """mini-ImageNet as one downloads it: `images/`, and three csv files beside it; returns each image's colour."""
    colours = np.random.default_rng(0).integers(0, 256, (classes, each, 3), np.uint8)
    (folder / "images").mkdir(parents=True)
    splits: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for number in range(classes):
        split = "train" if number < classes - 2 else "val" if number == classes - 2 else "test"
        for image in range(each):
            file = f"n{number:08d}{image:08d}.jpg"
            Image.fromarray(np.full((100, 120, 3), colours[number, image])).save(folder / "images" / file, quality=95)
            splits[split].append(f"{file},n{number:08d}")
    for split, lines in splits.items():
        lines = lines[::-1] if split == "train" else lines  # order inside a class must not matter
        (folder / f"{split}.csv").write_text("\n".join(["filename,label", *lines]))
    return colours


def test_miniimagenet_from_a_folder_of_images(no_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    colours = write_folder_of_images(no_data / "miniimagenet", classes=4, each=5)
    monkeypatch.setattr(miniimagenet, "SPLITS", SMALL)
    monkeypatch.setattr(miniimagenet, "EACH", 5)
    built = contextual_miniimagenet({"images": no_data / "miniimagenet/images"}, 0, size=42, held=2)
    shown = built.arrays["x"].reshape(4, 5, 42, 42, 3).astype(int)
    expected = colours[[1, 0, 2, 3]].astype(int)  # the train classes were listed backwards
    assert np.abs(shown - expected[:, :, None, None]).max() < 12, "JPEG changes colours a little"
    monkeypatch.setenv("ANYSHOT_DATA", str(no_data))
    loaded = load_tasks("contextual-miniimagenet", size=42, held=2)
    assert (loaded.tasks, loaded.given.shape, loaded.held.shape) == (4, (4, 3), (4, 2))
    # Built once, and anew when a file is another.
    monkeypatch.setattr(miniimagenet, "decoded", lambda *_: pytest.fail("decoded again"))
    assert load_tasks("contextual-miniimagenet", size=42, held=2).fingerprint == loaded.fingerprint
    monkeypatch.undo()
    monkeypatch.setenv("ANYSHOT_DATA", str(no_data))
    monkeypatch.setenv("ANYSHOT_CACHE", str(no_data / "cache"))
    monkeypatch.setattr(miniimagenet, "SPLITS", SMALL)
    monkeypatch.setattr(miniimagenet, "EACH", 5)
    image = next((no_data / "miniimagenet/images").iterdir())
    Image.fromarray(np.zeros((84, 84, 3), np.uint8)).save(image)
    assert load_tasks("contextual-miniimagenet", size=42, held=2).fingerprint != loaded.fingerprint


def lines_of(table: Path) -> list[str]:
    return table.read_text().splitlines()


def write_lines(table: Path, lines: list[str], encoding: str = "utf-8") -> None:
    table.write_bytes("\n".join(lines).encode(encoding))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / "val.csv").unlink(), "val.csv is missing"),
        (lambda folder: write_lines(folder / "val.csv", ["file,class", "a,b"]), "columns filename and label"),
        (lambda folder: write_lines(folder / "val.csv", ["filename,label", "é.jpg,b"], "latin-1"), "columns filename"),
        (lambda folder: write_lines(folder / "val.csv", ["filename,label", "a.jpg"]), "without a file name or a label"),
        (lambda folder: write_lines(folder / "val.csv", ["filename,label"]), "val.csv lists 0 classes, not 1"),
        (lambda folder: shutil.copy(folder / "val.csv", folder / "test.csv"), "as another split does"),
        (
            lambda folder: write_lines(folder / "val.csv", lines_of(folder / "val.csv")[:-1]),
            "4 images of class n00000002",
        ),
        (
            lambda folder: write_lines(
                folder / "val.csv", [*lines_of(folder / "val.csv")[:-1], lines_of(folder / "val.csv")[1]]
            ),
            "n0000000200000000.jpg twice",
        ),
        (
            lambda folder: write_lines(
                folder / "val.csv",
                [line.replace("n00000002000", "n00000003000") for line in lines_of(folder / "val.csv")],
            ),
            "n0000000300000000.jpg twice",
        ),
        (lambda folder: (folder / "images/n0000000200000001.jpg").unlink(), "lacks 1 images of class n00000002"),
        (lambda folder: (folder / "images/n0000000200000001.jpg").write_bytes(b""), "n0000000200000001.jpg cannot"),
        (
            lambda folder: Image.new("1", (20_000, 20_000)).save(folder / "images/n0000000200000001.jpg", "PNG"),
            "n0000000200000001.jpg cannot be decoded",
        ),
    ],
)
def test_a_folder_of_other_images_is_refused(
    harm: Callable[[Path], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder_of_images(tmp_path, classes=4, each=5)
    assert len(miniimagenet._from_folder(tmp_path / "images", SMALL, 5)) == 4
    harm(tmp_path)
    monkeypatch.setattr(miniimagenet, "SPLITS", SMALL)
    monkeypatch.setattr(miniimagenet, "EACH", 5)
    with pytest.raises(DataError, match=message):
        contextual_miniimagenet({"images": tmp_path / "images"}, 0, size=8, held=2)


def test_a_set_that_is_not_that_of_the_table_is_loaded_with_a_warning(
    no_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = load_tasks("sinusoid").fingerprint
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(CATALOGUE, "sinusoid", dataclasses.replace(CATALOGUE["sinusoid"], fingerprint="0" * 64))
    assert load_tasks("sinusoid").fingerprint == real
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1
    assert real in warning
    assert "0" * 64 in warning
    load_tasks("sinusoid", seed=1)
    load_tasks("sinusoid", held=7)
    assert capsys.readouterr().err == ""
    assert "another OpenGL may round differently" in differs("pose", CATALOGUE["pose"], "f")


# Bad input


@pytest.fixture
def without_types() -> Iterator[None]:
    """As users run it: the annotations are not checked."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("without_types")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_tasks("rainbow-mnits"), "no task set 'rainbow-mnits'; there are rainbow-digits"),
        (lambda: load_tasks("sinusoid", seed=-1), "seed must be a whole number of at least 0 and below 2**32, got -1"),
        (lambda: load_tasks("sinusoid", seed=2**32), "below 2**32, got 4294967296"),
        (lambda: load_tasks("sinusoid", width=3), "sinusoid has no setting 'width'; it has tasks, given, held"),
        (lambda: load_tasks("sinusoid", tasks=1), "tasks must be at least 2"),
        (lambda: load_tasks("sinusoid", given=True), "given must be a whole number, got True"),
        (lambda: load_tasks("rainbow-digits", given=1298), "given must be 1..1297 and held 0..500, got 1298 and 100"),
        (lambda: toy(TaskSet).draw(KEY, 0, 7), "count is 7, but a task of toy has 6 examples given"),
        (lambda: toy(TaskSet).draw(KEY, 5, 1), "task is 5, but toy has tasks 0..4"),
        (lambda: toy(TaskSet).draw(KEY, 0, -1), "count must be a whole number of at least 0, got -1"),
        *[
            (lambda kind=kind, task=task: toy(kind).draw(KEY, task, 2), "task must be a single whole number, got")
            for kind in (TaskSet, PairTasks)
            for task in (np.array([1, 2]), jnp.array([1, 2]), jnp.array(1.0), True, np.bool_(True), 1.5, None, "a")
        ],
        (lambda: jax.vmap(lambda task: toy(TaskSet).draw(KEY, task, 2))(jnp.ones((2, 2), int)), "single whole number"),
        (lambda: jax.jit(lambda task: toy(PairTasks).draw(KEY, task, 2))(1.0), "task must be a single whole number"),
        (lambda: toy(TaskSet).shots(KEY, 0, 5, size=4), "count is 5 but only 4 examples are there"),
        (lambda: toy(TaskSet).shots(KEY, 0, -1, size=4), "count must not be negative, got -1"),
        (lambda: toy(TaskSet).shots(KEY, 0, 2.7), "count must be a single whole number, got 2.7"),
        (lambda: jax.jit(lambda count: toy(TaskSet).shots(KEY, 0, count))(2), "size must be given, as count is traced"),
        (lambda: toy(TaskSet).select([True, False]), "tasks must be the numbers of tasks, got bool (2,)"),
        (lambda: toy(TaskSet).select(np.arange(5) < 2), "tasks must be the numbers of tasks, got bool (5,)"),
        (lambda: toy(TaskSet).select(np.array([1.7])), "tasks must be the numbers of tasks, got float64 (1,)"),
        (lambda: toy(TaskSet).select([3, 1, 3]), "tasks holds 3 twice; select every task once"),
        (lambda: changed(x=[[1.0]] * 50), "x must be an array, got list"),
        (lambda: changed(y=np.array(["a"] * 50)), "y has dtype <U1"),
        (lambda: changed(y=np.zeros(49)), "x and y must have one row per example, got shapes (50,) and (49,)"),
        (lambda: changed(given=np.zeros(5, int)), "whole numbers of shape (tasks, given), got int64 (5,)"),
        (lambda: changed(held=np.ones((5, 1))), "whole numbers of shape (tasks, held), got float64 (5, 1)"),
        (lambda: changed(held=np.zeros((4, 0), int)), "held has rows for 4 tasks, but task_names names 5"),
        (lambda: changed(held=np.full((5, 1), 50)), "held holds row 50, but x has rows 0..49"),
        (lambda: changed(given=np.full((5, 1), -1)), "given holds row -1, but x has rows 0..49"),
        (
            lambda: changed(given=np.array([[11]] * 5)[:, [0, 0]]),
            "row 11 is twice in given and held of task 0 (task 0)",
        ),
        (lambda: changed(held=np.arange(5)[:, None] * 10 + 3), "row 3 is twice in given and held of task 0 (task 0)"),
        (lambda: toy(TaskSet).select([]), "tasks is empty"),
        (lambda: toy(TaskSet).select([0, 5]), "tasks holds 5, but toy has tasks 0..4"),
        (lambda: toy(TaskSet).select([0, 1]).offline_split(), "toy has no offline split: 2 of 2 tasks train"),
        (lambda: toy(ClassTasks).episode(KEY, 6, 1, 1), "ways is 6, but toy has 5 classes here"),
        (lambda: toy(ClassTasks).episode(KEY, 0, 1, 1), "ways must be a whole number of at least 1, got 0"),
        (lambda: toy(ClassTasks).episode(KEY, 2, 5, 2), "need 7 examples a class, but a class of toy has 6"),
    ],
)
def test_nonsense_gets_one_clear_sentence(call: object, message: str, no_data: Path) -> None:
    with pytest.raises(InputError) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not no_data.joinpath("cache").exists()
