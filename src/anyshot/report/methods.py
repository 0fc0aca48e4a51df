"""What methods and groups of runs are called."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anyshot.errors import DataError
from anyshot.report.words import printable
from anyshot.runs.naming import nearest_preset, title
from anyshot.runs.reading import read_experiment
from anyshot.runs.records import ExperimentRecord

PARTS = ("learner.", "network.", "protocol.")  # how the names of the settings of a method begin
PLAIN = (bool, int, float, str, type(None))


def read_record(folder: str) -> ExperimentRecord | None:
    """What a run folder is a run of; None if the folder is not here, as a table may come from another machine."""
    try:
        return read_experiment(Path(folder))
    except DataError:
        return None


def label_methods(heads: pd.DataFrame, shared: Collection[str]) -> dict[str, str]:
    """The method of each run: the learner, and the settings in which the methods of that learner differ.

    Args:
        heads: one row a run.
        shared: names of settings that do not belong to a method.

    Returns:
        Names such as "ftml-vs (inner_rate 0.03)" by folder.
    """
    found: dict[str, str] = {}
    for learner, of_learner in heads.groupby("learner", sort=False):
        settings = {row["run"]: _method_settings(row, shared) for _, row in of_learner.iterrows()}
        names = dict.fromkeys(name for values in settings.values() for name in values)
        # A setting that some runs do not have was added to the learner later, and makes no other method.
        differ = [name for name in names if len({values[name] for values in settings.values() if name in values}) > 1]
        for folder, values in settings.items():
            shown = [f"{_shorten(name, differ)} {describe_value(values[name])}" for name in differ if name in values]
            found[folder] = printable(str(learner)) + (f" ({', '.join(shown)})" if shown else "")
    return found


def make_title(heads: pd.DataFrame) -> str:
    """What runs are of: the preset and the changes that all of them have, or the name of the task set."""
    records = [record for record in map(read_record, heads["run"]) if record]
    titles = [title(record) for record in records if nearest_preset(record)]  # not those of own learners
    if not titles:
        return printable(str(heads["data.name"].iloc[0]))
    changes = [one.partition(" with ")[2].split(", ") for one in titles]
    shared = [change for change in changes[0] if change and all(change in others for others in changes)]
    name = min(one.partition(" with ")[0] for one in titles)
    return printable(name + (f" with {', '.join(shared)}" if shared else ""))


def describe_value(value: Any) -> str:
    """The value of a setting in a table.

    >>> describe_value(0.03), describe_value((40, 40)), describe_value(None), describe_value(5.0)
    ('0.03', '[40, 40]', 'none', '5')
    """
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(describe_value, value))}]"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else printable(str(value))


def is_missing(value: Any) -> bool:
    """Whether a table has no value there. None is a value."""
    return isinstance(value, float) and bool(value != value)


def _method_settings(row: pd.Series, shared: Collection[str]) -> dict[str, Hashable]:
    names = [name for name in row.index if name.startswith(PARTS) and name not in shared]
    values = {name: row[name] for name in names if not is_missing(row[name])}
    record = read_record(row["run"])
    if record:
        learner = record.learner
        # The fields of a network learner follow from its name, unless they hold own code.
        own = {n: v for n, v in learner.fields.items() if learner.network is None or "sha256" in json.dumps(v)}
        parts = {"code": learner.type, "loss": learner.loss, "optimiser": learner.optimiser, **own}
        values |= {f"learner.{name}": value for name, value in parts.items()}
    return {name: comparable(value) for name, value in values.items()}


def comparable(value: Any) -> Hashable:
    """A value that can be compared and shown: a description becomes the end of its name and the start of its hash."""
    if isinstance(value, PLAIN) or (isinstance(value, tuple) and all(isinstance(part, PLAIN) for part in value)):
        return value
    name = str(value.get("name", "")).rpartition(".")[2] if isinstance(value, dict) else ""
    digest = hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:8]
    return f"{name} {digest}".strip()


def _shorten(name: str, names: Sequence[str]) -> str:
    """The last part of a dotted name, if no other name ends so.

    >>> _shorten("learner.inner_rate", ["learner.inner_rate", "network.kind"]), _shorten("network.kind", [])
    ('inner_rate', 'network.kind')
    """
    last = name.partition(".")[2]
    taken = last in ("kind", "name") or any(other != name and other.partition(".")[2] == last for other in names)
    return name if taken else last
