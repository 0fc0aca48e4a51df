"""Runs that can be compared: those that saw the same tasks under the same rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from anyshot.errors import DataError, InputError
from anyshot.offline.protocol import OfflineProtocol
from anyshot.online.protocol import OnlineProtocol
from anyshot.report.methods import comparable, describe_value, is_missing, label_methods, make_title
from anyshot.report.words import count, join, printable
from anyshot.runs.table import task_table

# The settings that decide what a learner is given and how it is tested. All others belong to the method.
WORLD = {
    "online": "labels_per_arrival steps_per_arrival max_steps advance threshold measure test_size fresh_test num_tasks "
    "shuffle_tasks pretrain_tasks",
    "offline": "ways order train_tasks validation_tasks test_tasks test_shots test_queries",
}
SHARED = {kind: [f"protocol.{name}" for name in names.split()] for kind, names in WORLD.items()}
# A rule that a run does not have was added later, and has its default.
DEFAULTS = {
    protocol.kind: {f"protocol.{rule.name}": rule.default for rule in dataclasses.fields(protocol)}
    for protocol in (OnlineProtocol, OfflineProtocol)
}


@dataclass(frozen=True)
class Group:
    """Runs that can be compared.

    Attributes:
        title: what they are runs of.
        kind: online or offline.
        rows: of the runs, as `read_runs` gives them, with a column `method`.
        notes: sentences that a reader should know.
    """

    title: str
    kind: str
    rows: pd.DataFrame
    notes: tuple[str, ...]

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a run: its settings, `learner`, `method` and `seed`."""
        return self.rows.drop_duplicates("run").set_index("run", drop=False)

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """Online: one row a run and task, see `task_table`, with `method`, `place` from 0, and the rates at its end."""
        table = task_table(self.rows)
        ends = self.rows[self.rows["event"] == "evaluation"].groupby(["run", "position"], sort=False).tail(1)
        rates = ends.filter(like="rate.").assign(run=ends["run"], position=ends["position"].astype(int))
        table = table.merge(rates, on=["run", "position"])
        return table.assign(method=table["run"].map(self.runs["method"]), place=table.groupby("run").cumcount())

    @cached_property
    def num_tasks(self) -> int:
        """How many tasks are compared online; 0 offline."""
        return int(self.tasks["place"].max()) + 1 if self.kind == "online" else 0

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Offline: one row a trial, with `validation`, the mean over numbers of shots."""
        trials = self.rows[self.rows["event"] == "trial"].drop_duplicates(["run", "step"])
        return trials.assign(validation=trials["score"].astype(float) * (1 if self.measure == "accuracy" else -1))

    @cached_property
    def measure(self) -> str:
        """What is tested: accuracy, or loss in a regression."""
        tested = self.rows[self.rows["event"].isin(["evaluation", "test"])]
        return "accuracy" if tested["accuracy"].notna().all() else "loss"

    def setting(self, name: str) -> Any:
        """The value of a setting that all runs share; None if it is missing."""
        value = self.runs[name].iloc[0] if name in self.runs else None
        return None if is_missing(value) else value


def split_worlds(runs: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of runs that saw the same world together, online ones first, with a column `method`."""
    heads = runs.drop_duplicates("run")
    worlds: dict[tuple[Hashable, ...], list[str]] = {}
    for _, row in heads.iterrows():
        worlds.setdefault(tuple(_world(row).values()), []).append(row["run"])
    found = []
    for (kind, *_), folders in worlds.items():
        labels = label_methods(heads[heads["run"].isin(folders)], SHARED[str(kind)])
        part = runs[runs["run"].isin(folders)]
        found.append(part.assign(method=part["run"].map(labels)))
    return sorted(found, key=lambda part: part["kind"].iloc[0] != "online")


def group_runs(runs: pd.DataFrame) -> tuple[list[Group], list[str]]:
    """The groups that can be compared, and a sentence for each world of which no run is far enough.

    Raises:
        DataError: runs of the same seed had different streams, or a finished run lacks results.
        InputError: the same experiment is there twice.
    """
    groups: list[Group] = []
    waiting: list[str] = []
    for world in split_worlds(runs):
        rows, notes = _choose_rows(world)
        if rows.empty:
            waiting += notes
            continue
        heads = rows.drop_duplicates("run")
        _check_complete(rows)
        _check_duplicates(heads)
        _check_streams(rows)
        kind = str(heads["kind"].iloc[0])
        others = [group for group in groups if group.kind == kind]
        apart = [_explain_difference(heads.iloc[0], others[0].rows.iloc[0])] if others else []
        groups.append(Group(make_title(heads), kind, rows, (*apart, *notes, *_note_seeds(heads))))
    return groups, waiting


