"""The figures over shots: accuracy early, middle and late in the stream, and the step sizes that were learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from anyshot.report.online_runs import Group, Run
from anyshot.report.style import Picture, draw, empty, legend

PARTS = {1: ["all"], 2: ["early", "late"], 3: ["early", "middle", "late"]}


def parts(tasks: int) -> list[tuple[str, np.ndarray]]:
    """Names and tasks of the parts of a stream: early, middle, late.

    >>> [(name, list(map(int, which))) for name, which in parts(5)]
    [('early', [0, 1]), ('middle', [2, 3]), ('late', [4])]
    """
    count = min(3, tasks)
    return list(zip(PARTS[count], np.array_split(np.arange(tasks), count), strict=True))


def shots_seen(group: Group) -> list[int]:
    """The numbers of shots that there were evaluations with."""
    return sorted({event["shots"] for run in group.runs for event in run.events})


def score_by_shots(run: Run, tasks: np.ndarray, shots: list[int], measure: str) -> np.ndarray:
    """Mean over tasks of the first evaluation with each number of shots.

    A task that ended before keeps its last value: were it left out, only the hard tasks would count at many shots.
    """
    by_task = run.by_task
    return np.mean([_carried(by_task[task], shots, measure) for task in tasks], axis=0)


def _carried(events: list[dict[str, Any]], shots: list[int], measure: str) -> list[float]:
    first: dict[int, float] = {}
    for event in events:
        first.setdefault(event["shots"], event[measure])
    values, value = [], events[0][measure]
    for count in shots:
        value = first.get(count, value)
        values.append(value)
    return values


def scores(group: Group) -> list[Picture]:
    """Accuracy (or loss) against shots, one figure for each part of the stream, all to the same scale."""
    measure, shots = "accuracy" if group.classification else "loss", shots_seen(group)
    pictures, panels = [], []
    for name, tasks in parts(group.tasks):
        which = f"task {tasks[0] + 1}" if len(tasks) == 1 else f"tasks {tasks[0] + 1} to {tasks[-1] + 1}"
        figure, axes = empty(f"{measure.capitalize()} against shots, {name}: {which}", "shots", f"test {measure}")
        for learner in group.learners:
            runs = group.of(learner).values()
            values = np.array([score_by_shots(run, tasks, shots, measure) for run in runs])
            draw(axes, learner, group.learners, shots, values)
        if group.settings.protocol.measure == measure:
            line = group.settings.protocol.threshold
            axes.axhline(line, color="black", linewidth=0.9, linestyle=(0, (1, 3)), label="mastered")
        _up_to(axes, shots[-1])
        legend(figure, axes)
        panels.append(axes)
        alt = f"Lines: test {measure} against the number of shots in {which}, for each method."
        pictures.append(Picture(f"{measure}-against-shots-{name}", figure, alt))
    top = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(0, 1.03 if measure == "accuracy" else top)
    return pictures


def _up_to(axes: Axes, most: int) -> None:
    """From none to the most."""
    axes.set_xlim(-0.02 * most, 1.02 * most)


def with_rate(group: Group, name: str) -> list[str]:
    """The methods whose events have this rate: alpha, beta or eta."""
    return [learner for learner in group.learners if all(_has(run, name) for run in group.of(learner).values())]


def _has(run: Run, name: str) -> bool:
    return all(task[-1].get(name) is not None for task in run.by_task)


def rate_at_end(run: Run, name: str, task: int) -> Any:
    """The rate alpha (for s = 0..M), beta or eta when a task ended."""
    return run.by_task[task][-1][name]


def moments(tasks: int) -> list[tuple[str, int]]:
    """The first, the middle and the last task.

    >>> moments(5), moments(1)
    ([('first', 0), ('middle', 2), ('last', 4)], [('last', 0)])
    """
    found = {0: "first", (tasks - 1) // 2: "middle", tasks - 1: "last"}
    return [(name, task) for task, name in found.items()]


def alphas(group: Group) -> list[Picture]:
    """The rates alpha_s over s at the end of the first, the middle and the last task, all to the same scale."""
    learners = with_rate(group, "alpha")
    if not learners:
        return []
    pictures, panels = [], []
    for name, task in moments(group.tasks):
        title = rf"Step size $\alpha_s$ after the {name} task ({task + 1})"
        figure, axes = empty(title, "shots s", r"$\alpha_s$")
        for learner in learners:
            runs = group.of(learner).values()
            values = np.array([rate_at_end(run, "alpha", task) for run in runs], float)[:, 1:]
            draw(axes, learner, group.learners, np.arange(1, values.shape[1] + 1), values)
        _up_to(axes, group.settings.protocol.max_shots)
        legend(figure, axes)
        panels.append(axes)
        alt = f"Lines: learned step size against the number of shots after task {task + 1}, for {', '.join(learners)}."
        pictures.append(Picture(f"alpha-{name}", figure, alt))
    top = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(0, top)
    return pictures


def scales(group: Group) -> list[Picture]:
    """Both beta and eta at the end of every task."""
    pictures = []
    for name in ("beta", "eta"):
        learners = with_rate(group, name)
        if not learners:
            continue
        figure, axes = empty(rf"$\{name}$ at the end of each task", "tasks", rf"$\{name}$")
        for learner in learners:
            runs = group.of(learner).values()
            values = np.array([[task[-1][name] for task in run.by_task] for run in runs], float)
            draw(axes, learner, group.learners, np.arange(1, group.tasks + 1), values)
        axes.set_ylim(bottom=0)
        legend(figure, axes)
        alt = f"Lines: learned {name} at the end of each task, for {', '.join(learners)}."
        pictures.append(Picture(name, figure, alt))
    return pictures
