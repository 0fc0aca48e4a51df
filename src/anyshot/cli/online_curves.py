"""What `anyshot watch` shows of online runs: where each is, and the report's curves over tasks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from anyshot.cli.plot import Curve, plotted
from anyshot.cli.run_rows import Looks, empty_table, name, state
from anyshot.report.online_runs import Run


def online_table(runs: Sequence[Run], looks: Looks, colours: bool) -> Table:
    """Where each run is."""
    measured = "accuracy" if runs[0].settings.protocol.measure == "accuracy" else "loss now"
    table = empty_table(("seed", "task", "shots", measured, "labels", "loss in all", "state"))
    for run in runs:
        if not run.events:
            table.add_row(name(run, looks, colours), str(run.seed), "", "", "", "0", "0", "before its first task")
            continue
        last = run.events[-1]
        now = last["accuracy"] if measured == "accuracy" and "accuracy" in last else last["loss"]
        table.add_row(
            name(run, looks, colours),
            str(run.seed),
            str(last["position"] + 1),
            str(last["shots"]),
            f"{now:.3g}",
            f"{run.ledger.labels:,}",
            f"{run.ledger.cumulative_loss:,.1f}",
            state(run),
        )
    return table


def online_plots(runs: Sequence[Run], looks: Looks, width: int, lines: int, colour: bool) -> list[Text]:
    """The report's curves over tasks."""
    ended = [[task for task in run.ledger.tasks if task.ended] for run in runs]
    if not any(ended):
        return [Text("no task has ended yet", style="dim")]
    window = max(1, max(map(len, ended)) // 10)  # as in the report
    losses, labels = [], []
    for run, tasks in zip(runs, ended, strict=True):
        total, sums = 0.0, []
        for number, task in enumerate(tasks, start=1):
            total += task.loss
            sums.append((float(number), total))
        means = [
            (float(end), sum(task.labels for task in tasks[end - window : end]) / window)
            for end in range(window, len(tasks) + 1)
        ]
        losses.append(Curve(sums, *looks[run.learner]))
        labels.append(Curve(means, *looks[run.learner]))
    smooth = f", running mean of {window} tasks" if window > 1 else ""
    return [
        *plotted("cumulative loss", "tasks", losses, width, lines, colour),
        *plotted(f"labels per task{smooth}", "task", labels, width, lines, colour),
    ]
