"""The figures of offline runs: accuracy against shots (the paper's table 1), training, and the learned step sizes."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from anyshot.report.offline_comparison import OfflineComparison
from anyshot.report.offline_runs import OfflineGroup
from anyshot.report.offline_tables import rounding, with_error
from anyshot.report.style import Picture, draw, draw_bars, draw_each, empty, legend

APART = 0.035  # of the figure's width between the bars of two methods


def scores(comparison: OfflineComparison) -> list[Picture]:
    """Test accuracy (or loss) against the number of shots, with bars of what ± stands for in the table."""
    group = comparison.group
    scale, _ = rounding(comparison)
    unit = ", %" if group.measure == "accuracy" else ""
    figure, axes = empty(
        f"Test {group.measure} against shots", "shots (square-root scale)", f"test {group.measure}{unit}"
    )
    places = np.sqrt(group.shots)  # 0 and 1 shots are far apart in what they mean, 19 and 20 are not
    width = float(places[-1] - places[0]) or 1.0
    for number, row in enumerate(comparison.rows):
        aside = (number - (len(comparison.rows) - 1) / 2) * APART * width
        found = [(scale * value.mean, scale * (value.deviation or 0.0)) for value in with_error(row)]
        mean, error = np.transpose(found)
        draw_bars(axes, row.learner, group.learners, places + aside, mean, error, len(row.seeds))
    axes.set_xticks(places, [str(shots) for shots in group.shots])
    if group.measure == "loss":
        axes.set_ylim(bottom=0)
    legend(figure, axes)
    alt = f"Points with error bars: test {group.measure} against the number of shots, for each method."
    return [Picture(f"{group.measure}-against-shots", figure, alt)]


def validation(group: OfflineGroup) -> list[Picture]:
    """The mean over the numbers of shots in every trial against steps; none without validation tasks."""
    scale, unit = (100, ", %") if group.measure == "accuracy" else (1, "")
    curves = {
        learner: [np.transpose(run.validation) * [[1], [scale]] for run in group.of(learner).values()]
        for learner in group.learners
        if all(run.validation for run in group.of(learner).values())
    }
    if not curves:
        return []
    label = f"validation {group.measure}{unit}"
    picture = _over_steps(group, curves, f"Validation {group.measure} in training", label)
    alt = f"Lines: validation {group.measure} against meta-training steps, one for each run; the step kept is marked."
    return [Picture("validation", picture, alt)]


def with_rate(group: OfflineGroup, name: str) -> list[str]:
    """The methods that have this rate: alpha, beta or eta."""
    return [
        learner
        for learner in group.learners
        if all(run.best and run.best.get(name) is not None for run in group.of(learner).values())
    ]


def rates_kept(group: OfflineGroup, learner: str, name: str) -> np.ndarray:
    """The rate alpha (for s = 0..M), beta or eta of what was kept and tested: one row for each seed."""
    return np.array([run.best[name] for run in group.of(learner).values() if run.best], float)


def alphas(group: OfflineGroup) -> list[Picture]:
    """The rates alpha_s over s of what was kept."""
    learners = with_rate(group, "alpha")
    if not learners:
        return []
    figure, axes = empty(r"Step size $\alpha_s$ after training", f"{unit_of_shots(group)} s", r"$\alpha_s$")
    for learner in learners:
        values = rates_kept(group, learner, "alpha")[:, 1:]
        draw(axes, learner, group.learners, np.arange(1, values.shape[1] + 1), values)
    axes.set_ylim(bottom=0)
    legend(figure, axes)
    alt = f"Lines: learned step size against the number of {unit_of_shots(group)}, for {', '.join(learners)}."
    return [Picture("alpha", figure, alt)]


def unit_of_shots(group: OfflineGroup) -> str:
    """What s counts: with classes numbered anew in each episode a shot is one datapoint of each."""
    return "datapoints" if group.settings.plan.ways else "shots"


def scales(group: OfflineGroup) -> list[Picture]:
    """Both beta and eta against steps."""
    pictures = []
    for name in ("beta", "eta"):
        learners = with_rate(group, name)
        if not learners:
            continue
        curves = {
            learner: [
                np.transpose([(trial["step"], trial[name]) for trial in run.trials if trial.get(name) is not None])
                for run in group.of(learner).values()
            ]
            for learner in learners
        }
        figure = _over_steps(group, curves, rf"$\{name}$ in training", rf"$\{name}$")
        alt = f"Lines: learned {name} against meta-training steps, one for each run of {', '.join(learners)}."
        pictures.append(Picture(name, figure, alt))
    return pictures


def _over_steps(group: OfflineGroup, curves: dict[str, list[np.ndarray]], title: str, label: str) -> Figure:
    """Lines against steps, one for each run, with a marker where the best trial was."""
    figure, axes = empty(title, "meta-training steps", label)
    for learner, lines in curves.items():
        kept = []
        for run, (steps, values) in zip(group.of(learner).values(), lines, strict=True):
            best = run.best["step"] if run.best else steps[-1]
            kept.append((best, values[np.flatnonzero(steps == best)[-1]]))
        draw_each(axes, learner, group.learners, lines, kept)
    bottom, top = axes.get_ylim()
    axes.set_ylim(min(0.0, bottom), top)
    legend(figure, axes)
    return figure
