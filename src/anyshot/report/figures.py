"""The figures of a comparison."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anyshot.report.comparison import Comparison
from anyshot.report.groups import Group
from anyshot.report.style import Look, Panel, Picture, choose_looks, share_scale

MOST_METHODS = 10  # in a figure
FAR = 2.0  # a method whose loss is so many times the median leaves no room for the others
PARTS = {1: ["all"], 2: ["early", "late"], 3: ["early", "middle", "late"]}
APART = 0.035  # of the width of a figure between the bars of two methods
SYMBOLS = {"alpha": r"$\alpha$", "beta": r"$\beta$", "eta": r"$\eta$"}


@dataclass(frozen=True)
class Plot:
    """What figures are drawn from.

    Attributes:
        comparison: all methods.
        methods: those that are drawn, best first: the best ones and the reference.
        looks: how they are drawn.
    """

    comparison: Comparison
    methods: list[str]
    looks: dict[str, Look]

    @classmethod
    def of(cls, comparison: Comparison) -> Plot:
        """Choose the methods and their looks."""
        best = comparison.methods[:MOST_METHODS]
        methods = [method for method in comparison.methods if method in best or method == comparison.against]
        return cls(comparison, methods, choose_looks({m: comparison.table["learner"][m] for m in methods}))

    def per_task(self, method: str, column: str) -> pd.DataFrame:
        """A value of every task: one row a seed, one column a task."""
        tasks = self.comparison.group.tasks
        return tasks[tasks["method"] == method].pivot(index="seed", columns="place", values=column).astype(float)


def draw_losses(plot: Plot) -> list[Picture]:
    """Online: cumulative loss, and less that of the reference.

    There is a second figure without the methods that leave no room for the others.
    """
    against, losses = plot.comparison.against, plot.comparison.table.loc[plot.methods, "cumulative_loss_mean"]
    near = [method for method in plot.methods if losses[method] <= FAR * losses.median()]

    def loss(method: str) -> pd.DataFrame:
        return plot.per_task(method, "loss").cumsum(axis=1)

    def less(method: str) -> pd.DataFrame:
        return (loss(method) - loss(against)).dropna()  # the seeds that both have

    pictures = _draw_over_tasks(plot, "Cumulative loss", "sum of test losses", loss)
    if 1 < len(near) < len(plot.methods):
        title = f"Cumulative loss, the best {len(near)}"
        pictures += _draw_over_tasks(plot, title, "sum of test losses", loss, near)
    others = [method for method in plot.methods if method != against]
    title = f"Cumulative loss minus that of {against}"
    return pictures + _draw_over_tasks(plot, title, "difference (below 0: better)", less, others, "difference")


def draw_labels(plot: Plot) -> list[Picture]:
    """Online: labels per task, smoothed, their sum, and the share of tasks that were mastered."""
    tasks = plot.comparison.group.num_tasks
    window = max(1, tasks // 10)
    smooth = f", running mean of {window} tasks" if window > 1 else ""
    return [
        *_draw_over_tasks(
            plot, f"Labels per task{smooth}", "labels", lambda m: plot.per_task(m, "labels").T.rolling(window).mean().T
        ),
        *_draw_over_tasks(plot, "Cumulative labels", "labels", lambda m: plot.per_task(m, "labels").cumsum(axis=1)),
        *_draw_over_tasks(
            plot,
            "Share of tasks mastered so far",
            "share",
            lambda m: plot.per_task(m, "mastered").T.expanding().mean().T,
        ),
    ]


def split_stream(tasks: int) -> list[tuple[str, np.ndarray]]:
    """Names and tasks of the parts of a stream: early, middle, late.

    >>> [(name, list(map(int, which))) for name, which in split_stream(5)]
    [('early', [0, 1]), ('middle', [2, 3]), ('late', [4])]
    """
    number = min(3, tasks)
    return list(zip(PARTS[number], np.array_split(np.arange(tasks), number), strict=True))


def name_tasks(tasks: np.ndarray) -> str:
    """Which tasks these are, counted from 1."""
    return f"task {tasks[0] + 1}" if len(tasks) == 1 else f"tasks {tasks[0] + 1} to {tasks[-1] + 1}"


def scores_by_shots(group: Group) -> pd.DataFrame:
    """Online: the first score of each task with each number of shots: a row for each `method`, `seed` and `place`.

    A task that ended before keeps its last score: were it left out, only the hard tasks would count at many shots.
    Evaluations with more than M shots, of learners that use all labels, are left out.
    """
    rows = group.rows[group.rows["event"] == "evaluation"].astype({"shots": int, group.measure: float})
    rows = rows[~(rows["shots"] > rows.get("protocol.max_shots", math.inf))]
    place = rows.groupby("run")["position"].rank("dense").astype(int) - 1
    first = rows.assign(place=place).groupby(["method", "seed", "place", "shots"])[group.measure].first()
    return first.unstack("shots").ffill(axis=1).bfill(axis=1)


def draw_stream_scores(plot: Plot) -> list[Picture]:
    """Online: accuracy or loss against shots, a figure for each part of the stream, all to the same scale."""
    group = plot.comparison.group
    measure, scores = group.measure, scores_by_shots(group)
    panels = {}
    for name, tasks in split_stream(group.num_tasks):
        title = f"{measure.capitalize()} against shots, {name}: {name_tasks(tasks)}"
        panel = panels[title] = Panel(title, "shots", f"test {measure}")
        for method in plot.methods:
            part = scores.loc[method].query("place in @tasks").groupby("seed").mean()
            panel.line(method, plot.looks[method], part.columns, part.to_numpy())
        threshold = group.setting("protocol.threshold")
        if group.setting("protocol.measure") == measure and isinstance(threshold, float):
            panel.level(threshold, "mastered")
    return share_scale(panels, 1.03 if measure == "accuracy" else None)


def draw_test_scores(plot: Plot) -> list[Picture]:
    """Offline: accuracy or loss of the test against shots, with bars of what ± stands for in the table."""
    comparison, measure = plot.comparison, plot.comparison.group.measure
    unit = ", %" if measure == "accuracy" else ""
    shots = list(comparison.group.setting("protocol.test_shots"))
    tested = [one for one in comparison.measures if one.compared]
    panel = Panel(f"Test {measure} against shots", "shots (square-root scale)", f"test {measure}{unit}")
    places = np.sqrt(shots)  # 0 and 1 shots are far apart in what they mean, 19 and 20 are not
    width = float(places[-1] - places[0]) or 1.0
    for number, (method, row) in enumerate(comparison.table.loc[plot.methods].iterrows()):
        aside = (number - (len(plot.methods) - 1) / 2) * APART * width
        ends = ("mean", "deviation" if row["n"] > 1 else "error")
        mean, error = ([one.scale * row[f"{one.name}_{end}"] for one in tested] for end in ends)
        panel.bars(str(method), plot.looks[str(method)], places + aside, mean, error, row["n"])
    panel.axes.set_xticks(places, [str(number) for number in shots])
    if measure == "loss":
        panel.axes.set_ylim(bottom=0)
    return [panel.picture(f"Test {measure} against shots")]


def draw_validation(plot: Plot) -> list[Picture]:
    """Offline: the mean over numbers of shots in every trial; none without validation tasks."""
    measure = plot.comparison.group.measure
    return _draw_over_steps(plot, "validation", f"Validation {measure} in training", f"validation {measure}")


def list_moments(group: Group) -> dict[str, pd.DataFrame]:
    """When rates are looked at: at the end of the first, middle and last task; offline in the state that was tested.

    Returns:
        One row a run for each moment, such as "after the last task (56)".
    """
    if group.kind == "offline":
        return {"in the state tested": group.trials[group.trials["better"].eq(True)].groupby("run").tail(1)}
    last = group.num_tasks - 1
    moments = {0: "first", last // 2: "middle", last: "last"}
    return {
        f"after the {name} task ({task + 1})": group.tasks[group.tasks["place"] == task]
        for task, name in moments.items()
    }


def rates_of(rows: pd.DataFrame, *, over_shots: bool) -> dict[str, dict[str, np.ndarray]]:
    """The learned rates by name and method, of the methods that have them in all rows.

    Args:
        rows: one or more rows a run.
        over_shots: those with a value for each number of shots, or those of one value.
    """
    found: dict[str, dict[str, np.ndarray]] = {}
    for column in (name for name in rows.columns if name.startswith("rate.")):
        for method, values in rows.groupby("method", sort=False)[column]:
            sizes = {len(rate) if isinstance(rate, tuple) else -int(rate == rate) for rate in values}
            if len(sizes) == 1 and (sizes.pop() > 1 if over_shots else sizes == {-1}):
                found.setdefault(column.removeprefix("rate."), {})[str(method)] = np.array(list(values), float)
    return found


def draw_rates(plot: Plot) -> list[Picture]:
    """Learned rates: those over shots at each moment, all to the same scale, and those of one value over time."""
    group = plot.comparison.group
    unit = "datapoints" if group.setting("protocol.ways") else "shots"  # with ways, a shot is one of each class
    panels: dict[str, Panel] = {}
    for moment, rows in list_moments(group).items():
        for name, rates in rates_of(rows, over_shots=True).items():
            size = f"{_symbol(name)}$_s$"
            panel = Panel(f"Step size {size} {moment}", f"{unit} s", size, formulas=True)
            for method in (method for method in plot.methods if method in rates):
                values = rates[method][:, 1:]  # at zero shots no step is taken
                panel.line(method, plot.looks[method], np.arange(1, values.shape[1] + 1), values)
                panels[f"Step size {name} against shots, {moment}"] = panel
    pictures = share_scale(panels)
    times = group.tasks if group.kind == "online" else group.trials
    for name, rates in rates_of(times, over_shots=False).items():
        column, having = f"rate.{name}", [method for method in plot.methods if method in rates]
        per_task = functools.partial(plot.per_task, column=column)
        if group.kind == "offline":
            pictures += _draw_over_steps(plot, column, f"{_symbol(name)} in training", _symbol(name))
            continue
        title = f"{_symbol(name)} at the end of each task"
        pictures += _draw_over_tasks(plot, title, _symbol(name), per_task, having, name)
    return pictures


def _symbol(name: str) -> str:
    """The paper's symbol of a rate; another name as it is."""
    return SYMBOLS.get(name, name.replace("$", r"\$"))


