"""The page: one HTML file that needs nothing else, and its figures as files beside it."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from anyshot.errors import InputError
from anyshot.report import figures, formats, sentences, shot_figures
from anyshot.report.collected import Group, Run
from anyshot.report.comparison import Comparison
from anyshot.report.figures import Picture
from anyshot.report.naming import command
from anyshot.report.style import our_style, rendered
from anyshot.report.writing import writing_beside

CSS = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  padding: 1rem; max-width: 70rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 2.2rem 0 0.6rem; padding-top: 0.8rem;
  border-top: 2px solid #1a1a1a; }
h3 { font-size: 1.1rem; margin: 1.8rem 0 0.4rem; }
p, li { max-width: 46rem; }
.scroll { overflow-x: auto; margin: 0.3rem 0; }
table { border-collapse: collapse; font-size: 0.92rem; overflow-wrap: normal; }
figure { margin: 1.2rem 0; }
figcaption { font-weight: 600; }
th, td { text-align: left; padding: 0.28rem 0.8rem 0.28rem 0; border-bottom: 1px solid #ddd; white-space: nowrap;
  vertical-align: top; font-variant-numeric: tabular-nums; }
tbody th { font-weight: 600; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 1.2rem;
  margin: 1rem 0; align-items: start; }
.figures img { width: 100%; max-width: 36rem; height: auto; display: block; }
pre { overflow-x: auto; background: #f4f4f4; padding: 0.7rem; font-size: 0.85rem; overflow-wrap: normal; }
summary { cursor: pointer; font-weight: 600; }
.note { border-left: 4px solid #d55e00; padding-left: 0.7rem; }
""".strip()
OURS = re.compile(r"\d\d-[a-z0-9+-]+\.(png|svg)")


def write_report(comparisons: Sequence[Comparison], out: Path) -> Path:
    """Write the page to `out` and its figures into a folder beside it, whose path is returned.

    All is written under temporary names and moved into place at the end, the page last.
    """
    check_out(out)
    beside = out.with_name(f"{out.stem}_files")
    with writing_beside(out) as unfinished, our_style():
        made: list[str] = []

        def inline(picture: Picture) -> str:
            name = f"{len(made) // 2 + 1:02d}-{picture.name}"
            svg = rendered(picture.figure, "svg")
            for form, data in (("svg", svg), ("png", rendered(picture.figure, "png"))):
                (unfinished / f"{name}.{form}").write_bytes(data)
                made.append(f"{name}.{form}")
            source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
            width, height = (round(96 * inches) for inches in picture.figure.get_size_inches())
            return f'<img src="{source}" alt="{escape(picture.alt)}" width="{width}" height="{height}">'

        body = "\n".join(_section(comparison, inline) for comparison in comparisons)
        (unfinished / out.name).write_text(_page(comparisons, body), "utf-8", newline="\n")
        beside.mkdir(exist_ok=True)
        for name in made:
            (unfinished / name).replace(beside / name)
        for old in beside.iterdir():
            if OURS.fullmatch(old.name) and old.name not in made:
                old.unlink()
        (unfinished / out.name).replace(out)
    return beside


def check_out(out: Path) -> None:
    """Raise `InputError` for a name that no page can have."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must end in .html, got {str(out)!r}")
    if out.is_dir():
        raise InputError(f"--out must be a file, {out} is a folder")


def _page(comparisons: Sequence[Comparison], body: str) -> str:
    name = "anyshot report: " + "; ".join(one.group.title for one in comparisons)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(name)}</title>
<style>
{CSS}
</style>
</head>
<body>
<h1>Online incremental learning: a comparison</h1>
<p>Tasks come one after another, and labels a few at a time. After each arrival the method is tested on the current
task; the cumulative loss (the paper's regret) is the sum of all those test losses. Less is better, and so are fewer
labels. Methods with the same seed had the same tasks and datapoints in the same order. Lines are means over seeds,
bands one standard deviation to both sides; a method with one seed has no band. n is
the number of seeds.</p>
{body}
</body>
</html>
"""


