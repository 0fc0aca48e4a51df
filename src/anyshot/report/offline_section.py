"""The part of the page about offline runs of the same settings."""

from __future__ import annotations

from html import escape

from anyshot.report import offline_figures, offline_sentences
from anyshot.report.appendix import appendix
from anyshot.report.formats import Table
from anyshot.report.markup import Inline, bullets, figures, joined, paragraph, table, tables
from anyshot.report.offline_comparison import OfflineComparison
from anyshot.report.offline_runs import OfflineGroup
from anyshot.report.offline_tables import meaning, shown_offline

INTRODUCTION = """
Offline, a method is trained on many tasks at once, then adapts to tasks it has not seen from a given number of shots,
and is tested on them. Methods with the same seed began with the same weights where they have the same network, and were
tested on the same draws. n is the number of seeds.
""".strip()


def offline_section(comparison: OfflineComparison, inline: Inline) -> str:
    """One comparison: table, figures, settings and commands."""
    group = comparison.group
    bars = f"Points are means over seeds; bars: {meaning(comparison)}. Methods are set a little apart to be seen."
    return joined(
        [
            f"<h2>{escape(group.title)}</h2>",
            bullets(offline_sentences.overview(comparison)),
            tables(shown_offline(comparison)),
            "<h3>What shots bring</h3>",
            paragraph(bars),
            figures(offline_figures.scores(comparison), inline),
            "<h3>Learned step sizes</h3>",
            paragraph(offline_sentences.on_rates(group)),
            figures([*offline_figures.alphas(group), *offline_figures.scales(group)], inline),
            "<h3>Training</h3>",
            paragraph(offline_sentences.on_training(group)),
            figures(offline_figures.validation(group), inline),
            table(_training(group), "Runs, in steps of meta-training"),
            appendix(comparison, inline),
        ]
    )


def _training(group: OfflineGroup) -> Table:
    rows = [["learner", "seed", "trained for", "kept from", "test episodes with each number of shots"]]
    for run in group.runs:
        kept = f"{run.best['step']:,}" if run.best else "none"
        rows.append([run.learner, str(run.seed), f"{run.steps:,}", kept, f"{run.tests[-1]['episodes']:,}"])
    return rows
