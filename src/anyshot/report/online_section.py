"""The part of the page about online runs of the same settings."""

from __future__ import annotations

from html import escape

from anyshot.report import figures, markup, sentences, shot_figures
from anyshot.report.appendix import appendix
from anyshot.report.markup import Inline, bullets, joined, paragraph, tables
from anyshot.report.online_comparison import Comparison
from anyshot.report.online_runs import Group
from anyshot.report.online_tables import shown_online
from anyshot.report.style import Picture

INTRODUCTION = """
Tasks come one after another, and labels a few at a time. After each arrival the method is tested on the current
task; the cumulative loss (the paper's regret) is the sum of all those test losses. Less is better, and so are fewer
labels. Methods with the same seed had the same tasks and datapoints in the same order. Lines are means over seeds,
bands one standard deviation to both sides; a method with one seed has no band. n is
the number of seeds.
""".strip()


def online_section(comparison: Comparison, inline: Inline) -> str:
    """One comparison: table, figures, settings and commands."""
    group = comparison.group

    def shown(pictures: list[Picture]) -> str:
        return markup.figures(pictures, inline)

    parts = [
        f"<h2>{escape(group.title)}</h2>",
        bullets(sentences.overview(comparison)),
        tables(shown_online(comparison)),
    ]
    parts += ["<h3>Cumulative loss</h3>", shown(figures.losses(group))]
    differences = figures.loss_differences(group)
    if differences:
        parts += [
            "<h3>Difference to TOE and to FTML</h3>",
            paragraph(sentences.on_differences(group)),
            shown(differences),
        ]
    parts += ["<h3>Labels</h3>", paragraph(sentences.on_labels(group)), shown(figures.labels(group))]
    parts += ["<h3>Tasks mastered</h3>", paragraph(sentences.on_mastered(comparison)), shown(figures.mastered(group))]
    parts += [
        "<h3>What shots bring</h3>",
        paragraph(sentences.on_shots(group) + " " + _how_shots(group)),
        shown(shot_figures.scores(group)),
        "<h3>Learned step sizes</h3>",
        paragraph(
            sentences.on_rates(group)
            + " At zero shots no step is taken; a method with a step size for every parameter "
            "is shown with their mean."
        )
        if shot_figures.with_rate(group, "alpha")
        else paragraph(sentences.on_rates(group)),
        shown(shot_figures.alphas(group)),
        shown(shot_figures.scales(group)),
        appendix(comparison, inline),
    ]
    return joined(parts)


def _how_shots(group: Group) -> str:
    rules = group.settings.protocol
    told = (
        f"Each point is the first evaluation of a task with that many shots; {rules.max_shots} is the most that a "
        "method is given, though more labels may come."
    )
    early = " A task that ended before, mastered, keeps its last value, so that every point is over the same tasks."
    return told + (early if rules.advance else "")