def _section(comparison: Comparison, inline: Callable[[Picture], str]) -> str:
    group = comparison.group

    def shown(pictures: list[Picture]) -> str:
        return '<div class="figures">\n' + "\n".join(map(inline, pictures)) + "\n</div>" if pictures else ""

    parts = [
        f"<h2>{escape(group.title)}</h2>",
        _list(sentences.overview(comparison)),
        _table(formats.means(comparison), formats.heading(comparison)),
    ]
    if len(comparison.rows) > 1:
        parts.append(_table(formats.paired(comparison), formats.difference_heading(comparison)))
    parts += [f'<p class="note">{escape(sentence)}</p>' for sentence in formats.remarks(comparison)]
    parts += ["<h3>Cumulative loss</h3>", shown(figures.losses(group))]
    differences = figures.loss_differences(group)
    if differences:
        parts += [
            "<h3>Difference to TOE and to FTML</h3>",
            _p(sentences.on_differences(group)),
            shown(differences),
        ]
    parts += ["<h3>Labels</h3>", _p(sentences.on_labels(group)), shown(figures.labels(group))]
    parts += ["<h3>Tasks mastered</h3>", _p(sentences.on_mastered(comparison)), shown(figures.mastered(group))]
    parts += [
        "<h3>What shots bring</h3>",
        _p(sentences.on_shots(group) + " " + _how_shots(group)),
        shown(shot_figures.scores(group)),
        "<h3>Learned step sizes</h3>",
        _p(
            sentences.on_rates(group)
            + " At zero shots no step is taken; a method with a step size for every parameter "
            "is shown with their mean."
        )
        if shot_figures.with_rate(group, "alpha")
        else _p(sentences.on_rates(group)),
        shown(shot_figures.alphas(group)),
        shown(shot_figures.scales(group)),
        "<h3>Settings and environment</h3>",
        _settings(group),
        "<h3>How to reproduce it</h3>",
        _commands(comparison),
    ]
    return "\n".join(part for part in parts if part)


def _how_shots(group: Group) -> str:
    rules = group.settings.protocol
    told = (
        f"Each point is the first evaluation of a task with that many shots; {rules.max_shots} is the most that a "
        "method is given, though more labels may come."
    )
    early = " A task that ended before, mastered, keeps its last value, so that every point is over the same tasks."
    return told + (early if rules.advance else "")


def _settings(group: Group) -> str:
    rows = [["learner", "seed", "device", "opened", "versions", "folder"]]
    for run in (*group.runs, *group.left_out):
        rows.append([run.learner, str(run.seed), *_environment(run), str(run.folder)])
    values = group.settings.model_dump(mode="json").items()
    settings = [[f"{part}.{name}", str(value)] for part, names in values for name, value in names.items()]
    settings.append(["task set's fingerprint", group.runs[0].fingerprint])
    inner = _table([["setting", "value"], *settings], "All settings")
    return f"{_table(rows, 'Runs')}\n<details>\n<summary>All settings</summary>\n{inner}\n</details>"


def _environment(run: Run) -> list[str]:
    def told(*names: str) -> str:
        values = [
            ", ".join(f"{n} {one[n]}" if len(names) > 1 else f"{one[n]}" for n in names if n in one)
            for one in run.environment
        ]
        return "; ".join(dict.fromkeys(filter(None, values))) or "not known"

    return [told("device"), told("opened"), told("anyshot", "jax", "numpy", "python")]


def _commands(comparison: Comparison) -> str:
    group = comparison.group
    runs = (*group.runs, *group.left_out)
    lines = [command(group.settings, run.learner, run.seed, str(run.folder)) for run in runs]
    folders = shlex.join(str(run.folder) for run in runs)
    lines.append(f"anyshot report {folders} --against {shlex.quote(comparison.against)} --out report.html")
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def _table(table: formats.Table, caption: str) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table[0])
    rows = [
        f'<tr><th scope="row">{escape(first)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in rest) + "</tr>"
        for first, *rest in table[1:]
    ]
    body = "\n".join(rows)
    return (
        f'<figure>\n<figcaption>{escape(caption)}</figcaption>\n<div class="scroll" tabindex="0">\n<table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n</figure>"
    )


def _list(lines: Sequence[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(line)}</li>" for line in lines) + "\n</ul>"


def _p(text: str) -> str:
    return f"<p>{escape(text)}</p>"
