"""The figures, drawn from the summaries: the same bytes every time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyshot.learners.catalogue import LEARNERS
from anyshot.report.statistics import Spread
from anyshot.report.style import Panel, choose_looks, our_style, render
from paper.first_step import tables
from paper.records import Online
from paper.results import Results
from paper.targets import CUMULATIVE_LOSS, LABELS, method_of, specs_of

FIGURES = "figures"
ASIDE = 1.09  # the factor on a logarithmic axis between points that belong together
Curves = dict[str, dict[int, list[float]]]


@dataclass(frozen=True)
class Plot:
    """A figure that can be drawn.

    Attributes:
        alt: a description for those who do not see it.
        data: what it is drawn from, as JSON.
        draw: draws it.
    """

    alt: str
    data: object
    draw: Callable[[], Panel]

    @property
    def digest(self) -> str:
        """Of its data; the file has it in a comment."""
        return "drawn from " + hashlib.sha256(json.dumps(self.data).encode()).hexdigest()

    def render(self) -> bytes:
        """The SVG file."""
        with our_style():
            head, rest = render(self.draw().picture("", self.alt).figure, "svg").decode().split("?>", 1)
        return f"{head}?>\n<!-- {self.digest} -->{rest}".encode()


def list_plots(results: Results) -> dict[str, dict[str, Plot]]:
    """The figures by file name: for each preset the paper's panels, as far as there are runs, and for first-step."""
    presets = dict.fromkeys(result.preset for result in results.found)
    return {preset: _panels(preset, results) for preset in presets} | {"first-step": _first_step(results)}


def write_plots(results: Results, folder: Path) -> None:
    """Draw all figures into a folder, and remove those that are not drawn any more."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = {name: plot for each in list_plots(results).values() for name, plot in each.items()}
    for old in folder.glob("*.svg"):
        if old.name not in plots:
            old.unlink()
    for name, plot in plots.items():
        (folder / name).write_bytes(plot.render())


def _panels(preset: str, results: Results) -> dict[str, Plot]:
    """Cumulative loss of all methods, of those that adapt by gradients, and of these less that of TOE and of FTML."""
    curves: Curves = {}
    adapting: dict[str, None] = {}
    for label in [name for name in LEARNERS if name not in LABELS]:
        for run in results.of(preset, label):
            if isinstance(run.outcome, Online):
                curves.setdefault(label, {})[run.job.seed] = run.outcome.cumulative_loss
                adapting |= {label: None} if "inner_steps" in run.experiment.learner.hyperparameters else {}
    plots = {"cumulative-loss": _lines(preset, curves, [*curves], None)} if curves else {}
    if len(adapting) > 1 and [*adapting] != [*curves]:
        plots["cumulative-loss-adapting"] = _lines(preset, curves, [*adapting], None)
    for against in ("toe", "ftml"):
        others = [one for one in adapting if one != against and set(curves[one]) & set(curves.get(against, {}))]
        if others:
            plots[f"difference-to-{against}"] = _lines(preset, curves, others, against)
    return {f"{preset}-{name}.svg": plot for name, plot in plots.items()}


def _lines(preset: str, curves: Curves, labels: list[str], against: str | None) -> Plot:
    def draw() -> Panel:
        title = f"{preset}\nCumulative loss" + (f" minus that of {against.upper()}" if against else "")
        panel = Panel(title, "tasks", "difference (below 0: better)" if against else "sum of test losses")
        looks, theirs = choose_looks({label: label for label in curves}), curves[against] if against else {}
        for label in labels:
            both = {seed: curve for seed, curve in curves[label].items() if against is None or seed in theirs}
            values = np.array([np.subtract(curve, theirs.get(seed, 0.0)) for seed, curve in both.items()])
            panel.line(label, looks[label], np.arange(1, values.shape[1] + 1), values)
        return panel  # whose picture has a line at zero, or begins there

    less = f" less that of {against} on the same streams" if against else ""
    about = f"Lines: cumulative loss against the number of tasks on {preset}{less}, for {', '.join(labels)}."
    return Plot(about, curves, draw)


def _first_step(results: Results) -> dict[str, Plot]:
    """Mean and standard deviation of the cumulative loss from each first step; empty before two steps were run."""
    points: dict[str, dict[float, list[float]]] = {}
    for table in tables():
        for label in table.paper:
            values = results.rows(table.preset, label)[CUMULATIVE_LOSS].tolist()
            if values:
                points.setdefault(method_of(label), {})[table.first_step or 0.0] = values
    steps = sorted({step for by_step in points.values() for step in by_step})
    if len(steps) < 2:
        return {}

    def count_seeds(step: float) -> str:
        counts = sorted({len(by_step[step]) for by_step in points.values() if step in by_step})
        return " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]])))

    def draw() -> Panel:
        title = f"{tables()[0].preset}\nCumulative loss ± standard deviation"
        panel = Panel(title, "first inner step (number of seeds)", "sum of test losses")
        looks = choose_looks({method: specs_of(method)[0].learner for method in points})
        for place, (method, by_step) in enumerate(points.items()):
            spreads = [Spread.of(by_step[step]) for step in sorted(by_step)]
            means, errors = [spread.mean for spread in spreads], [spread.deviation or 0.0 for spread in spreads]
            beside = ASIDE ** (place - (len(points) - 1) / 2)  # so that methods do not hide each other
            panel.bars(method, looks[method], [step * beside for step in sorted(by_step)], means, errors, 0)
        panel.entries = [(line, method) for (line, _), method in zip(panel.entries, points, strict=True)]
        panel.axes.set_xscale("log")
        panel.axes.set_xticks(steps, [f"{step:g}\n({count_seeds(step)})" for step in steps])
        panel.axes.minorticks_off()
        panel.axes.set_ylim(bottom=0)
        return panel

    about = f"Cumulative loss against the first inner step, with standard deviations, for {', '.join(points)}."
    return {"first-step.svg": Plot(about, points, draw)}
