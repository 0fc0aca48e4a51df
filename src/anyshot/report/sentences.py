"""What one sees, in plain sentences computed from the numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anyshot.report.formats import spread
from anyshot.report.online_comparison import Comparison, Row, cumulative_loss, difference, labels, shared
from anyshot.report.online_runs import Group, Run
from anyshot.report.shot_figures import moments, parts, rate_at_end, score_by_shots, shots_seen, with_rate
from anyshot.report.spread import Spread
from anyshot.report.wording import certainty, counted, listed


def overview(comparison: Comparison) -> list[str]:
    """What was compared, and what came out in loss and labels."""
    group = comparison.group
    seeds = sorted({run.seed for run in group.runs})
    each = "with one seed" if len(seeds) == 1 else f"with {len(seeds)} seeds"
    learners = listed(group.learners)
    found = [f"{learners} on {counted(group.tasks, 'task')}, {each} ({listed(seeds)}): {len(group.runs)} runs in all."]
    if len(group.runs) == 1:
        found[0] = f"One run of {learners} on {counted(group.tasks, 'task')}, seed {seeds[0]}."
    if len(seeds) == 1:
        found.append("One seed is one stream and one draw of the weights: what is seen here may be chance.")
    if len(group.learners) > 1:
        found += _best(comparison, "cumulative loss", lambda row: row.loss, cumulative_loss, 1)
        found += _best(comparison, "number of labels", lambda row: row.labels, labels, 0)
    return found


def _best(
    comparison: Comparison, what: str, of: Callable[[Row], Spread], value: Callable[[Run], float], digits: int
) -> list[str]:
    group = comparison.group
    best = min(comparison.rows, key=lambda row: of(row).mean)
    over = f"over {counted(len(best.seeds), 'seed')}" if len(best.seeds) > 1 else "with one seed"
    found = [f"{best.learner} has the lowest mean {what}: {spread(of(best), digits)} {over}."]
    for against in ("ftml", "toe"):
        if against in group.learners and against != best.learner:
            found.append(_against(group, best.learner, against, value, digits))
    return [" ".join(found)]


def _against(group: Group, learner: str, against: str, value: Callable[[Run], float], digits: int) -> str:
    seeds = shared(group, learner, against)
    if not seeds:
        return f"It has no seed in common with {against}."
    less = difference(group, learner, against, value)
    whole = float(np.mean([value(group.of(against)[seed]) for seed in seeds]))
    share = f" ({100 * abs(less.mean) / abs(whole):.1f} %)" if whole else ""
    side = "below" if less.mean < 0 else "above"
    told = f"On the same streams it is {abs(less.mean):,.{digits}f}{share} {side} {against}"
    certain = certainty(less, digits)
    if not certain:
        return f"{told}, with one seed (seed {seeds[0]}), which gives no interval."
    return f"{told} on average over {len(seeds)} seeds; {certain}."


def on_differences(group: Group) -> str:
    """What the figures of differences show, and what they cannot."""
    found = "On the same streams, seed by seed. Below zero the method has lost less than the reference so far."
    missing = [
        f"{name} and {against}"
        for against in ("toe", "ftml")
        for name in group.learners
        if against in group.learners and name not in (against, "toe") and not shared(group, name, against)
    ]
    return found + (f" Not shown, as they have no seed in common: {'; '.join(missing)}." if missing else "")


def on_labels(group: Group) -> str:
    """What a task costs in the last part of the stream."""
    name, tasks = parts(group.tasks)[-1]
    told = []
    for learner in group.learners:
        runs = group.of(learner).values()
        mean = np.mean([[run.ledger.tasks[task].labels for task in tasks] for run in runs])
        told.append(f"{learner} {mean:,.0f}")
    where = "Over the stream" if name == "all" else f"In the last {_part(group.tasks)} of the stream"
    return f"{where} a task took, in labels, on average: {', '.join(told)}."


def on_mastered(comparison: Comparison) -> str:
    """How many tasks each method mastered."""
    tasks = comparison.group.tasks
    told = [f"{row.learner} {100 * row.mastered.mean / tasks:.0f} %" for row in comparison.rows]
    return f"Of {counted(tasks, 'task')} were mastered, on average over seeds: {', '.join(told)}."


def on_shots(group: Group) -> str:
    """What shots bring to each method in the last part of the stream."""
    measure, shots = "accuracy" if group.classification else "loss", shots_seen(group)
    name, tasks = parts(group.tasks)[-1]
    told = []
    for learner in group.learners:
        runs = group.of(learner).values()
        values = np.mean([score_by_shots(run, tasks, shots, measure) for run in runs], axis=0)
        told.append(f"{learner} from {values[0]:.2f} to {values[-1]:.2f}")
    where = "Over the stream" if name == "all" else f"In the last {_part(group.tasks)} of the stream"
    return f"{where}, from {shots[0]} to {shots[-1]} shots, mean test {measure} goes: {', '.join(told)}."


def on_rates(group: Group) -> str:
    """What became of the step sizes."""
    learners = with_rate(group, "alpha")
    if not learners:
        return "None of these methods has an inner step size."
    last = moments(group.tasks)[-1][1]
    told = []
    for learner in learners:
        runs = group.of(learner).values()
        alpha = np.mean([rate_at_end(run, "alpha", last) for run in runs], axis=0)
        words = f"{learner} has alpha {alpha[1]:.3g} at 1 shot and {alpha[-1]:.3g} at {len(alpha) - 1} shots"
        for rate in ("beta", "eta"):
            if learner in with_rate(group, rate):
                words += f", {rate} {np.mean([rate_at_end(run, rate, last) for run in runs]):.3g}"
        told.append(words)
    return f"After the last task {'; '.join(told)} (means over seeds)."


def _part(tasks: int) -> str:
    return {2: "half"}.get(min(3, tasks), "third")
