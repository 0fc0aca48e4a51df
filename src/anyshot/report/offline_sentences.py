"""What one sees in offline runs, in plain sentences computed from the numbers."""

from __future__ import annotations

from anyshot.report.offline_comparison import OfflineComparison, OfflineRow
from anyshot.report.offline_figures import rates_kept, unit_of_shots, with_rate
from anyshot.report.offline_runs import OfflineGroup
from anyshot.report.offline_tables import cell, rounding, with_error
from anyshot.report.wording import certainty, counted, listed


def overview(comparison: OfflineComparison) -> list[str]:
    """What was compared, and who came out best with each number of shots."""
    group = comparison.group
    seeds = sorted({run.seed for run in group.runs})
    each = "with one seed" if len(seeds) == 1 else f"with {len(seeds)} seeds"
    tested = f"tested with {listed(group.shots)} shots on tasks that training did not see"
    found = [f"{listed(group.learners)}, {tested}, {each} ({listed(seeds)}): {counted(len(group.runs), 'run')} in all."]
    if len(seeds) == 1:
        found.append("One seed is one draw of the weights and one course of training: what is seen here may be chance.")
    if len(group.learners) > 1:
        found += [_best(comparison, place) for place in range(len(group.shots))]
    return found


def _best(comparison: OfflineComparison, place: int) -> str:
    group = comparison.group
    higher = group.measure == "accuracy"
    best = (max if higher else min)(comparison.rows, key=lambda row: row.scores[place].mean)
    percent = " %" if higher else ""
    told = (
        f"With {counted(group.shots[place], 'shot')} {best.learner} has the {'highest' if higher else 'lowest'} mean "
        f"{group.measure}: {cell(comparison, with_error(best)[place])}{percent}"
    )
    if best.learner == comparison.against:
        return f"{told}."
    return f"{told}; {_against(comparison, best, place)}."


def _against(comparison: OfflineComparison, row: OfflineRow, place: int) -> str:
    if not row.differences:
        return f"it has no seed in common with {comparison.against}"
    scale, digits = rounding(comparison)
    unit = " points" if comparison.group.measure == "accuracy" else ""
    less = row.differences[place]
    side = "below" if less.mean < 0 else "above"
    told = f"with the same seeds it is {scale * abs(less.mean):,.{digits}f}{unit} {side} {comparison.against}"
    certain = certainty(less, digits, scale)
    if not certain:
        return f"{told}, with one seed (seed {row.pairs[0]}), which gives no interval"
    return f"{told} on average; {certain}"


def on_rates(group: OfflineGroup) -> str:
    """What became of the step sizes."""
    learners = with_rate(group, "alpha")
    if not learners:
        return "None of these methods has an inner step size."
    told = []
    for learner in learners:
        alpha = rates_kept(group, learner, "alpha").mean(axis=0)
        unit = unit_of_shots(group)
        words = f"{learner} has alpha {alpha[1]:.3g} at 1 {unit[:-1]} and {alpha[-1]:.3g} at {len(alpha) - 1} {unit}"
        for rate in ("beta", "eta"):
            if learner in with_rate(group, rate):
                words += f", {rate} {rates_kept(group, learner, rate).mean():.3g}"
        told.append(words)
    return (
        f"In the state that was tested {'; '.join(told)} (means over seeds). At zero shots no step is taken; a method "
        "with a step size for every parameter is shown with their mean."
    )


def on_training(group: OfflineGroup) -> str:
    """How training was stopped, and what was kept."""
    plan = group.settings.plan
    if not plan.validation_tasks:
        return f"There are no validation tasks: every run was trained for all {counted(plan.steps, 'step')}."
    return (
        f"Every {counted(plan.every, 'step')} the method is tried on {counted(plan.validation_tasks, 'training task')} "
        f"kept apart, with {listed(plan.test_shots)} shots; the state with the best mean over these is kept, and "
        f"is what is tested. Training ends after {counted(plan.steps, 'step')}, or {counted(plan.patience, 'trial')} "
        "without a better one. The tasks of the test have no part in this."
    )
