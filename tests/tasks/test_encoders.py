"""An own function is called once for each different example, also after a kill, and its results are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import DataError, InputError
from anyshot.tasks import FunctionEncoder


class Lengths:
    """Encodes texts by their length and counts how often it is given each."""

    def __init__(self) -> None:
        self.given: Counter[Any] = Counter()
        self.calls: list[int] = []

    def __call__(self, texts: list[Any]) -> list[list[float]]:
        self.given.update(texts)
        self.calls.append(len(texts))
        return [[len(text), 0.5] for text in texts]


@given(st.lists(st.lists(st.text(max_size=3) | st.binary(max_size=3), min_size=1), min_size=1, max_size=4), st.data())
def test_each_different_example_is_given_once(calls: list[list[Any]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as cache:
        function = Lengths()
        size = data.draw(st.integers(1, 4))
        for examples in calls:  # a new encoder each time: what it knows is on the disk
            encoded = FunctionEncoder(function, "lengths", cache, batch_size=size).encode(examples)
            assert encoded.tolist() == [[len(example), 0.5] for example in examples]
            assert encoded.dtype == np.float32
        assert set(function.given) == {example for examples in calls for example in examples}
        assert set(function.given.values()) == {1}
        assert max(function.calls) <= size


def test_content_of_all_kinds_is_told_apart(tmp_path: Path) -> None:
    calls = []

    def count(examples: list[Any]) -> list[list[int]]:
        calls.extend(examples)
        return [[len(calls)] for _ in examples]

    encoder = FunctionEncoder(count, "count", tmp_path, batch_size=1)
    one = np.array([1, 2], np.int32)
    different: list[Any] = ["a", b"a", one, one.astype(np.int64), one[None], one + 1, "1", [1.0, 2.0], "ä"]
    first = encoder.encode(different)
    assert len(set(first.ravel().tolist())) == len(different)
    assert (encoder.encode(different) == first).all()
    assert (encoder.encode([one.astype(">i4"), np.array([[1, 9], [2, 9]], np.int32)[:, 0]]) == first[2]).all()
    assert (FunctionEncoder(count, "other", tmp_path).encode(["a"]) != first[0]).all(), "another name, another result"


PROGRAM = """
import os, signal, sys
from pathlib import Path
from anyshot.tasks import FunctionEncoder

log, cache, kill_at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def function(texts):
    with log.open("a") as file:
        file.write("".join(f"{text}\\n" for text in texts))
    if kill_at in map(int, texts):
        os.kill(os.getpid(), signal.SIGKILL)
    return [[float(text)] for text in texts]

texts = [str(number) for number in range(30)]
encoded = FunctionEncoder(function, "numbers", cache, batch_size=4).encode(texts + texts)
assert encoded.ravel().tolist() == list(range(30)) * 2
"""


@pytest.mark.medium
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_process_loses_at_most_the_call_it_was_in(tmp_path: Path) -> None:
    def run(kill_at: int) -> tuple[int, Counter[str]]:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "log"), str(tmp_path / "cache"), str(kill_at)]
        process = subprocess.run(command, check=False, env={**os.environ, "JAX_PLATFORMS": "cpu"})
        return process.returncode, Counter((tmp_path / "log").read_text().split())

    code, given_texts = run(13)
    assert code == -signal.SIGKILL
    assert given_texts == Counter(map(str, range(16))), "calls of four, the fourth was killed"
    code, given_texts = run(-1)
    assert code == 0
    assert given_texts == Counter(map(str, range(30))) + Counter(map(str, range(12, 16)))
    assert run(-1) == (0, given_texts), "a third process calls nothing"
    assert not list((tmp_path / "cache").glob(".unfinished-*"))


@pytest.mark.parametrize("harm", [b"", b"\x93NUMPY", b"PK\x03\x04"])
def test_a_damaged_file_is_made_again(tmp_path: Path, harm: bytes) -> None:
    function = Lengths()
    encoder = FunctionEncoder(function, "lengths", tmp_path)
    encoder.encode(["ab"])
    (file,) = tmp_path.glob("*/*.npy")
    file.write_bytes(harm)
    assert encoder.encode(["ab"]).tolist() == [[2, 0.5]]
    assert function.given["ab"] == 2
    assert encoder.encode(["ab"]).tolist() == [[2, 0.5]]
    assert function.given["ab"] == 2


def test_bytes_stay_bytes_and_no_cache_is_no_cache() -> None:
    function = Lengths()
    encoder = FunctionEncoder(function, "lengths")
    encoder.encode(["a", "a"])
    encoder.encode(["a"])
    assert function.given["a"] == 2
    images = FunctionEncoder(lambda some: np.zeros((len(some), 2, 2), np.uint8), "black")
    assert (images.encode(["a"]).dtype, images.encode(["a"]).shape) == (np.uint8, (1, 2, 2))
    assert images.describe() == {"encoder": "function", "name": "black"}


def returning(value: Any, cache: Path | None = None) -> Any:
    return FunctionEncoder(lambda examples: value, "f", cache).encode(["a", "b"])


@pytest.mark.usefixtures("without_types")
@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: FunctionEncoder(None, "f"), ["function", "None"]),  # type: ignore[arg-type]
        (lambda: FunctionEncoder(len, ""), ["name", "''"]),
        (lambda: FunctionEncoder(len, "f", batch_size=0), ["batch_size", "0"]),
        (lambda: FunctionEncoder(len, "f").encode([]), ["examples", "at least one"]),
        (lambda: FunctionEncoder(len, "f").encode("text"), ["examples", "'text'"]),
        (lambda: FunctionEncoder(len, "f").encode(["a", None]), ["examples[1]", "None"]),
        (lambda: FunctionEncoder(len, "f").encode([float("nan")]), ["examples[0]", "nan"]),
        (lambda: FunctionEncoder(len, "f").encode([[[1], [1, 2]]]), ["examples[0]"]),
        (lambda: returning([[1.0]]), ["f", "(1, 1)", "2 examples"]),
        (lambda: returning(3.0), ["f", "()", "2 examples"]),
        (lambda: returning([["x"], ["y"]]), ["f", "<U1"]),
        (lambda: returning([[1.0], [np.nan]]), ["f", "non-finite", "(1, 0)"]),
    ],
)
def test_bad_examples_and_results_get_one_sentence(call: Any, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message
    assert len(message) < 300


def test_a_function_that_has_changed_its_shape_is_refused(tmp_path: Path) -> None:
    FunctionEncoder(lambda examples: np.zeros((1, 3)), "f", tmp_path).encode(["a"])
    with pytest.raises(InputError, match="another name"):
        FunctionEncoder(lambda examples: np.zeros((1, 4)), "f", tmp_path).encode(["a", "b"])


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file"):
        returning([[1.0], [2.0]], tmp_path / "file")
