"""Methods compared over seeds, with paired differences to a reference."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from anyshot.errors import DataError, InputError
from anyshot.report.groups import Group, group_runs
from anyshot.report.statistics import Difference
from anyshot.report.words import count, join, printable
from anyshot.runs.table import EVENT, RUN, read_runs, run_table

REFERENCE = {"online": "toe", "offline": "maml"}  # the learner that the paper compares with
ENDS = ["mean", "low", "high", "p"]
SHARE = "share_of_constant"  # the loss in a regression, divided by that of the best constant prediction
Runs = pd.DataFrame | str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Measure:
    """One value of each run.

    Attributes:
        name: in tables for programs, such as "cumulative_loss".
        heading: in tables for people.
        digits: after the decimal point.
        scale: what values are multiplied with before they are shown.
        higher_is_better: whether more of it is better.
        compared: whether differences to the reference are taken.
    """

    name: str
    heading: str
    digits: int
    scale: int = 1
    higher_is_better: bool = False
    compared: bool = True


@dataclass(frozen=True)
class Comparison:
    """The methods of one group of runs, best first.

    Attributes:
        title: what they are runs of.
        kind: online or offline.
        against: the method that differences are taken to.
        table: one row a method, best first, with its `learner`, the number of seeds `n`, and for each measure
            NAME_mean and NAME_deviation (over seeds); offline also NAME_error, the largest standard error over test
            episodes.
        differences: to the reference, over the seeds that both have, one row a method and measure: `method`,
            `measure`, `mean`, `low` and `high` (95 % interval, Student's t), `p` (paired t test), `n` (pairs).
        notes: sentences that a reader should know.
        measures: what the columns are.
        group: the runs.
    """

    title: str
    kind: str
    against: str
    table: pd.DataFrame
    differences: pd.DataFrame
    notes: tuple[str, ...]
    measures: tuple[Measure, ...] = field(repr=False)
    group: Group = field(repr=False)

    @property
    def methods(self) -> list[str]:
        """The methods, best first."""
        return list(self.table.index)

    def difference(self, method: str, measure: str) -> Difference | None:
        """The difference of a method to the reference; None if they have no seed in common."""
        rows = self.differences.query("method == @method and measure == @measure")
        if rows.empty:
            return None
        mean, low, high, p = (None if pd.isna(end) else float(end) for end in rows.iloc[0][ENDS])
        return Difference(mean or 0.0, low, high, p, int(rows["n"].iloc[0]))

    def format(self, form: str = "text") -> str:
        """The tables and notes as text, csv, json, markdown or latex."""
        from anyshot.report.formats import format_comparisons

        return format_comparisons([self], form)

    def __str__(self) -> str:
        return self.format()


def compare(runs: Runs, against: str | None = None) -> list[Comparison]:
    """Compare methods over seeds: one comparison for each group of runs that saw the same tasks under the same rules.

    A method is a learner with its settings, so that runs of one learner with different settings are ranked, too. Runs
    that are not finished are named and left out, unless none is finished: then the tasks that all have ended are
    compared.

    Args:
        runs: a table that `read_runs` gave, or run folders, or folders that hold run folders.
        against: the learner or method that differences are taken to, where it is; by default toe online and maml
            offline, else the best one.

    Raises:
        DataError: a folder is damaged, or there is nothing to compare yet.
        InputError: there are no runs, the same experiment is there twice, or `against` is not there.
    """
    table = runs if isinstance(runs, pd.DataFrame) else read_runs(runs)
    missing = [name for name in [*RUN, *EVENT, "tasks.fingerprint", "data.name"] if name not in table]
    if missing or table.empty:
        lacks = f"has no column {missing[0]!r}" if missing else "is empty"
        raise InputError(f"runs must be a table of runs that read_runs gave, but it {lacks}")
    groups, waiting = group_runs(table)
    if not groups:
        raise DataError(waiting[0])
    known = dict.fromkeys(
        printable(name) for group in groups for name in [*group.runs["learner"], *group.runs["method"]]
    )
    if against is not None and against not in known:
        raise InputError(f"against must be one of the learners or methods here ({', '.join(known)}), got {against!r}")
    left_out = tuple(f"Left out: {sentence}." for sentence in waiting)
    groups[-1] = dataclasses.replace(groups[-1], notes=(*groups[-1].notes, *left_out))
    return [_compare(group, against) for group in groups]


def last_quarter(tasks: int) -> int:
    """How many tasks the last quarter of a stream has.

    >>> last_quarter(56), last_quarter(5), last_quarter(1)
    (14, 2, 1)
    """
    return -(-tasks // 4)


def _compare(group: Group, wanted: str | None) -> Comparison:
    measures, values, errors = _measure_online(group) if group.kind == "online" else _measure_offline(group)
    values = group.runs[["method", "learner", "seed"]].join(values)
    by_method, better = values.groupby("method"), measures[0].higher_is_better
    ranked = [measure.name for measure in measures if measure.compared][: 1 if group.kind == "online" else None]
    scores = by_method[ranked].mean().mean(axis=1).sort_index()
    methods = [str(method) for method in scores.sort_values(ascending=not better, kind="stable").index]
    table = pd.DataFrame({"learner": by_method["learner"].first().map(printable), "n": by_method.size()}).loc[methods]
    for name in (measure.name for measure in measures):
        table[f"{name}_mean"], table[f"{name}_deviation"] = by_method[name].mean(), by_method[name].std()
        if name in errors:
            table[f"{name}_error"] = errors[name].groupby(values["method"]).max()
    named = [m for name in (wanted, REFERENCE[group.kind]) for m in methods if name in (m, table["learner"][m])]
    against = wanted if wanted in methods else (named or methods)[0]
    differences = _take_differences(values, methods, against, [one.name for one in measures if one.compared])
    notes = (*group.notes, *_note_errors(group, values, errors), *_note_pairs(methods, against, differences))
    return Comparison(group.title, group.kind, against, table, differences, notes, tuple(measures), group)


def _measure_online(group: Group) -> tuple[list[Measure], pd.DataFrame, pd.DataFrame]:
    values = run_table(group.rows).set_index("run")
    last, zero_shot = last_quarter(group.num_tasks), f"zero_shot_{group.measure}"
    late = group.tasks[group.tasks["place"] >= group.num_tasks - last]
    values[zero_shot] = late.groupby("run")[zero_shot].mean().astype(float)
    accuracy = group.measure == "accuracy"
    digits = 3 if accuracy else _choose_digits(values[zero_shot].min())
    heading = f"zero-shot {group.measure}, last {count(last, 'task')}"
    values[SHARE] = values["cumulative_loss"] / values["constant_loss"]
    shares = [Measure(SHARE, "share of a constant's", 3, compared=False)] if values[SHARE].notna().all() else []
    measures = [
        Measure("cumulative_loss", "cumulative loss", max(1, _choose_digits(values["cumulative_loss"].min()))),
        *shares,
        Measure("labels", "labels", 0),
        Measure("test_labels", "hidden test labels", 0, compared=False),
        Measure("mastered", "tasks mastered", 1, higher_is_better=True, compared=False),
        Measure(zero_shot, heading, digits, higher_is_better=accuracy, compared=False),
    ]
    return measures, values[[measure.name for measure in measures]].astype(float), pd.DataFrame(index=values.index)


def _measure_offline(group: Group) -> tuple[list[Measure], pd.DataFrame, pd.DataFrame]:
    tests = group.rows[group.rows["event"] == "test"].astype({"shots": int})
    columns = (group.measure, f"{group.measure}_error")
    values, errors = (tests.pivot(index="run", columns="shots", values=name).astype(float) for name in columns)
    accuracy = group.measure == "accuracy"
    digits, scale = (1, 100) if accuracy else (_choose_digits(values.min().min()), 1)
    names = [f"{group.measure}_at_{shots}_shots" for shots in values.columns]
    headings = [count(int(shots), "shot") for shots in values.columns]
    measures = [Measure(name, head, digits, scale, accuracy) for name, head in zip(names, headings, strict=True)]
    constants = tests.pivot(index="run", columns="shots", values="constant_loss").astype(float)
    values, errors = values.set_axis(names, axis=1), errors.set_axis(names, axis=1)
    if not constants.isna().any(axis=None):
        shares = [f"{SHARE}_at_{shots}_shots" for shots in constants.columns]
        values[shares] = values[names].to_numpy() / constants.to_numpy()
        heads = [f"share of a constant's, {heading}" for heading in headings]
        measures += [Measure(name, head, 3, compared=False) for name, head in zip(shares, heads, strict=True)]
    return measures, values, errors


def _choose_digits(smallest: float) -> int:
    """Digits after the decimal point that show four figures of the smallest value."""
    return min(9, max(0, 3 - math.floor(math.log10(abs(smallest))))) if smallest else 3


def _take_differences(values: pd.DataFrame, methods: list[str], against: str, names: list[str]) -> pd.DataFrame:
    rows = []
    for method in methods:
        for name in names:
            by_seed = values.pivot(index="seed", columns="method", values=name)
            pairs = (by_seed[method] - by_seed[against]).dropna()
            if method != against and len(pairs):
                rows.append({"method": method, "measure": name, **dataclasses.asdict(Difference.of(list(pairs)))})
    return pd.DataFrame(rows, columns=["method", "measure", *ENDS, "n"]).astype(dict.fromkeys(ENDS, float))


def _note_pairs(methods: list[str], against: str, differences: pd.DataFrame) -> list[str]:
    """Where a difference or its interval is missing."""
    others = [method for method in methods if method != against]
    if not others:
        return [f"There is only one method, {against}, so there is nothing to compare it with."]
    pairs = dict(zip(differences["method"], differences["n"], strict=True))
    single, none = ([method for method in others if pairs.get(method, 0) == n] for n in (1, 0))
    notes = [f"One seed in common with {against} gives no interval: {join(single)}."] if single else []
    return notes + ([f"No seed in common with {against}, so no difference: {join(none)}."] if none else [])


def _note_errors(group: Group, values: pd.DataFrame, errors: pd.DataFrame) -> list[str]:
    """The tests that ended at their largest number of episodes before they were as certain as asked for."""
    if errors.columns.empty:
        return []
    accuracy = group.measure == "accuracy"
    worst = (100 * errors / (1.0 if accuracy else values[errors.columns].abs())).max(axis=1)
    wanted = {run: row.get("protocol.standard_error") for run, row in group.runs.iterrows()}
    found = [
        f"{values['method'][run]} seed {values['seed'][run]}: {worst[run]:.2f}"
        for run in worst.index
        if isinstance(wanted[run], (int, float)) and worst[run] > wanted[run]
    ]
    above = f"The standard error over test episodes, in {'points' if accuracy else 'percent'}, is above"
    listed = f"protocol.standard_error, as the test ended at protocol.max_episodes ({', '.join(found)})."
    return [f"{above} {listed}"] if found else []
