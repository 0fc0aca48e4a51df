"""One of the paper's tables beside ours, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anyshot.report.formats import aligned, difference, spread
from anyshot.report.spread import Spread
from anyshot.report.wording import counted, listed
from anyshot.reproduction.cost import guessed, minutes
from anyshot.reproduction.jobs import Job, jobs_of
from anyshot.reproduction.ordering import Pair, counted_agreement, pairs
from anyshot.reproduction.results import Result, Results
from anyshot.reproduction.table import Number, Table

SEEDS = 3
NOT_RUN = "not run"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table.

    >>> print(markdown([["a", "b"], ["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def section(name: str, table: Table, results: Results, pictures: Sequence[tuple[Path, str]]) -> str:
    """All about one table; `name` is its target."""
    parts = [f"## {table.heading}", f"In the paper: {table.where}. Here: {_here(name, table)}."]
    if table.note:
        parts.append(table.note)
    parts.append(markdown(_offline(table, results) if table.offline else _online(table, results)))
    parts += missing(name, table, results)
    if _any_pair(table, results):
        order, agreement = _order(table, results)
        parts += [markdown(order), agreement]
    parts += [f"![{alt}]({path.as_posix()})" for path, alt in pictures]
    return "\n\n".join(parts)


def comparison(table: Table, results: Results) -> str:
    """The table and the order of its methods, lined up for a terminal."""
    rows = _offline(table, results) if table.offline else _online(table, results)
    parts = [*aligned(rows)]
    if _any_pair(table, results):
        order, agreement = _order(table, results)
        parts += ["", *aligned(order), "", agreement]
    return "\n".join(parts)


def _any_pair(table: Table, results: Results) -> bool:
    return any(pair.ours for column in range(len(table.columns)) for pair in pairs(table, results, column))


def _here(name: str, table: Table) -> str:
    return f"`anyshot reproduce {name}`, preset `{table.preset}`"


def runs_of(table: Table, learner: str, results: Results) -> list[Result]:
    """The runs that count for a row of a table."""
    return list(results.of(table.preset, learner).values())


def missing_jobs(table: Table, results: Results) -> list[Job]:
    """The runs of a table, three seeds each, that no summary is there of."""
    return [job for job in jobs_of([table], SEEDS) if job not in results]


def missing(name: str, table: Table, results: Results) -> list[str]:
    """What was not run, by which command it would be, and how long that would take."""
    jobs = missing_jobs(table, results)
    if not jobs:
        return []
    wanted: dict[str, list[int]] = {}
    for job in jobs:
        wanted.setdefault(job.learner, []).append(job.seed)
    told = "; ".join(f"{learner} (seed{'s' * (len(seeds) > 1)} {listed(seeds)})" for learner, seeds in wanted.items())
    return [f"Not run: {told}. `anyshot reproduce {name}` runs them: {estimate(jobs, results)}."]


def estimate(jobs: Sequence[Job], results: Results) -> str:
    """Minutes on an H200, one run after another."""
    how = "guessed" if guessed(jobs) else "from measured step times"
    return f"{counted(len(jobs), 'run')}, about {duration(minutes(jobs, results, 1))} on an H200 one by one ({how})"


def duration(value: float) -> str:
    """Minutes, as exactly as a guess deserves.

    >>> duration(7.4), duration(200.0)
    ('7 minutes', '3.3 hours')
    """
    return f"{max(1, round(value))} minutes" if value < 100 else f"{value / 60:.1f} hours"


def _online(table: Table, results: Results) -> list[list[str]]:
    rows = [["method", "paper", "ours", "seeds", "ours / paper", "labels", "tasks mastered", "steps", "minutes"]]
    for learner, numbers in table.paper.items():
        runs = runs_of(table, learner, results)
        rows.append([learner, _paper(numbers, 0, 1), *_ours(runs, 0, 1), _ratio(runs, numbers, 0), *_counts(runs)])
    return rows


def _offline(table: Table, results: Results) -> list[list[str]]:
    rows = [["method", "shots", "paper, %", "ours, %", "seeds", "ours / paper", "steps", "minutes"]]
    for learner, numbers in table.paper.items():
        runs = runs_of(table, learner, results)
        for column, shots in enumerate(table.columns):
            steps = [_count(runs, "steps"), _minutes(runs)] if column == 0 else ["", ""]
            cells = [_paper(numbers, column, 2), *_ours(runs, column, 2), _ratio(runs, numbers, column)]
            rows.append([learner if column == 0 else "", shots, *cells, *steps])
    return rows


def _paper(numbers: Sequence[Number], column: int, digits: int) -> str:
    return spread(Spread(*numbers[column]), digits) if numbers else "no number"


def _ours(runs: Sequence[Result], column: int, digits: int) -> list[str]:
    if not runs:
        return [NOT_RUN, "0"]
    return [spread(Spread.of([run.values[column] for run in runs]), digits), str(len(runs))]


def ratio(runs: Sequence[Result], numbers: Sequence[Number], column: int) -> float | None:
    """Our mean over the paper's; None without one of them."""
    return Spread.of([run.values[column] for run in runs]).mean / numbers[column].mean if runs and numbers else None


