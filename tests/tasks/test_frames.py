"""Frames with columns of all kinds become vectors, in any order of rows and columns; encoders survive JSON."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from anyshot.errors import InputError
from anyshot.tasks import FrameEncoder, TaskSet

CITIES = ["Bari", "Oslo", "Rome"]
COMMENTS = ["pays late", "never paid a bill", "good old friend", "asks for more", "has moved away", "no answer yet"]


def make_frame(rows: int = 12, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.3, np.nan, rng.integers(18, 90, rows)),
            "income": rng.normal(3e4, 1e4, rows),
            "city": rng.choice(CITIES, rows),
            "member": rng.random(rows) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, rows), "D"),
            "comment": [f"{comment} {number}" for number, comment in enumerate(rng.choice(COMMENTS, rows))],
            "grade": pd.Categorical(rng.choice(["a", "b", None], rows)),
        }
    )


def test_numbers_and_categories_are_those_of_scikit_learn() -> None:
    frame = make_frame(50)
    encoder = FrameEncoder.fit(frame[["income", "city"]])
    new = make_frame(20, seed=1)
    expected = np.concatenate(
        [
            StandardScaler().fit(frame[["income"]]).transform(new[["income"]]),
            OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(frame[["city"]]).transform(new[["city"]]),
        ],
        axis=1,
    )
    encoded = encoder.encode(new)
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(encoded, expected, rtol=1e-6, atol=1e-6)


@given(st.integers(0, 99), st.integers(2, 30), st.randoms())
def test_order_of_rows_and_columns_does_not_matter(seed: int, rows: int, random: Any) -> None:
    frame = make_frame(rows, seed)
    order = list(range(rows))
    random.shuffle(order)
    columns = list(frame.columns)
    random.shuffle(columns)
    encoder = FrameEncoder.fit(frame)
    assert FrameEncoder.fit(frame.iloc[order]) == encoder, "to the last bit"
    assert (encoder.encode(frame.iloc[order][columns]) == encoder.encode(frame)[order]).all()


@given(st.integers(0, 99), st.integers(2, 30))
def test_a_description_in_json_makes_the_same_encoder(seed: int, rows: int) -> None:
    encoder = FrameEncoder.fit(make_frame(rows, seed), words=8)
    again = FrameEncoder.from_description(json.loads(json.dumps(encoder.describe())))
    assert again == encoder
    assert hash(again) == hash(encoder)
    new = make_frame(9, seed + 1)
    assert (again.encode(new) == encoder.encode(new)).all()


def test_kinds_and_names_of_columns() -> None:
    encoder = FrameEncoder.fit(make_frame(), words=2)
    assert [(column.name, column.kind) for column in encoder.columns] == [
        ("age", "number"),
        ("income", "number"),
        ("city", "category"),
        ("member", "boolean"),
        ("since", "date"),
        ("comment", "text"),
        ("grade", "category"),
    ]
    names = ["age", "age missing", "income", "city=Bari", "city=Oslo", "city=Rome", "member", "since"]
    names += ["comment word 0", "comment word 1", "grade=a", "grade=b", "grade missing"]
    assert encoder.column_names == names
    assert encoder.encode(make_frame()).shape == (12, len(names))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["x"] * 3 + ["y"] * 3, "category"),
        ([f"{number}" for number in range(51)], "text"),
        ([f"{number}" for number in range(50)], "category"),
        (["New York", "Los Angeles"] * 3, "category"),  # spaces, but the same few
        (["one word", "two words", "other words"], "text"),
        ([decimal.Decimal("1.5"), None], "number"),
        ([1, 2.5, None], "number"),
        ([True, None], "boolean"),
        (pd.array([1, None], "Int64"), "number"),
        (pd.array([True, None], "boolean"), "boolean"),
        ([datetime.date(2020, 1, 1), None], "date"),
        ([pd.Timestamp("2020-01-01", tz="Europe/Rome")], "date"),
        ([datetime.timedelta(1)], "duration"),
        (pd.Categorical([3, 1]), "category"),
        ([None, None], "empty"),
        ([np.nan, np.nan], "empty"),
    ],
)
def test_the_kind_of_a_column_is_seen_by_its_values(values: Any, kind: str) -> None:
    frame = pd.DataFrame({"column": values, "other": 1.0})
    encoder = FrameEncoder.fit(frame)
    assert encoder.columns[0].kind == kind
    assert np.isfinite(encoder.encode(frame)).all()


def test_missing_values_constant_columns_and_new_categories() -> None:
    fitted = pd.DataFrame({"a": [1.0, 3.0, None], "b": [5, 5, 5], "c": ["x", "y", None], "d": [True, False, True]})
    encoder = FrameEncoder.fit(fitted)
    assert encoder.column_names == ["a", "a missing", "b", "c=x", "c=y", "c missing", "d"]
    new = pd.DataFrame({"a": [None, 2.0], "b": [7, None], "c": ["z", None], "d": [None, True], "more": [1, 2]})
    assert encoder.encode(new).tolist() == [[0, 1, 2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 1]]


def test_dates_are_seconds_in_any_time_zone() -> None:
    frame = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-03"])})
    encoder = FrameEncoder.fit(frame)
    assert encoder.encode(frame).tolist() == [[-1], [1]]
    assert encoder.encode(pd.DataFrame({"day": [datetime.date(2020, 1, 2)]})).tolist() == [[0]]
    rome = pd.DataFrame({"day": [pd.Timestamp("2020-01-02 01:00", tz="Europe/Rome")]})
    assert encoder.encode(rome).tolist() == [[0]]


def test_text_is_hashed_by_its_words() -> None:
    encoder = FrameEncoder.fit(pd.DataFrame({"t": ["some words", "other words"]}), kinds={"t": "text"})
    encoded = encoder.encode(pd.DataFrame({"t": ["never seen before", "Before, never seen", "quite different", "A-1"]}))
    assert encoded.shape == (4, 256)
    assert (encoded[0] == encoded[1]).all()
    assert (encoded[0] != encoded[2]).any()
    np.testing.assert_allclose(np.linalg.norm(encoded, axis=1), 1, rtol=1e-6)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=8))
@example([8.98846567431158e307, 8.98846567431158e307, -1.7976931348623157e308])
def test_scaled_numbers_are_finite_whatever_their_size(values: list[float]) -> None:
    frame = pd.DataFrame({"a": values})
    encoded = FrameEncoder.fit(frame).encode(frame)
    assert np.isfinite(encoded).all()
    assert np.abs(encoded).max() <= np.sqrt(len(values)) * (1 + 1e-6), "no standardised value can be larger"


def test_from_frames_fits_on_train_rows_only_and_keeps_the_encoder() -> None:
    frames = {name: make_frame(rows, seed) for seed, (name, rows) in enumerate({"a": 8, "b": 12, "c": 9}.items())}
    for frame in frames.values():
        frame["risk"] = np.where(frame["income"] > 3e4, "low", "high")
    frames["b"].loc[[0, 5], "risk"] = None
    frames["b"] = frames["b"][reversed(frames["b"].columns)]
    tasks = TaskSet.from_frames(frames, target="risk", test_size=0.25)
    assert tasks.counts("train").tolist() == [6, 8, 7]
    assert (tasks.unlabelled, tasks.class_names) == ((0, 2, 0), ("high", "low"))
    own = [frames[name].dropna(subset="risk").drop(columns="risk") for name in frames]
    joined = pd.concat(own, ignore_index=True)
    train = np.concatenate([tasks.rows_of(task, "train") for task in range(3)])
    encoder = FrameEncoder.fit(joined.iloc[train][list(frames["a"].columns[:-1])])
    assert tasks.encoder == encoder
    assert (tasks.x == encoder.encode(joined)).all()
    again = TaskSet.from_frames(frames, target="risk", encoder=encoder)
    assert again.fingerprint == tasks.fingerprint


def test_forgotten_categories_are_zeros_and_nowhere_in_the_description() -> None:
    frame = pd.DataFrame({"city": CITIES, "size": pd.Categorical([1, 2, 2])})
    encoder = FrameEncoder.fit(frame)
    kept = encoder.forget_categories(np.array([False, True, False, True, True]))
    assert kept.column_names == ["city forgotten", "city=Oslo", "city forgotten", "size=1", "size=2"]
    np.testing.assert_array_equal(kept.encode(frame), encoder.encode(frame) * [0, 1, 0, 1, 1])
    assert "Bari" not in json.dumps(kept.describe())
    assert FrameEncoder.from_description(json.loads(json.dumps(kept.describe()))) == kept
    nothing = kept.forget_categories(np.zeros(5, bool))
    np.testing.assert_array_equal(nothing.encode(frame), np.zeros((3, 5)))


def test_several_target_columns_are_the_components_of_a_target() -> None:
    frames = [pd.DataFrame({0: [1.0, 2, 3, 4], "y": [1.0, None, 3, 4], "z": [5.0, 6, 7, 8]})] * 2
    tasks = TaskSet.from_frames(frames, target=["y", "z"], test_size=0)
    assert tasks.y.tolist() == [[1, 5], [3, 7], [4, 8]] * 2
    assert tasks.encoder is not None
    assert tasks.x.shape == (6, 1)
    assert TaskSet.from_frames(frames, target="y", test_size=0).y.tolist() == [1, 3, 4] * 2


FRAME = make_frame()
ENCODER = FrameEncoder.fit(FRAME)
SMALL = pd.DataFrame({"a": [1, 2], "y": ["p", "q"]})


def encode(**columns: Any) -> np.ndarray:
    return ENCODER.encode(FRAME.assign(**columns))


@pytest.mark.usefixtures("without_types")
@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: ENCODER.encode(FRAME.drop(columns="city")), ["frame", "no column 'city'", "'age'"]),
        (lambda: ENCODER.encode(FRAME.to_numpy()), ["frame", "DataFrame", "ndarray"]),
        (lambda: encode(age="old"), ["'age'", "strings", "number"]),
        (lambda: encode(age=FRAME["member"]), ["'age'", "booleans", "number"]),
        (lambda: encode(city=3), ["'city'", "numbers", "strings"]),
        (lambda: encode(since=5), ["'since'", "numbers", "date"]),
        (lambda: encode(comment=1.5), ["'comment'", "numbers", "text"]),
        (lambda: encode(income=np.inf), ["'income'", "infinite"]),
        (lambda: encode(income=1e300), ["'income'", "1e+300"]),
        (lambda: encode(income=[[1]] * 12), ["'income'", "mixed"]),
        (lambda: ENCODER.encode(pd.concat([FRAME, FRAME["age"]], axis=1)), ["two columns 'age'"]),
        (lambda: FrameEncoder.fit(FRAME.iloc[:0]), ["frame", "no rows"]),
        (lambda: FrameEncoder.fit(FRAME[[]]), ["frame", "no column"]),
        (lambda: FrameEncoder.fit(pd.DataFrame({"a": [None]})), ["frame", "no column"]),
        (lambda: FrameEncoder.fit(pd.DataFrame({"a": [1, "x"]})), ["'a'", "mixed integer"]),
        (lambda: FrameEncoder.fit(pd.DataFrame({"a": [np.inf, 1]})), ["'a'", "infinite"]),
        (lambda: FrameEncoder.fit(FRAME, kinds={"agee": "number"}), ["kinds", "'agee'", "'age'"]),
        (lambda: FrameEncoder.fit(FRAME, kinds={"age": "text"}), ["'age'", "numbers", "text"]),
        (lambda: FrameEncoder.fit(FRAME, kinds={"age": "ordinal"}), ["'age'", "'ordinal'", "category"]),
        (lambda: FrameEncoder.fit(FRAME, words=0), ["words", "0"]),
        (
            lambda: FrameEncoder.fit(pd.DataFrame({"id": pd.Categorical(range(1001))})),
            ["'id'", "1,001 categories", "1,000"],
        ),
        (lambda: FrameEncoder.fit(pd.DataFrame({"a": pd.Categorical([pd.Timestamp(0)])})), ["'a'", "Timestamp"]),
        (lambda: FrameEncoder.from_description({"encoder": "images"}), ["description", "FrameEncoder"]),
        (lambda: FrameEncoder.from_description({"encoder": "frame", "columns": [{"name": "a"}]}), ["description"]),
        (lambda: TaskSet.from_frames({}, "y"), ["frames", "empty"]),
        (lambda: TaskSet.from_frames(SMALL, "y"), ["frames", "mapping", "DataFrame"]),
        (lambda: TaskSet.from_frames({"one": SMALL.to_numpy()}, "y"), ["'one'", "DataFrame", "ndarray"]),
        (lambda: TaskSet.from_frames({"one": SMALL}, "z"), ["target", "'one'", "no column 'z'", "'a', 'y'"]),
        (lambda: TaskSet.from_frames({"one": SMALL, "two": SMALL[["y"]]}, "y"), ["'two'", "no column 'a'"]),
        (lambda: TaskSet.from_frames({"one": SMALL.assign(y=None)}, "y"), ["'one'", "no label"]),
        (lambda: TaskSet.from_frames({"one": SMALL}, "y", encoder=ENCODER, kinds={}), ["kinds", "encoder"]),
    ],
)
def test_bad_frames_get_one_sentence(call: Any, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message
    assert len(message) < 400
