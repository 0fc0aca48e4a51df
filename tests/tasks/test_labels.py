"""Labels of all kinds become numbers of classes and come back as they were; missing ones are found."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import InputError
from anyshot.tasks.labels import ClassNames, number_classes, read_labels

WORDS = st.lists(st.text(max_size=4), min_size=1)
WHOLE = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)
LARGE = st.lists(st.integers(2**64, 2**70), min_size=1)
BOOLEANS = st.lists(st.booleans(), min_size=1)
MIXED = st.lists(st.integers(-9, 9) | st.text("abc", min_size=1, max_size=2), min_size=1)
MISSING = st.sampled_from([None, float("nan"), pd.NA, pd.NaT, np.float64("nan")])


@pytest.mark.parametrize(
    "as_given",
    [list, pd.Series, lambda labels: pd.Series(labels, dtype="category")],
    ids=["list", "series", "category"],
)
@given(labels=WORDS | WHOLE | LARGE | BOOLEANS | MIXED)
def test_labels_come_back_as_they_were(as_given: Any, labels: list[Any]) -> None:
    names = ClassNames.of(as_given(labels))
    numbers = names.encode(as_given(labels))
    assert numbers.dtype == np.int32
    assert 0 <= numbers.min() <= numbers.max() < len(names.names)
    returned = names.decode(numbers).tolist()
    assert returned == labels
    assert [type(label) for label in returned] == [type(label) for label in labels]


@given(labels=WORDS | WHOLE | BOOLEANS | MIXED, seed=st.integers(0, 99))
def test_numbers_do_not_depend_on_the_order_or_on_repetitions(labels: list[Any], seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    again = [labels[place] for place in shuffled] + labels[:2]
    assert ClassNames.of(again) == ClassNames.of(labels)


@given(st.data(), WORDS | WHOLE | BOOLEANS | MIXED)
def test_missing_labels_are_found(data: st.DataObject, labels: list[Any]) -> None:
    places = data.draw(st.lists(st.integers(0, len(labels)), max_size=5))
    values = [(label, True) for label in labels]
    for place in places:
        values.insert(place, (data.draw(MISSING), False))
    given_labels = [value for value, _ in values]
    for as_given in (given_labels, pd.Series(given_labels, dtype=object), pd.Series(given_labels, dtype="category")):
        read = read_labels("y", as_given)
        assert read.labelled.tolist() == [there for _, there in values]
        assert read.are_classes
        assert ClassNames.of(as_given).decode(ClassNames.of(as_given).encode(read.values)).tolist() == labels


@pytest.mark.parametrize(
    "labels",
    [
        pd.array([0, 1, None], "Int64"),
        pd.Series([0, 1, None], dtype="Int64"),
        pd.Categorical([0, 1, None]),
        np.ma.masked_array([0, 1, 5], [False, False, True]),
        [0, 1, None],
    ],
)
def test_whole_numbers_with_a_missing_one_stay_classes(labels: Any) -> None:
    read = read_labels("y", labels)
    assert (read.values.tolist(), read.labelled.tolist(), read.are_classes) == ([0, 1], [True, True, False], True)


@pytest.mark.parametrize(
    "targets", [[0.5, 1.0, None], np.array([0.5, 1.0, np.nan]), pd.Series([0.5, 1, None]), [0.5, 1, float("nan")]]
)
def test_floats_are_targets(targets: Any) -> None:
    read = read_labels("y", targets)
    assert (read.values.tolist(), read.labelled.tolist(), read.are_classes) == ([0.5, 1.0], [True, True, False], False)


def test_a_target_with_a_missing_component_is_missing() -> None:
    targets = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, None, 3.0]})
    for given_targets in (targets, targets.astype(object), targets.to_numpy()):
        read = read_labels("y", given_targets)
        assert (read.values.tolist(), read.labelled.tolist()) == ([[1, 1], [3, 3]], [True, False, True])


@pytest.mark.parametrize(
    ("tasks", "numbers", "names"),
    [
        ([[0, 1], [2, 0]], [0, 1, 2, 0], None),  # whole numbers without a gap stay
        ([[3, 7], [7, 3]], [0, 1, 1, 0], (3, 7)),
        ([[0, 2], [0, 0]], [0, 1, 0, 0], (0, 2)),
        ([[-1, 1], [1, 1]], [0, 1, 1, 1], (-1, 1)),
        ([[True, True], [True, True]], [1, 1, 1, 1], (False, True)),
        ([[True, False], [0, 1]], [1, 0, 0, 1], None),  # True is 1 where others are numbers
        ([[True, False], [5, 1]], [1, 0, 2, 1], (0, 1, 5)),
        ([["b", "a"], [7, 7]], [2, 1, 0, 0], (7, "a", "b")),
        ([["1", "0"], ["0", "0"]], [1, 0, 0, 0], ("0", "1")),  # strings of digits are classes
        ([[2**63, 2**63], [-1, -1]], [1, 1, 0, 0], (-1, 2**63)),
    ],
)
def test_classes_of_several_tasks(tasks: list[Any], numbers: list[int], names: Any) -> None:
    y, found = number_classes([read_labels("y", labels).values for labels in tasks])
    assert y.tolist() == numbers
    assert (found.names if found else None) == names
    assert y.dtype.kind in "iu"
    if names:
        assert found is not None
        assert [type(name) for name in found.names] == [type(name) for name in names]


def test_whole_numbers_that_stay_keep_their_dtype() -> None:
    y, names = number_classes([np.array([0, 1], np.uint8), np.array([1, 0], np.uint8)])
    assert (y.dtype, names) == (np.uint8, None)


def test_decode_takes_any_shape() -> None:
    names = ClassNames.of(["a", "b"])
    assert names.decode(np.array([[0, 1], [1, 1]])).tolist() == [["a", "b"], ["b", "b"]]
    assert names.decode(1).item() == "b"
    assert names.decode([]).tolist() == []


NAMES = ClassNames.of(["ok", "bad"])


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: read_labels("y", ["a", 1.5]), ["y", "strings and floats"]),
        (lambda: read_labels("y", [["a", "b"], ["c", "d"]]), ["y", "strings", "(2, 2)"]),
        (lambda: read_labels("y", [datetime.date(2020, 1, 1)]), ["y", "date", "strings"]),
        (lambda: read_labels("y", np.array(["2020"], "datetime64[D]")), ["y", "datetime64"]),
        (lambda: read_labels("y", [b"a"]), ["y", "bytes"]),
        (lambda: read_labels("y", np.array([1j])), ["y", "complex128"]),
        (lambda: read_labels("y", [[1], [1, 2]]), ["y", "different shapes"]),
        (lambda: read_labels("y", "ab"), ["y", "ab"]),
        (lambda: ClassNames.of([0.5, 1.5]), ["labels", "classes", "float64"]),
        (lambda: ClassNames.of([1, "1"]), ["1", "'1'", "convert"]),
        (lambda: NAMES.encode(["ok", "good"]), ["labels", "'good'", "'bad', 'ok'"]),
        (lambda: NAMES.encode(["ok", None]), ["labels", "index 1"]),
        (lambda: NAMES.encode([["ok"]]), ["labels", "shape"]),
        (lambda: NAMES.encode([0, 1], "y"), ["y holds 0", "'bad', 'ok'"]),
        (lambda: ClassNames(tuple(range(99))).encode([100]), ["100", "89 more"]),
        (lambda: NAMES.decode([0, 2]), ["numbers", "2", "0..1"]),
        (lambda: NAMES.decode([-1]), ["numbers", "-1", "0..1"]),
        (lambda: NAMES.decode([0.7]), ["numbers", "float64", "argmax"]),
    ],
)
def test_bad_labels_get_one_sentence(call: Any, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message
    assert len(message) < 300