def _draw_over_tasks(
    plot: Plot,
    title: str,
    y: str,
    values: Callable[[str], pd.DataFrame],
    methods: Sequence[str] | None = None,
    name: str = "",
) -> list[Picture]:
    """A line for each of the methods, by default all; `values` gives one row a seed and one column a task."""
    panel = Panel(title, "tasks", y, formulas="$" in y)
    if y == "share":
        panel.axes.set_ylim(0, 1.03)
    for method in plot.methods if methods is None else methods:
        found = values(method).to_numpy()
        if len(found):
            panel.line(method, plot.looks[method], np.arange(1, found.shape[1] + 1), found)
    return [panel.picture(title, name)] if panel.entries else []


def _draw_over_steps(plot: Plot, column: str, title: str, y: str) -> list[Picture]:
    """Offline: a line for each run against steps, with a marker at the state that was kept."""
    panel = Panel(title, "meta-training steps", y, formulas=True)
    trials = plot.comparison.group.trials
    for method in plot.methods:
        found = trials[(trials["method"] == method) & trials[column].notna()].astype({column: float})
        runs = [run for _, run in found.groupby("run", sort=False)]
        best = [run[run["better"].eq(True)] if run["better"].eq(True).any() else run for run in runs]
        kept = [run[["step", column]].to_numpy(float)[-1] for run in best]
        if runs:
            panel.runs(method, plot.looks[method], [(run["step"], run[column]) for run in runs], kept)
    return [panel.picture(title, column.removeprefix("rate."))] if panel.entries else []
