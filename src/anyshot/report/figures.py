"""The figures over tasks: cumulative loss, its differences (paper, appendix E), labels, tasks mastered."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anyshot.online.ledger import TaskEntry
from anyshot.report.online_comparison import shared
from anyshot.report.online_runs import Group, Run
from anyshot.report.style import Picture, draw, empty, legend


def per_task(group: Group, learner: str, value: Callable[[TaskEntry], float]) -> np.ndarray:
    """A number of every task: one row for each seed."""
    return np.array([_values(run, value) for run in group.of(learner).values()])


def losses(group: Group) -> list[Picture]:
    """Cumulative loss against tasks; again without TOE where it leaves no room for the others."""
    pictures = [_losses(group, group.learners, "cumulative-loss", "Cumulative loss")]
    others = [learner for learner in group.learners if learner != "toe"]
    if "toe" in group.learners and len(others) > 1:
        pictures.append(_losses(group, others, "cumulative-loss-without-toe", "Cumulative loss, without TOE"))
    return pictures


def loss_differences(group: Group) -> list[Picture]:
    """Cumulative loss less that of TOE and of FTML on the same streams."""
    pictures = []
    for against in ("toe", "ftml"):
        if against not in group.learners:
            continue
        # TOE less FTML is FTML less TOE upside down, and leaves no room for the others.
        pairs = {learner: shared(group, learner, against) for learner in group.learners if learner != against}
        pairs = {learner: seeds for learner, seeds in pairs.items() if seeds and learner != "toe"}
        if pairs:
            pictures.append(_difference(group, against, pairs))
    return pictures


def labels(group: Group) -> list[Picture]:
    """Labels per task, smoothed, and in all."""
    window = max(1, group.tasks // 10)
    smooth = f", running mean of {window} tasks" if window > 1 else ""
    figure, axes = empty(f"Labels per task{smooth}", "task", "labels")
    for learner in group.learners:
        values = per_task(group, learner, lambda task: task.labels)
        draw(axes, learner, group.learners, np.arange(window, group.tasks + 1), _running_mean(values, window))
    axes.set_ylim(bottom=0)
    legend(figure, axes)
    alt = f"Lines: labels received per task{smooth}, against the task's place in the stream, for each method."
    in_all, axes = empty("Cumulative labels", "tasks", "labels so far")
    for learner in group.learners:
        values = per_task(group, learner, lambda task: task.labels)
        draw(axes, learner, group.learners, _count(group), values.cumsum(axis=1))
    axes.set_ylim(bottom=0)
    legend(in_all, axes)
    all_alt = "Lines: labels received so far against the number of tasks, for each method."
    return [Picture("labels-per-task", figure, alt), Picture("cumulative-labels", in_all, all_alt)]


def mastered(group: Group) -> list[Picture]:
    """The share of the tasks so far that were mastered."""
    figure, axes = empty("Share of tasks mastered so far", "tasks", "share mastered")
    for learner in group.learners:
        values = per_task(group, learner, lambda task: task.mastered)
        draw(axes, learner, group.learners, _count(group), values.cumsum(axis=1) / _count(group))
    axes.set_ylim(-0.03, 1.03)
    legend(figure, axes)
    return [Picture("mastered", figure, "Lines: share of the tasks so far that were mastered, for each method.")]


def _losses(group: Group, learners: list[str], name: str, title: str) -> Picture:
    figure, axes = empty(title, "tasks", "sum of test losses")
    for learner in learners:
        values = per_task(group, learner, lambda task: task.loss).cumsum(axis=1)
        draw(axes, learner, group.learners, _count(group), values)
    axes.set_ylim(bottom=0)
    legend(figure, axes)
    alt = f"Lines: cumulative loss against the number of tasks for {', '.join(learners)}."
    return Picture(name, figure, alt)


def _difference(group: Group, against: str, pairs: dict[str, list[int]]) -> Picture:
    figure, axes = empty(f"Cumulative loss minus that of {against.upper()}", "tasks", "difference (below 0: better)")
    axes.axhline(0, color="black", linewidth=0.9)
    theirs = group.of(against)
    for learner, seeds in pairs.items():
        ours = group.of(learner)
        values = np.array([_loss(ours[seed]) - _loss(theirs[seed]) for seed in seeds]).cumsum(axis=1)
        draw(axes, learner, group.learners, _count(group), values)
    legend(figure, axes)
    alt = f"Lines: cumulative loss less that of {against} on the same streams, for {', '.join(pairs)}."
    return Picture(f"difference-to-{against}", figure, alt)


def _loss(run: Run) -> np.ndarray:
    return np.array(_values(run, lambda task: task.loss))


def _values(run: Run, value: Callable[[TaskEntry], float]) -> list[float]:
    return [float(value(task)) for task in run.ledger.tasks]


def _count(group: Group) -> np.ndarray:
    return np.arange(1, group.tasks + 1)


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    return (sums[:, window:] - sums[:, :-window]) / window
