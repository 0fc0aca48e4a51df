"""One column of a data frame as numbers: what kind it is, what it was fitted on, and how values are encoded."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Float32

from anyshot.errors import InputError
from anyshot.tasks.labels import ClassNames, Label

Kind = Literal["number", "boolean", "date", "duration", "category", "text", "empty"]

FEW = 50  # a column of strings with more different values is text
MOST_CATEGORIES = 1000

# What pandas says of the values of a column, in our words.
FOUND = {
    "integer": "numbers",
    "floating": "numbers",
    "mixed-integer-float": "numbers",
    "decimal": "numbers",
    "boolean": "booleans",
    "datetime64": "dates",
    "datetime": "dates",
    "date": "dates",
    "timedelta64": "durations",
    "timedelta": "durations",
    "string": "strings",
    "categorical": "categories",
}
# The values that a column of each kind may have; the first are those that make it this kind by default.
ACCEPTED: dict[Kind, tuple[str, ...]] = {
    "number": ("numbers",),
    "boolean": ("booleans",),
    "date": ("dates",),
    "duration": ("durations",),
    "category": ("categories", "strings", "numbers", "booleans"),
    "text": ("strings", "categories"),
}


@dataclass(frozen=True)
class Column:
    """How a column of a frame is encoded.

    Attributes:
        name: of the column.
        kind: what it holds. A column that was empty when it was fitted is not encoded.
        center: is subtracted from numbers; also what a missing number is taken for.
        scale: by which they are then divided.
        categories: each is a column of zeros and ones; other values are zeros in all of them. One that is None had a
            name that was forgotten: its column is zeros.
        words: the number of columns that the words of a text are hashed to.
        missing: whether one more column of zeros and ones says where a value is missing.
    """

    name: str
    kind: Kind
    center: float = 0.0
    scale: float = 1.0
    categories: tuple[Label | None, ...] = ()
    words: int = 0
    missing: bool = False

    @classmethod
    def fit(cls, values: pd.Series, kind: Any, words: int) -> Column:
        """Find out how to encode a column.

        Args:
            values: of the column, whose name is a string.
            kind: of the column; None to see by its values.
            words: the number of columns for a text.
        """
        name, found = str(values.name), _look(values)
        if kind not in (None, *ACCEPTED):
            raise InputError(f"the kind of column {name!r} must be one of {', '.join(ACCEPTED)}, got {kind!r}")
        if found is None:
            return cls(name, "empty")
        if kind is None:
            kind = _tell_text(values) if found == "strings" else next(k for k in ACCEPTED if ACCEPTED[k][0] == found)
        _check_kind(name, kind, found)
        missing = bool(values.isna().any())
        if kind == "text":
            return cls(name, kind, words=words, missing=missing)
        if kind == "category":
            return cls(name, kind, categories=_find_categories(values), missing=missing)
        if kind == "boolean":
            return cls(name, kind, center=0.5, scale=0.5, missing=missing)
        center, scale = _measure(_as_numbers(values, kind))
        return cls(name, kind, center=center, scale=scale, missing=missing)

    @property
    def names(self) -> list[str]:
        """What the numbers that it is encoded to mean."""
        if self.kind == "category":
            known = self.categories
            names = [f"{self.name} forgotten" if name is None else f"{self.name}={name}" for name in known]
        elif self.kind == "text":
            names = [f"{self.name} word {number}" for number in range(self.words)]
        else:
            names = [] if self.kind == "empty" else [self.name]
        return [*names, f"{self.name} missing"] if self.missing else names

    def encode(self, values: pd.Series) -> Float32[np.ndarray, "n width"]:
        """The values of this column as numbers, one row each."""
        if self.kind == "empty":
            return np.zeros((len(values), 0), np.float32)
        if (found := _look(values)) is not None:
            _check_kind(self.name, self.kind, found)
        there = values.notna().to_numpy(bool)
        if self.kind == "text":
            encoded = _hash_words(values.astype(object)[there].tolist(), there, self.words)
        elif self.kind == "category":
            encoded = self._encode_categories(values, there)
        else:
            encoded = self._encode_numbers(_as_numbers(values, self.kind))[:, None]
        return np.concatenate([encoded, ~there[:, None]], axis=1, dtype=np.float32) if self.missing else encoded

    def forget_categories(self, used: Bool[np.ndarray, " width"]) -> Column:
        """The same column without the names of the categories that are not used."""
        kept = zip(self.categories, used, strict=False)  # one more of `used` is for missing values
        return replace(self, categories=tuple(name if keep else None for name, keep in kept))

    def _encode_categories(
        self, values: pd.Series, there: Bool[np.ndarray, " n"]
    ) -> Float32[np.ndarray, "n categories"]:
        encoded = np.zeros((len(values), len(self.categories)), np.float32)
        numbers = {category: number for number, category in enumerate(self.categories)}
        plain = _plain_values(values)
        strings = {isinstance(value, str) for value in plain}
        known = {isinstance(category, str) for category in self.categories if category is not None}
        if known and strings - known:
            now, then = ("strings", "numbers") if True in strings else ("numbers", "strings")
            raise InputError(f"column {self.name!r} holds {now}, but the encoder was fitted on {then}; convert them")
        for row, value in zip(np.flatnonzero(there), plain, strict=True):
            if value in numbers:
                encoded[row, numbers[value]] = 1
        return encoded

    def _encode_numbers(self, numbers: Float[np.ndarray, " n"]) -> Float32[np.ndarray, " n"]:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            far = np.isinf(numbers - self.center)  # two numbers near the largest that there is
            halves = (numbers / 2 - self.center / 2) / (self.scale / 2)
            scaled = np.where(far, halves, (numbers - self.center) / self.scale).astype(np.float32)
        if np.isinf(scaled).any():
            wrong = numbers[np.isinf(scaled)][0]
            raise InputError(f"column {self.name!r} holds {wrong}; too far from the {self.center:g} it was fitted on")
        return np.nan_to_num(scaled)


def _look(values: pd.Series) -> str | None:
    """What a column holds; None if all values are missing."""
    if values.isna().all():
        return None
    found = pd.api.types.infer_dtype(values, skipna=True)
    if found not in FOUND:
        raise InputError(
            f"column {values.name!r} holds {found.replace('-', ' ')} values; convert them to numbers, strings, "
            "booleans, dates or categories"
        )
    return FOUND[found]


def _check_kind(name: str, kind: Kind, found: str) -> None:
    if found not in ACCEPTED[kind]:
        raise InputError(f"column {name!r} holds {found}, but is encoded as a {kind}; convert its values")


def _tell_text(values: pd.Series) -> Kind:
    """Strings are text if there are many different ones, or if most differ and most have a space in them."""
    present = values.dropna()
    different = present.nunique()
    spaced = present.str.strip().str.contains(r"\s").mean()
    return "text" if different > FEW or (different > len(present) / 2 and spaced > 0.5) else "category"


def _find_categories(values: pd.Series) -> tuple[Label, ...]:
    names = ClassNames.of(pd.Series(_plain_values(values), dtype="category")).names
    if len(names) > MOST_CATEGORIES:
        raise InputError(
            f"column {values.name!r} has {len(names):,} categories, at most {MOST_CATEGORIES:,} are possible; "
            "leave it out, or make it strings and say kinds={...: 'text'}"
        )
    return names


def _plain_values(values: pd.Series) -> list[Label]:
    """The values that are not missing, as strings or numbers of Python."""
    objects = values.to_numpy(object)[values.notna().to_numpy(bool)].tolist()
    plain = [value.item() if isinstance(value, np.generic) else value for value in objects]
    if odd := {type(value).__name__ for value in plain if not isinstance(value, (str, int, float))}:
        raise InputError(
            f"column {values.name!r} has an object of type {min(odd)} as a category; convert it to strings or numbers"
        )
    return plain


def _as_numbers(values: pd.Series, kind: Kind) -> Float[np.ndarray, " n"]:
    """Numbers, NaN where there is none; dates and durations in seconds."""
    if values.isna().all():
        return np.full(len(values), np.nan)
    if kind == "date":
        numbers = (pd.to_datetime(values, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    elif kind == "duration":
        numbers = pd.to_timedelta(values) / pd.Timedelta(seconds=1)
    else:
        numbers = values
    array = numbers.to_numpy(np.float64, na_value=np.nan)
    if np.isinf(array).any():
        raise InputError(f"column {values.name!r} holds an infinite number; replace it")
    return array


def _measure(numbers: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Mean and standard deviation; the order of the numbers does not change a bit of them."""
    present = numbers[~np.isnan(numbers)]
    low, high = float(present.min()), float(present.max())
    if low == high:
        return low, 1.0
    largest = max(abs(low), abs(high))  # squares of the quotients cannot overflow
    parts = present / largest
    mean = math.fsum(parts) / len(parts)
    deviation = math.sqrt(math.fsum((parts - mean) ** 2) / len(parts))
    return mean * largest, deviation * largest or 1.0


def _hash_words(texts: list[str], there: Bool[np.ndarray, " n"], words: int) -> Float32[np.ndarray, "n words"]:
    from sklearn.feature_extraction.text import HashingVectorizer  # takes a second to import

    encoded = np.zeros((len(there), words), np.float32)
    if texts:
        # Words of one letter count too; a code such as A-1 would be nothing without them.
        pattern = r"(?u)\b\w+\b"
        vectorizer = HashingVectorizer(n_features=words, token_pattern=pattern, dtype=np.float32)
        encoded[there] = vectorizer.transform(texts).toarray()
    return encoded
