"""What a page says of one comparison: findings, tables and figures, each part with a heading."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from anyshot.errors import DataError, InputError
from anyshot.report import figures
from anyshot.report.comparison import Comparison, Measure
from anyshot.report.figures import Plot, name_tasks, split_stream
from anyshot.report.formats import Table, describe_spread, mean_cell
from anyshot.report.methods import describe_value, is_missing, read_record
from anyshot.report.statistics import Difference
from anyshot.report.style import Picture
from anyshot.report.tasks_sheet import draw_tasks
from anyshot.report.words import count, join, printable
from anyshot.runs.naming import command
from anyshot.runs.reading import read_environment

VERSIONS = ("anyshot", "jax", "numpy", "python")
SHOTS = (
    "Each point is the first evaluation of a task with so many shots. A task that was not evaluated with so many, for "
    "instance as it ended before, has the value with the next fewer. Learners from scratch have all labels as shots."
)
HIDDEN = (
    "Labels are those that learners learn from. Each task also has {} hidden test labels, which say whether it is "
    "mastered. The first table counts them in a column of their own."
)
RATES = "Of a method with a step size for every parameter, the mean over parameters is shown."


@dataclass(frozen=True)
class Section:
    """A heading with what belongs to it; `commands` are shown as they are, `layout` is a CSS class of pictures."""

    heading: str
    text: str = ""
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    layout: str = "figures"
    folded: bool = False


def describe_findings(comparison: Comparison) -> list[str]:
    """How many runs there are; then, for each measure, the best method and its difference to the reference."""
    seeds = sorted(comparison.group.runs["seed"].unique())
    runs, methods = count(len(comparison.group.runs), "run"), count(len(comparison.methods), "method")
    measures = [measure for measure in comparison.measures if measure.compared and len(comparison.methods) > 1]
    best = [_describe_best(comparison, measure) for measure in measures]
    return [f"{runs}: {methods}, seed{'s' * (len(seeds) > 1)} {join(seeds)}.", *best]


def describe_interval(difference: Difference) -> str:
    """Whether the interval of a difference excludes zero.

    >>> describe_interval(Difference(2.0, -0.5, 4.5, 0.08, 3)), describe_interval(Difference.of([1.0]))
    ('95 % interval includes 0 (n = 3)', 'no interval (n = 1)')
    """
    if difference.low is None:
        return f"no interval (n = {difference.n})"
    return f"95 % interval {'excludes' if difference.excludes_zero else 'includes'} 0 (n = {difference.n})"


def _describe_best(comparison: Comparison, measure: Measure) -> str:
    means = comparison.table[f"{measure.name}_mean"]
    best = str(means.idxmax() if measure.higher_is_better else means.idxmin())
    what = measure.heading if comparison.kind == "online" else f"{comparison.group.measure} with {measure.heading}"
    extreme = "Highest" if measure.higher_is_better else "Lowest"
    sentence = f"{extreme} mean {what}: {best}, {mean_cell(comparison, best, measure)}"
    found = comparison.difference(best, measure.name)
    if found is None:  # it is the reference, or has no seed in common with it
        return f"{sentence}."
    mean = f"{measure.scale * found.mean:+,.{measure.digits}f}"
    return f"{sentence}; difference to {comparison.against} {mean}, {describe_interval(found)}."


def make_sections(comparison: Comparison) -> list[Section]:
    """All sections of a comparison."""
    plot, group = Plot.of(comparison), comparison.group
    rates = Section("Learned step sizes", RATES, _table_rates(comparison), figures.draw_rates(plot))
    if comparison.kind == "online":
        paired, labels = "Differences are on the same streams, seed by seed.", _table_labels(comparison)
        hidden = HIDDEN.format(f"{int(group.setting('protocol.test_size')):,}")
        drawn = [
            Section("Cumulative loss", paired, [], figures.draw_losses(plot)),
            Section("Labels and tasks mastered", hidden, [labels], figures.draw_labels(plot)),
            Section("Scores against shots", SHOTS, [_table_shots(comparison)], figures.draw_stream_scores(plot)),
            rates,
        ]
    else:
        bars = f"Points and bars: {describe_spread(comparison)}. Methods are drawn side by side."
        kept = "The state with the best mean score on the validation tasks is kept and tested."
        if group.setting("protocol.validation_tasks") == "all":
            kept = "The state with the best mean score on held examples of the training tasks is kept and tested."
        if not group.setting("protocol.validation_tasks"):
            kept = "There are no validation tasks: the state after the last step is tested."
        drawn = [
            Section("Scores against shots", bars, [], figures.draw_test_scores(plot)),
            rates,
            Section("Training", kept, [_table_training(comparison)], figures.draw_validation(plot)),
        ]
    drawn = [section for section in drawn if section.pictures or section.tables]
    if len(plot.methods) < len(comparison.methods):
        shown = f"Figures show the reference and the best of {len(comparison.methods)} methods."
        drawn.insert(0, Section("Figures", shown))
    return [*drawn, _show_tasks(comparison), *_describe_runs(comparison)]


def _tabulate(caption: str, comparison: Comparison, frame: pd.DataFrame) -> Table:
    """A table of numbers whose index is the methods."""
    frame = frame.loc[[method for method in comparison.methods if method in frame.index]]
    cells = [["" if value != value else f"{value:,.4g}" for value in row] for row in frame.to_numpy(float)]
    rows = [[str(method), *row] for method, row in zip(frame.index, cells, strict=True)]
    return Table(caption, ["method", *map(str, frame.columns)], rows)


def _table_labels(comparison: Comparison) -> Table:
    tasks = comparison.group.tasks
    parts = {
        f"{name}, {name_tasks(which)}": tasks[tasks["place"].isin(which)].groupby("method")["labels"].mean()
        for name, which in split_stream(comparison.group.num_tasks)
    }
    return _tabulate("Labels per task, mean over tasks and seeds", comparison, pd.DataFrame(parts))


def _table_shots(comparison: Comparison) -> Table:
    group, (_, late) = comparison.group, split_stream(comparison.group.num_tasks)[-1]
    scores = figures.scores_by_shots(group).query("place in @late").groupby("method").mean()
    few = scores.iloc[:, :: max(1, (len(scores.columns) - 1) // 4)]
    few = few.rename(columns=lambda shots: count(int(shots), "shot"))
    return _tabulate(f"Test {group.measure}, mean over {name_tasks(late)} and seeds", comparison, few)


def _table_rates(comparison: Comparison) -> list[Table]:
    """The learned rates in the end; no table if no method has any."""
    moment, rows = list(figures.list_moments(comparison.group).items())[-1]
    columns: dict[str, dict[str, float]] = {}
    for name, rates in figures.rates_of(rows, over_shots=True).items():
        for method, values in rates.items():
            for shots in (1, values.shape[1] - 1):
                columns.setdefault(f"{name} at s = {shots}", {})[method] = values[:, shots].mean()
    for name, rates in figures.rates_of(rows, over_shots=False).items():
        columns[name] = {method: values.mean() for method, values in rates.items()}
    caption = f"Learned rates {moment}, mean over seeds"
    return [_tabulate(caption, comparison, pd.DataFrame(columns))] if columns else []


def _table_training(comparison: Comparison) -> Table:
    rows = []
    for (method, seed), run in comparison.group.rows.groupby(["method", "seed"]):
        numbers = [run["step"].max(), run[run["better"].eq(True)]["step"].max(), run["episodes"].max()]
        rows.append([str(method), str(seed), *(f"{n:,.0f}" if n == n else "none" for n in numbers)])
    return Table("Runs", ["method", "seed", "steps trained", "step kept", "test episodes"], rows)


def _show_tasks(comparison: Comparison) -> Section:
    record = read_record(comparison.group.runs["run"].iloc[0])
    try:
        if record is None:
            raise DataError("the run folder is not here")
        picture = draw_tasks(record.tasks)
    except (DataError, InputError) as why:
        return Section("The tasks", f"They cannot be shown: {why}.")
    return Section("The tasks", "Some tasks, each with some examples.", [], [picture], layout="scroll sheet")


def _describe_runs(comparison: Comparison) -> list[Section]:
    """Where the runs were made, their settings, and the commands that make them again."""
    runs = comparison.group.runs
    made: list[list[str]] = []
    commands: list[str] = []
    in_python: list[str] = []
    for folder, method, seed in zip(runs["run"], runs["method"], runs["seed"], strict=True):
        opened, record = read_environment(Path(folder)), read_record(folder)
        versions = [", ".join(f"{name} {one[name]}" for name in VERSIONS if name in one) for one in opened]
        where = [[one.get("device", "") for one in opened], [one.get("opened", "") for one in opened], versions]
        made.append([method, str(seed), *("; ".join(_distinct(values)) for values in where), printable(folder)])
        line = record and command(record, folder)
        (commands if line else in_python).append(printable(line or folder))
    names = [str(name) for name in runs if "." in str(name) and not str(name).startswith(("train.", "rate."))]
    values = {n: _distinct([describe_value(v) for v in runs[n] if not is_missing(v)]) for n in names}
    settings = Table("", ["setting", "value"], [[printable(n), ", ".join(v)] for n, v in values.items() if v])
    again = ["anyshot", "report", *runs["run"], "--against", comparison.against, "--out", "report.html"]
    commands.append(printable(shlex.join(again)))
    python = f"Made in Python, so no command makes them again: {', '.join(in_python)}." if in_python else ""
    return [
        Section("Runs", "", [Table("", ["method", "seed", "device", "opened", "versions", "folder"], made)]),
        Section("Settings", "Several values where methods differ.", [settings], folded=True),
        Section("How to reproduce it", python, commands=commands),
    ]


def _distinct(values: list[object] | list[str]) -> list[str]:
    return list(dict.fromkeys(printable(str(value))[:200] for value in values if value))
