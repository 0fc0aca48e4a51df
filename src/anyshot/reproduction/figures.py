"""The paper's four panels for each online setting, from the summaries: the same bytes every time."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from anyshot.report.style import Picture, draw, empty, legend, our_style, rendered
from anyshot.reproduction.results import Results

FIGURES = "figures"
WITHOUT_ADAPTING = ("toe", "a-gem")


def named(preset: str, results: Results) -> dict[str, str]:
    """The files of a setting's figures and what is in them, without drawing them; none for one that was not run."""
    return {f"{preset}-{name}.svg": alt for name, (_, alt) in _wanted(preset, results).items()}


def drawn(preset: str, results: Results) -> dict[str, bytes]:
    """The figures of a setting; each says in a comment what it was drawn from."""
    files = {}
    with our_style():
        for name, (learners, _) in _wanted(preset, results).items():
            picture = _picture(preset, results, name, learners)
            svg = rendered(picture.figure, "svg").decode()
            head, rest = svg.split("?>", 1)
            files[f"{preset}-{name}.svg"] = f"{head}?>\n<!-- {digest(preset, results)} -->{rest}".encode()
    return files


def digest(preset: str, results: Results) -> str:
    """Of all curves of a setting."""
    curves = {learner: _curves(preset, learner, results) for learner in results.learners(preset)}
    return "drawn from " + hashlib.sha256(json.dumps(curves).encode()).hexdigest()


def _curves(preset: str, learner: str, results: Results) -> dict[int, tuple[float, ...]]:
    return {seed: run.curve for seed, run in results.of(preset, learner).items() if run.curve}


def _wanted(preset: str, results: Results) -> dict[str, tuple[list[str], str]]:
    """For each figure its methods, and a line about it."""
    there = [learner for learner in results.learners(preset) if _curves(preset, learner, results)]
    adapting = [learner for learner in there if learner not in WITHOUT_ADAPTING]
    about = f"cumulative loss against the number of tasks on {preset}"
    wanted = {"cumulative-loss": (there, f"Lines: {about}, for {', '.join(there)}.")} if there else {}
    if adapting and adapting != there:
        wanted["cumulative-loss-adapting"] = (adapting, f"Lines: {about}, for {', '.join(adapting)}.")
    for against in ("toe", "ftml"):
        seeds = results.of(preset, against)
        others = [one for one in adapting if one != against and set(results.of(preset, one)) & set(seeds)]
        if against in there and others:
            alt = f"Lines: {about} less that of {against} on the same streams, for {', '.join(others)}."
            wanted[f"difference-to-{against}"] = (others, alt)
    return wanted


def _picture(preset: str, results: Results, name: str, learners: list[str]) -> Picture:
    against = name.removeprefix("difference-to-") if name.startswith("difference-to-") else None
    title = f"{preset}\nCumulative loss" + (f" minus that of {against.upper()}" if against else "")
    figure, axes = empty(title, "tasks", "difference (below 0: better)" if against else "sum of test losses")
    if against:
        axes.axhline(0, color="black", linewidth=0.9)
    theirs = _curves(preset, against, results) if against else {}
    for learner in learners:
        ours = _curves(preset, learner, results)
        both = [seed for seed in ours if against is None or seed in theirs]
        values = np.array([np.subtract(ours[seed], theirs.get(seed, 0.0)) for seed in both])
        draw(axes, learner, results.learners(preset), np.arange(1, values.shape[1] + 1), values)
    if against is None:
        axes.set_ylim(bottom=0)
    legend(figure, axes)
    return Picture(name, figure, "")


def write_figures(results: Results, folder: Path) -> list[Path]:
    """Draw all of them into a folder; those that nothing is there for any more are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: data for preset in results.presets() for name, data in drawn(preset, results).items()}
    for old in folder.glob("*.svg"):
        if old.name not in files:
            old.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]
