"""The table "In short": what the paper claims, what we found, and whether the two agree."""

from __future__ import annotations

from itertools import pairwise

from anyshot.report.statistics import Difference, holm
from paper.pairs import Pair, compare, describe_verdict, summarise_difference
from paper.results import Results
from paper.targets import CLAIMS, CUMULATIVE_LOSS, TABLES, TARGETS, Table
from paper.text import describe_certainty, format_difference, join_words

LEVEL = 0.05
HEAD = ["difference", "setting", "the paper", "ours [95 % interval]", "verdict"]


def list_claims(results: Results) -> list[tuple[Table, list[Pair]]]:
    """For each claim and each setting that has both methods, the differences by column; those that were run.

    Tables of the same setting have the same runs, so the first one counts.
    """
    found = []
    for first, second in CLAIMS:
        tables: dict[str, Table] = {}
        for table in TABLES.values():
            if {first, second} <= set(table.paper) and table.first_step is None:
                tables.setdefault(table.preset, table)
        for table in tables.values():
            pairs = [compare(table, results, first, second, column) for column in table.columns]
            if all(pair.ours for pair in pairs):
                found.append((table, pairs))
    return found


def claim_rows(results: Results) -> list[list[str]]:
    """A row for each claim and setting."""
    rows = [HEAD]
    for table, pairs in list_claims(results):
        ours = [pair.ours for pair in pairs if pair.ours]
        share = "" if table.offline else f"{100 * pairs[0].share:+.1f} %: "
        verdict = " / ".join(describe_verdict(each, pair.claimed) for each, pair in zip(ours, pairs, strict=True))
        certainty = f" (n = {ours[0].n})" if table.offline else f": {describe_certainty(ours[0])}"
        rows.append(
            [
                f"{pairs[0].first} less {pairs[0].second}",
                f"`{table.preset}`" + f": {' / '.join(table.columns)}" * table.offline,
                " / ".join(_describe_paper(table, pair) for pair in pairs),
                share + " / ".join(format_difference(each, 2 if table.offline else 1) for each in ours),
                verdict + certainty,
            ]
        )
    return rows + _shots_rows(results)


def _describe_paper(table: Table, pair: Pair) -> str:
    if pair.paper is None:
        return {0: "no claim", table.sign: "better", -table.sign: "worse"}[int(pair.claimed)]
    if table.offline:
        return f"{pair.paper:+.2f}"
    return f"{100 * pair.paper / table.paper[pair.second][0].mean:+.1f} %" + ", within its spread" * pair.within


def _shots_rows(results: Results) -> list[list[str]]:
    """Whether the loss falls as M, the most shots, rises: each M less the one before, on the same streams."""
    tables, rows = TARGETS["ablation-m"].tables, []
    for label in tables[0].paper:
        for fewer, more in pairwise(tables):
            after, before = (results.rows(table.preset, label)[CUMULATIVE_LOSS] for table in (more, fewer))
            ours = summarise_difference((after - before).dropna())
            if ours:
                names = [table.name.rpartition("-")[2] for table in (more, fewer)]
                gap = more.paper[label][0].mean - fewer.paper[label][0].mean
                verdict = f"{describe_verdict(ours, gap)}: {describe_certainty(ours)}"
                cells = ["`rainbow-mnist`", f"{gap:+,.1f}", format_difference(ours, 1), verdict]
                rows.append([f"{label} with M = {names[0]} less M = {names[1]}", *cells])
    return rows


def compare_with_constants(results: Results) -> list[str]:
    """A sentence for each table of the paper whose methods all lose more than a constant prediction.

    Only methods that the paper has numbers of count.
    """
    found = []
    for table in TABLES.values():
        rows = [results.rows(table.preset, label)[CUMULATIVE_LOSS] for label in table.numbered]
        means = [losses.mean() for losses in rows if len(losses)]
        if table.constant is not None and means and min(means) > table.constant:
            constant = f"{table.constant:,.1f}"
            found.append(
                f"Every method of the paper in `{table.name}` loses more than a constant prediction ({constant})."
            )
    return found


def describe_holm(results: Results) -> str:
    """What is left of the online differences after Holm's correction for their number."""
    asked: list[tuple[float, str, Difference]] = [
        (pairs[0].ours.p, f"{pairs[0].first} less {pairs[0].second} (`{table.preset}`)", pairs[0].ours)
        for table, pairs in list_claims(results)
        if not table.offline and pairs[0].ours and pairs[0].ours.p is not None
    ]
    asked.sort(key=lambda each: each[0])
    left = [name for (_, name, _), p in zip(asked, holm([p for p, _, _ in asked]), strict=True) if p < LEVEL]
    return (
        f"Of {len(asked)} online differences between methods, {sum(ours.excludes_zero for _, _, ours in asked)} have a "
        f"95 % interval that excludes 0. After Holm's correction for {len(asked)} tests (level {100 * LEVEL:.0f} %) "
        f"{len(left)} remain" + (f": {join_words(left)}." if left else ".")
    )
