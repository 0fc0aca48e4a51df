"""Figures show the numbers, and methods look the same in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyshot.learners.catalogue import LEARNERS
from anyshot.report import compare, figures
from anyshot.report.figures import Plot
from anyshot.report.style import Picture, choose_looks, our_style, render
from tests.report.conftest import Written
from tests.support.written_runs import KEPT, TASKS, Events, write_run

pytestmark = pytest.mark.medium


def plot_of(folder: Path) -> Plot:
    return Plot.of(compare(folder)[0])


def lines_of(picture: Picture) -> dict[str, np.ndarray]:
    """What is drawn of each method."""
    (axes,) = picture.figure.axes
    (legend,) = picture.figure.legends
    texts = [
        text.get_text().replace("\n", "").removesuffix(")") for text in legend.get_texts()
    ]  # long ones are wrapped
    names = [text.rpartition("(n=")[0].rstrip() for text in texts]
    drawn = {(line.get_color(), line.get_marker()): line for line in axes.lines}
    return {
        name: np.asarray(drawn[handle.get_color(), handle.get_marker()].get_ydata(), float)
        for name, handle in zip(names, legend.legend_handles, strict=True)
        if name
    }


def per_task(events: Events, value: Any) -> list[float]:
    return [value([event for event in events if event["position"] == task]) for task in range(TASKS)]


def test_losses_and_labels_over_tasks(online_runs: Written) -> None:
    folder, events = online_runs
    plot = plot_of(folder)

    def mean(learner: str, value: Any) -> np.ndarray:
        return np.mean([per_task(events[learner, seed], value) for seed in range(3)], axis=0)

    def loss(of_task: Events) -> float:
        return sum(event["loss"] for event in of_task)

    total, *_, less = figures.draw_losses(plot)
    labels, cumulative, mastered = figures.draw_labels(plot)
    for learner in ("toe", "ftml", "ftml-vs"):
        assert lines_of(total)[learner] == pytest.approx(mean(learner, loss).cumsum())
        received = mean(learner, lambda of_task: of_task[-1]["labels"])
        assert lines_of(labels)[learner] == pytest.approx(received)
        assert lines_of(cumulative)[learner] == pytest.approx(received.cumsum())
        done = mean(learner, lambda of_task: of_task[-1]["mastered"])
        assert lines_of(mastered)[learner] == pytest.approx(done.cumsum() / np.arange(1, TASKS + 1))
        if learner != "toe":
            assert lines_of(less)[learner] == pytest.approx((mean(learner, loss) - mean("toe", loss)).cumsum())
    assert "toe" not in lines_of(less)


def test_methods_far_off_are_left_out_of_a_second_figure(tmp_path: Path) -> None:
    def lose(factor: float) -> Any:
        return lambda events: [event | {"total_loss": factor, "loss": factor} for event in events]

    for name, factor in (("a", 1.0), ("b", 1.1), ("c", 1.2), ("far", 50.0)):
        write_run(tmp_path / name, name, 0, change=lose(factor))
    first, second, _ = figures.draw_losses(plot_of(tmp_path))
    assert set(lines_of(first)) == {"a", "b", "c", "far"}
    assert set(lines_of(second)) == {"a", "b", "c"}
    (tmp_path / "far" / "experiment.json").unlink()
    assert len(figures.draw_losses(plot_of(tmp_path))) == 2, "no second figure if all are near"


def test_scores_by_shots_carry_what_ended_and_take_the_first_of_many(online_runs: Written) -> None:
    folder, events = online_runs
    found = figures.scores_by_shots(compare(folder)[0].group)
    assert list(found.columns) == [0, 2, 4]
    for position in range(TASKS):
        mine = [event for event in events["ftml", 1] if event["position"] == position]
        expected = [mine[min(number, len(mine) - 1)]["accuracy"] for number in (0, 1, 2)]
        assert list(found.loc["ftml", 1, position]) == pytest.approx(expected)


def test_learned_rates_over_shots_and_tasks(online_runs: Written) -> None:
    folder, events = online_runs
    *sizes, beta, eta = figures.draw_rates(plot_of(folder))
    ends = [[event for event in events["ftml-vs", seed] if event["ended"]] for seed in range(3)]
    for task, picture in zip((0, (TASKS - 1) // 2, TASKS - 1), sizes, strict=True):
        alphas = np.mean([of_seed[task]["rates"]["alpha"] for of_seed in ends], axis=0)
        assert lines_of(picture)["ftml-vs"] == pytest.approx(alphas[1:])
        assert set(lines_of(picture)) == {"ftml", "ftml-vs"}
    assert lines_of(beta)["ftml-vs"] == pytest.approx([0.1 / (1 + task) for task in range(TASKS)])
    assert lines_of(eta)["ftml-vs"] == pytest.approx([1 + task for task in range(TASKS)])


def test_offline_figures(offline_runs: Written) -> None:
    folder, events = offline_runs
    plot = plot_of(folder)
    (scores,) = figures.draw_test_scores(plot)
    (axes,) = scores.figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "2", "3"]
    for method, drawn in zip(plot.methods, axes.containers, strict=True):
        line, _, (bars,) = drawn.lines
        row = plot.comparison.table.loc[method]
        mean, deviation = (
            100 * np.array([row[f"accuracy_at_{shots}_shots_{end}"] for shots in (0, 2, 3)])
            for end in ("mean", "deviation")
        )
        assert line.get_ydata() == pytest.approx(mean)
        assert np.abs(np.asarray(line.get_xdata()) - np.sqrt([0, 2, 3])).max() < 0.1
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        assert ends == pytest.approx(np.stack([mean - deviation, mean + deviation], axis=1))
    alpha, beta, eta = figures.draw_rates(plot)
    for learner in ("maml", "maml-vs"):
        kept = [events[learner, seed][KEPT // 20 - 1]["rates"]["alpha"][1:] for seed in range(3)]
        assert lines_of(alpha)[learner] == pytest.approx(np.mean(kept, axis=0))
    marks = [line for line in beta.figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert [tuple(line.get_xdata()) for line in marks] == [(KEPT,)] * 3
    assert [line.get_ydata()[0] for line in marks] == pytest.approx([0.3, 1.3, 2.3])
    assert eta.name == "eta"
    (validation,) = figures.draw_validation(plot)
    marks = [line for line in validation.figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in marks] == [(KEPT, 0.5)] * 9


def test_the_validation_loss_of_a_regression_is_positive(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "maml", 0, "sinusoid-offline")
    (picture,) = figures.draw_validation(plot_of(tmp_path))
    line = picture.figure.axes[0].lines[0]
    assert line.get_ydata() == pytest.approx([1 / score for score in (0.2, 0.3, 0.5, 0.4)])


def test_every_method_has_a_look_of_its_own() -> None:
    names = [*(name for name in LEARNERS if not name.startswith("maml")), "mine", "yours"]
    looks = choose_looks({name: name for name in names})
    assert len({look.marker for look in looks.values()}) == len(names)
    for name, online in (("maml", "ftml"), ("maml-vs", "ftml-vs")):
        assert choose_looks({name: name})[name] == looks[online], "MAML is FTML offline"
    sweep = choose_looks({f"ftml-vs (inner_rate {rate})": "ftml-vs" for rate in range(9)} | {"toe": "toe"})
    assert sweep["ftml-vs (inner_rate 0)"] == looks["ftml-vs"]
    assert sweep["toe"] == looks["toe"]
    assert len({(look.color, look.marker) for look in sweep.values()}) == 10


def test_a_sweep_shows_the_best_and_the_reference(tmp_path: Path) -> None:
    for rate in range(1, 15):
        write_run(tmp_path / str(rate), "ftml", 0, hyperparameters={"inner_rate": rate / 100})
    comparison = compare(tmp_path)[0]
    last = comparison.methods[-1]
    plot = Plot.of(compare(tmp_path, last)[0])
    assert plot.methods == [*comparison.methods[:10], last]


@pytest.mark.parametrize("name", ["_x", "a $b$ c_{", "方法", "x" * 60])
def test_names_of_all_kinds_are_in_the_legend(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "a", name, 0)
    write_run(tmp_path / "b", "toe", 0)
    with our_style():
        plot = Plot.of(compare(tmp_path, name)[0])
        total, less = figures.draw_losses(plot)[0], figures.draw_losses(plot)[-1]
        assert name in lines_of(total)
        for picture in (total, less):
            assert render(picture.figure, "svg").startswith(b"<?xml")