def _ratio(runs: Sequence[Result], numbers: Sequence[Number], column: int) -> str:
    found = ratio(runs, numbers, column)
    return "" if found is None else f"{found:.2f}"


def _counts(runs: Sequence[Result]) -> list[str]:
    return [_count(runs, "labels"), _count(runs, "mastered", 1), _count(runs, "steps"), _minutes(runs)]


def _count(runs: Sequence[Result], name: str, digits: int = 0) -> str:
    return spread(Spread.of([float(getattr(run, name)) for run in runs]), digits) if runs else ""


def _minutes(runs: Sequence[Result]) -> str:
    """Of a run, and how many shared the card."""
    known = [run.minutes for run in runs if run.minutes is not None]
    if not known:
        return "not kept" if runs else ""
    at_once = max(run.at_once for run in runs)
    return f"{sum(known) / len(known):.1f}" + (f" (up to {at_once} at once)" if at_once > 1 else "")


def _order(table: Table, results: Results) -> tuple[list[list[str]], str]:
    """The pairs as a table, and how many came out as in the paper."""
    found = [pairs(table, results, column) for column in range(len(table.columns))]
    rows = [["better in the paper", "worse in the paper", "", "paper's difference", "ours, paired", "seeds", "order"]]
    if not any(pair.ordered for column in found for pair in column):
        rows = [["method", "against", "", "paper's difference", "ours, paired", "seeds", "order"]]
    digits = 2 if table.offline else 1
    for shots, column in zip(table.columns, found, strict=True):
        rows += [_line(pair, shots if table.offline else "", digits) for pair in column]
    if not table.offline:
        rows = [[*row[:2], *row[3:]] for row in rows]
    return rows, _agreement([pair for column in found for pair in column])


def _line(pair: Pair, shots: str, digits: int) -> list[str]:
    gap = "none printed" if pair.paper is None else f"{pair.paper:+,.{digits}f}" + (", within its spread" * pair.within)
    both = f"{pair.wins} of {pair.seeds}" if pair.ours else ""
    told = pair.told if pair.ordered or pair.ours is None else f"the paper has no order; {pair.told}"
    return [pair.first, pair.second, shots, gap, difference(pair.ours, digits) if pair.ours else NOT_RUN, both, told]


def _agreement(found: Sequence[Pair]) -> str:
    same, sure, other, sure_other = counted_agreement(found)
    if not same + other:
        return "The paper has no order of these methods."
    return (
        f"Of {counted(same + other, 'pair')} that the paper orders and we have run, {same} came out in its order "
        f"({sure} surely) and {other} the other way round ({sure_other} surely)."
    )