def _world(row: pd.Series) -> dict[str, Hashable]:
    names = ["kind", "tasks.fingerprint", *SHARED[row["kind"]]]
    values = {name: row.get(name) for name in names}
    defaults = DEFAULTS[row["kind"]]
    return {name: comparable(defaults.get(name) if is_missing(value) else value) for name, value in values.items()}


def _choose_rows(world: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows to compare, and sentences about what is left out; no rows if no run is far enough."""
    heads, finished = world.drop_duplicates("run"), world["finished"].astype(bool)
    online = heads["kind"].iloc[0] == "online"
    ended = world[world["ended"].eq(True)].groupby("run")["position"].nunique()
    done = ended if online else world.groupby("run")["step"].max().fillna(0)
    progress = {run: int(done.get(run, 0)) for run in heads["run"]}
    noun = "task" if online else "step"
    if finished.any():
        unfinished = heads[~heads["finished"].astype(bool)]
        return world[finished], [
            f"{printable(row['run'])} ({row['method']}, seed {row['seed']}) is not finished "
            f"({count(progress[row['run']], noun)} so far) and is left out."
            for _, row in unfinished.iterrows()
        ]
    folder, least = min(progress.items(), key=lambda item: item[1])
    if not online or not least:
        why = f"no run of {make_title(heads)} is finished: {printable(folder)} has {count(least, noun)} so far"
        return world.iloc[:0], [why]
    first = world.groupby("run")["position"].transform("min")
    rows = world[(world["event"] == "evaluation") & (world["position"] - first < least)]
    who = "The run is not finished" if len(heads) == 1 else f"None of the {len(heads)} runs is finished"
    return rows, [f"{who}; the first {count(least, 'task')}, which all have ended, are compared."]


def _check_complete(rows: pd.DataFrame) -> None:
    """Refuse a finished run without what a run of its kind ends with."""
    for folder, run in rows.groupby("run", sort=False):
        if run["kind"].iloc[0] == "online":
            lacks = "an evaluation" if not run["event"].eq("evaluation").any() else ""
        else:
            tested = tuple(run[run["event"] == "test"]["shots"].astype(int))
            wanted = tuple(run["protocol.test_shots"].iloc[0])
            lacks = f"one test with each of {join(wanted)} shots" if tested != wanted else ""
        if lacks:
            raise DataError(f"{printable(str(folder))} is finished but does not have {lacks}; start it in a new folder")


def _check_duplicates(heads: pd.DataFrame) -> None:
    for _, same in heads.groupby(["method", "seed"]):
        if len(same) > 1:
            one, two = map(printable, same["run"].iloc[:2])
            raise InputError(f"{one} and {two} are the same experiment; give only one of them")


def _check_streams(rows: pd.DataFrame) -> None:
    """Refuse runs of one seed that did not have the same tasks in the same order: their differences mean nothing."""
    streams = task_table(rows).groupby(["seed", "run"], sort=False)["task"].agg(list).reset_index()
    for seed, of_seed in streams.groupby("seed"):
        first, there = of_seed.iloc[0][["run", "task"]]
        for folder, here in zip(of_seed["run"], of_seed["task"], strict=True):
            if here != there:
                pairs = enumerate(zip([*there, "none"], [*here, "none"], strict=False))
                place, (ours, theirs) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
                raise DataError(
                    f"{printable(first)} and {printable(folder)} have the same settings and seed {seed}, but not the "
                    f"same stream: task {place + 1} is {ours!r} in the one and {theirs!r} in the other; compare them "
                    "one at a time"
                )


def _note_seeds(heads: pd.DataFrame) -> list[str]:
    """A sentence if not all methods have the same seeds."""
    seeds = {str(method): sorted(found) for method, found in heads.groupby("method", sort=False)["seed"]}
    if len(set(map(tuple, seeds.values()))) <= 1:
        return []
    listed = "; ".join(f"{method}: {join(found)}" for method, found in list(seeds.items())[:8])
    return [
        f"Not all methods have the same seeds ({listed}); the means, and so the order, are over different seeds. "
        "Differences use the seeds that both have."
    ]


def _explain_difference(row: pd.Series, other: pd.Series) -> str:
    """Why a run is not in the group of another."""
    here, there = ({"data.name": one["data.name"], **_world(one)} for one in (row, other))
    differ = [name for name in here if here[name] != there[name]]
    how = [f"{name} {describe_value(here[name])} instead of {describe_value(there[name])}" for name in differ]
    return f"In a table of their own, as these runs have {how[0] if differ[0] == 'data.name' else ', '.join(how)}."
