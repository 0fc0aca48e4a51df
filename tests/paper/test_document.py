"""The arithmetic beside the paper, and REPRODUCTION.md."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from anyshot.report.statistics import Difference
from anyshot.runs.records import Score
from paper.claims import claim_rows, compare_with_constants, describe_holm
from paper.cost import describe_cost, estimate_minutes
from paper.document import DOCUMENT, RESULTS, generate, write_document
from paper.figures import FIGURES, list_plots
from paper.first_step import chosen_difference, list_differences, write_first_step
from paper.jobs import Job, list_jobs
from paper.offline_gap import write_gap
from paper.pairs import compare, describe_verdict, list_pairs
from paper.pooled import pooled_difference
from paper.rates import rate_rows
from paper.records import Offline, Online, Result, Wall
from paper.results import Results, read_results
from paper.sections import write_section
from paper.short_tasks import list_short_differences, rule_with_short_tasks, write_short_tasks
from paper.targets import CUMULATIVE_LOSS, TABLES, find_tables
from tests.paper.made import make_result, make_results

pytestmark = pytest.mark.medium

POSE = TABLES["table-2-pose"]


@pytest.fixture
def made() -> Results:
    """FTML-VS better than FTML by 100 to 102, worse than TOE by 10 on average, and one seed of FTML-VL."""
    return Results(
        make_results(
            "pose",
            ftml_vs=[50.0, 60.0, 70.0],
            ftml=[150.0, 161.0, 172.0],
            toe=[20.0, 60.0, 70.0],
            ftml_vl=[141.3],
        )
    )


def cells(text: str, start: str) -> list[str]:
    """The cells of the row of a table that begins so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_pairs_are_compared_seed_by_seed(made: Results) -> None:
    found = {(pair.first, pair.second): pair for pair in list_pairs(POSE, made, CUMULATIVE_LOSS)}
    assert len(found) == 12, "ten of the paper's methods, and two from scratch against FTML-VS"
    assert found["scratch", "ftml-vs"].claimed == found["scratch-kernel", "ftml-vs"].claimed == 0
    clear = found["ftml-vs", "ftml"]
    assert clear.ours is not None
    assert (clear.ours.mean, clear.wins, clear.ours.n) == (-101.0, 3, 3)
    # Student's t with two degrees of freedom: 4.3027 x 1 / sqrt(3)
    assert (clear.ours.low, clear.ours.high) == pytest.approx((-101 - 2.4841, -101 + 2.4841), abs=1e-3)
    assert clear.share == pytest.approx(-303 / 483)
    assert clear.paper == pytest.approx(119.1 - 135.5)
    assert clear.within, "18.8 is the larger deviation"
    assert describe_verdict(clear.ours, clear.claimed) == "agree"
    other = found["ftml-vs", "toe"]
    assert other.ours is not None
    assert (other.wins, other.within) == (0, False)
    assert describe_verdict(other.ours, other.claimed) == "undecided, reverse order"
    single = found["ftml-vs", "ftml-vl"].ours
    assert single is not None
    assert (single.n, single.low) == (1, None)
    assert found["ftml-vs", "ftml+meta-sgd"].ours is None
    back = compare(POSE, made, "ftml", "ftml-vs", CUMULATIVE_LOSS)
    assert back.ours is not None
    assert back.ours.mean == 101.0
    assert back.claimed > 0


@pytest.mark.parametrize(
    ("mean", "low", "high", "claimed", "verdict"),
    [
        (-2.0, -3.0, -1.0, -5.0, "agree"),
        (-2.0, -3.0, -1.0, +5.0, "differ"),
        (-2.0, -5.0, +1.0, -5.0, "undecided, same order"),
        (-2.0, -5.0, +1.0, +5.0, "undecided, reverse order"),
        (-2.0, None, None, -5.0, "undecided, same order"),
        (-2.0, -3.0, -1.0, 0.0, "no claim"),
    ],
)
def test_verdicts(mean: float, low: float | None, high: float | None, claimed: float, verdict: str) -> None:
    assert describe_verdict(Difference(mean, low, high, None, 3), claimed) == verdict


def test_offline_more_is_better_and_a_tie_is_no_order() -> None:
    pairs = list_pairs(find_tables("omniglot")[0], Results([]), "1-shot")
    orders = {(pair.first, pair.second): bool(pair.claimed) for pair in pairs}
    assert orders == {("maml-vl", "maml"): True, ("maml", "maml-vs"): False, ("maml-vl", "maml-vs"): True}


def test_order_in_words_counts_where_the_paper_has_no_numbers() -> None:
    table = TABLES["fixed-steps-contextual-miniimagenet"]
    pairs = list_pairs(table, Results([]), CUMULATIVE_LOSS)
    assert [(pair.first, pair.second, pair.claimed) for pair in pairs] == [
        ("ftml-vs", "ftml", -1),
        ("ftml-vl", "ftml-vs", -1),
        ("toe", "ftml-vs", 0),  # the paper says nothing of these two
    ]


def test_a_section_has_ratio_labels_and_what_was_not_run(made: Results) -> None:
    text = write_section(POSE, made)
    assert cells(text, "ftml-vs")[1:] == [
        "119.1 ± 3.2",
        "60.0 ± 10.0",
        "0.448 ± 0.075",  # of 134.0
        "3",
        "0.50",
        "200 ± 100",
        "3.0 ± 0.0",
        "1,000 ± 0",
        "not kept",
    ]
    assert cells(text, "ftml+meta-sgd")[2:5] == ["not run", "", "0"]
    assert cells(text, "ftml-vl")[2:6] == ["141.3", "1.054", "1", "1.00"]
    verdict = cells(text, "ftml-vs | ftml")
    assert verdict[2:6] == ["+0 [+0, +0]", "-16.4, within its spread", "-101.0 [-103.5, -98.5]", "3 of 3"]
    assert "excludes 0 (n = 3)" in verdict[6]
    count = text[text.index("Of 6 pairs") :]
    assert re.findall(r"\d+", count) == ["6", "4", "2", "0", "2", "0"]


def test_costs_are_measured_ones_where_there_are_any() -> None:
    timed = make_result(Job("pose", "toe", 0), 1.0, wall=[Wall(seconds=600.0, at_once=5), Wall(seconds=60, at_once=1)])
    results = Results([timed])
    assert estimate_minutes(Job("pose", "toe", 1), results) == pytest.approx(11 / 5)
    unknown = Job("rainbow-mnist-m10", "ftml", 1)
    assert estimate_minutes(unknown, results) is None
    guess = estimate_minutes(Job("omniglot-50way", "maml", 0), results)
    assert guess is not None
    jobs = [Job("omniglot-50way", "maml", seed) for seed in range(100)]
    assert f"{100 * guess / 60:.1f} hours" in describe_cost(jobs, results)
    assert "not known" in describe_cost([unknown], results)
    from_scratch = [Job("omniglot-50way", "scratch-kernel", seed) for seed in range(2)]
    assert describe_cost(from_scratch, results) == "2 runs on a CPU"
    assert describe_cost([*jobs, *from_scratch], results) == f"{describe_cost(jobs, results)}; 2 runs on a CPU"


def test_seeds_that_settings_are_chosen_with_count_in_no_other_table() -> None:
    choose, every = TABLES["pose-again-choose"], TABLES["pose-again-all"]
    label, toe = "ftml-vs-sin-cos-0.1", "toe-sin-cos-1e-3"
    assert {label, toe} <= set(choose.paper) & set(every.paper)
    assert {job.seed for job in list_jobs([choose])} == {10}
    losses = {0: 2.0, 1: 4.0, 10: 100.0}
    made = [make_result(Job("pose", name, seed), loss) for name in (label, toe) for seed, loss in losses.items()]
    totals = made[0].outcome.totals.model_copy(update={"constant_loss": 8.0})
    made[0] = made[0].model_copy(update={"outcome": made[0].outcome.model_copy(update={"totals": totals})})
    results = Results(made)
    assert cells(write_section(every, results), label)[2:5] == ["3.0 ± 1.4", "0.250", "2"], (
        "one run says its constant's"
    )
    assert cells(write_section(choose, results), label)[2:4] == ["100.0", "1"]
    assert compare(every, results, label, toe, CUMULATIVE_LOSS).ours.n == 2
    assert generate(Results([made[2]])).count(f"## {choose.heading}") == 1
    assert f"## {choose.heading}" not in generate(Results(made[:2])), "nothing of it was run"


def test_the_gap_is_to_the_paper_and_what_closes_it_is_a_share_of_the_first() -> None:
    def tested(label: str, seed: int, points: float) -> Result:
        job = Job("rainbow-mnist-offline", label, seed)
        shots = [0, 1, 10, 20]
        tests = [Score(shots=s, loss=1.0, loss_error=0.1, accuracy=points / 100, episodes=9) for s in shots]
        return make_result(job, 1.0, outcome=Offline(steps=9, best_step=9, tests=tests))

    first = [tested("maml-vs", seed, 60.0 + seed) for seed in (0, 1, 2)]
    assert write_gap(Results(first)) == []
    text = "\n".join(write_gap(Results([*first, *(tested("maml-vs-orders", seed, 70.0) for seed in range(5))])))
    paper = (72.72 + 72.91 + 73.89 + 77.17) / 4
    rows = [cells(line, "maml-vs") for line in text.splitlines() if line.startswith("| maml-vs |")]
    assert [row[3:] for row in rows] == [
        ["3", f"{paper - 61:+.2f}", ""],
        ["5", f"{paper - 70:+.2f}", f"{100 * (1 - (paper - 70) / (paper - 61)):.0f} %"],
    ]
    assert "maml-vs-orders" in rows[1][1]


def test_the_list_of_figures_says_what_is_not_drawn(made: Results) -> None:
    text = generate(made)
    assert "difference-to-toe" in cells(text, "Incremental Pose Prediction")[1]
    assert "no runs" in cells(text, "Incremental Rainbow MNIST, bottom row (fixed steps)")[1]


def test_learned_step_sizes_are_means_over_seeds() -> None:
    one = {"alpha": [9.0, 0.1, 0.2, 0.2, 0.2, 0.4, 0.3], "beta": [1.0, 0.5], "eta": [1.0, 2.0]}
    other = {"alpha": [9.0, 0.3, 0.2, 0.2, 0.2, 0.6, 0.3], "beta": [1.0, 0.7], "eta": [1.0, 4.0]}
    results = Results(
        [
            make_result(Job("pose", "ftml-vs", 0), 1.0, rates=one),
            make_result(Job("pose", "ftml-vs", 1), 2.0, rates=other),
            make_result(Job("pose", "ftml-vl", 0), 1.0, rates={"alpha": other["alpha"]}),
            make_result(Job("pose", "ftml", 0), 1.0, rates={"alpha": [0.1] * 7}),
        ]
    )
    assert rate_rows(results)[1:] == [
        ["`pose` (0.01)", "ftml-vl", "1", "0.3", "0.2", "0.6", "", "0.3", "1 of 5", "", ""],
        ["`pose` (0.01)", "ftml-vs", "2", "0.2", "0.2", "0.5", "", "0.3", "1 of 5", "0.6", "3"],
    ]


def test_the_ablation_compares_seed_by_seed() -> None:
    found = []
    for preset, lower in {"rainbow-mnist-m10": 0.0, "rainbow-mnist": 10.0, "rainbow-mnist-m30": 9.0}.items():
        losses = {"ftml": [500.0 - lower, 900.0 - lower], "ftml_vs": [400.0 - 2 * lower, 800.0 - 2 * lower]}
        found += make_results(preset, **losses)
    rows = {row[0]: row for row in claim_rows(Results(found)) if " M = " in row[0]}
    assert [row[2:4] for row in rows.values()] == [
        ["-2,905.8", "-10.0 [-10.0, -10.0]"],
        ["-553.5", "+1.0 [+1.0, +1.0]"],
        ["-1,158.6", "-20.0 [-20.0, -20.0]"],
        ["-515.7", "+2.0 [+2.0, +2.0]"],
    ]
    assert [row[4].partition(":")[0] for row in rows.values()] == ["agree", "differ", "agree", "differ"]


def test_claims_say_no_more_than_the_seeds_show(made: Results) -> None:
    rows = {row[0]: row for row in claim_rows(made)}
    clear = rows["ftml-vs less ftml"]
    assert clear[1:4] == ["`pose`", "-12.1 %, within its spread", "-62.7 %: -101.0 [-103.5, -98.5]"]
    assert clear[4].startswith("agree: ")
    assert rows["ftml-vs less toe"][4].startswith("undecided, reverse order: ")
    assert "n = 1" in rows["ftml-vs less ftml-vl"][4]
    assert "ftml-vs less ftml+meta-sgd" not in rows
    assert [int(number) for number in re.findall(r"\b\d+\b", describe_holm(made))] == [2, 1, 95, 0, 2, 5, 1]
    assert compare_with_constants(made) == [], "FTML-VS does better than a constant here"
    worse = Results(make_results("pose", toe=[200.0], ftml=[134.1]))
    assert len(compare_with_constants(worse)) == 1


def test_the_first_step_compares_methods_from_the_same_start() -> None:
    found = make_results(
        "rainbow-mnist",
        **{
            "ftml-0.03": [10.0, 20.0, 30.0],
            "ftml-vs-0.03": [11.0, 19.0, 33.0],
            "learned-constant-0.03": [12.0, 21.0, 34.0],
            "ftml-vs": [5.0, 6.0],
            "ftml": [7.0, 9.0],
        },
    )
    results = Results(found)
    differences = {(each.table.first_step, each.pair.second): each.ours for each in list_differences(results)}
    assert {key: ours.mean for key, ours in differences.items()} == pytest.approx(
        {(0.1, "ftml"): -2.5, (0.03, "learned-constant-0.03"): -4 / 3, (0.03, "ftml-0.03"): 1.0}
    )
    chosen = chosen_difference(results)
    assert chosen is not None
    assert (chosen.mean, chosen.n) == (pytest.approx(-4 / 3), 3)
    text = "\n".join(write_first_step(results, []))
    ps = sorted(float(ours.p) for ours in differences.values() if ours.p is not None)
    row = next(line for line in text.splitlines() if "ftml-vs less learned-constant" in line)
    p, adjusted = (float(cell) for cell in row.strip("| ").split(" | ")[5:7])
    assert p == pytest.approx(chosen.p, abs=1e-3)
    assert adjusted == pytest.approx(3 * ps[0], abs=2e-3), "the smallest of three"
    assert chosen.p == ps[0]


def test_the_pooled_error_is_that_of_a_model_with_methods_and_seeds() -> None:
    """Least squares on indicator columns, computed here; with two methods it is the paired t test."""
    labels = ("ftml-0.03", "ftml-vs-0.03", "learned-constant-0.03")
    losses = np.array([[10.0, 20.0, 31.0, 47.0], [11.0, 19.0, 33.0, 41.0], [12.0, 24.0, 34.0, 44.0]])
    table = TABLES["first-step-0.03"]
    found = make_results("rainbow-mnist", **{name: [*row] for name, row in zip(labels, losses, strict=True)})
    methods, seeds = losses.shape
    columns = np.array(
        [[*np.eye(methods)[method], *np.eye(seeds)[seed][1:]] for method in range(methods) for seed in range(seeds)]
    )
    freedom = columns.shape[0] - columns.shape[1]
    solution, residual, *_ = np.linalg.lstsq(columns, losses.ravel())
    contrast = np.array([-1.0, 1.0, 0.0, *[0.0] * (seeds - 1)])
    error = np.sqrt(residual[0] / freedom * contrast @ np.linalg.inv(columns.T @ columns) @ contrast)
    pooled = pooled_difference(table, Results(found), labels[1], labels[0])
    assert pooled is not None
    width = stats.t.ppf(0.975, freedom) * error
    assert pooled.mean == pytest.approx(contrast @ solution)
    assert (pooled.low, pooled.high) == pytest.approx((pooled.mean - width, pooled.mean + width))
    assert pooled.p == pytest.approx(2 * stats.t.sf(abs(pooled.mean) / error, freedom))
    two = Results(found[: 2 * seeds])
    alone, paired = pooled_difference(table, two, labels[1], labels[0]), Difference.of((losses[1] - losses[0]).tolist())
    assert alone is not None
    assert dataclasses.astuple(alone) == pytest.approx(dataclasses.astuple(paired))
    assert pooled_difference(table, two, labels[1], labels[2]) is None
    alike = Results(make_results("rainbow-mnist", **{labels[0]: [1.0, 5.0], labels[1]: [3.0, 7.0]}))
    assert pooled_difference(table, alike, labels[1], labels[0]) == Difference(2.0, 2.0, 2.0, 0.0, 2)


def test_short_tasks_compare_all_three_methods() -> None:
    losses = {
        "ftml-short": [10.0, 20.0, 30.0],
        "ftml-vs-short": [14.0, 25.0, 34.0],
        "learned-constant-short": [11.0, 22.0, 36.0],
    }
    found = make_results("rainbow-mnist", **losses)
    differences = [
        (each.pair.first, each.pair.second, each.ours.mean) for each in list_short_differences(Results(found))
    ]
    assert differences == [
        ("ftml-vs-short", "learned-constant-short", pytest.approx(4 / 3)),
        ("ftml-vs-short", "ftml-short", pytest.approx(13 / 3)),
        ("learned-constant-short", "ftml-short", 3.0),
    ]
    rule = rule_with_short_tasks(Results(found))
    assert rule is not None
    assert rule.mean == pytest.approx(4 / 3)
    text = "\n".join(write_short_tasks(Results(found)))
    assert cells(text, "ftml")[1:] == ["20.0 ± 10.0", "3", "200 ± 100", "3.0 ± 0.0", "", "0.100", "", "0.900"]
    assert "No run mastered" not in text
    none = [unmastered(result) for result in found]
    assert "every run received all 300 labels" in "\n".join(write_short_tasks(Results(none)))
    assert write_short_tasks(Results([])) == []
    assert rule_with_short_tasks(Results([])) is None


def unmastered(result: Result) -> Result:
    """The same result, if no task had been mastered."""
    assert isinstance(result.outcome, Online)
    totals = result.outcome.totals.model_copy(update={"mastered": 0})
    return result.model_copy(update={"outcome": result.outcome.model_copy(update={"totals": totals})})


def test_nothing_is_said_of_the_first_step_before_it_was_run() -> None:
    assert write_first_step(Results([]), []) == []
    assert chosen_difference(Results([])) is None
    assert list_plots(Results([])) == {"first-step": {}}


def test_the_document_is_what_the_results_give() -> None:
    assert generate(read_results(RESULTS)) == DOCUMENT.read_text("utf-8"), "run: python -m paper document"


def test_the_figures_are_of_the_results() -> None:
    plots = list_plots(read_results(RESULTS))
    wanted = {name: plot.digest for each in plots.values() for name, plot in each.items()}
    drawn_from = {
        path.name: re.findall(r"<!-- (drawn from \w+) -->", path.read_text("utf-8"))[0]
        for path in (RESULTS / FIGURES).iterdir()
    }
    assert drawn_from == wanted, "run: python -m paper document"


def test_every_figure_is_in_the_document() -> None:
    linked = re.findall(r"!\[.+?\]\((.+?)\)", DOCUMENT.read_text("utf-8"))
    assert {DOCUMENT.parent / path for path in linked} == {*(RESULTS / FIGURES).iterdir()}


def test_figures_have_the_same_bytes_every_time(made: Results) -> None:
    plots = list_plots(made)["pose"]
    names = ("cumulative-loss", "cumulative-loss-adapting", "difference-to-toe", "difference-to-ftml")
    assert set(plots) == {f"pose-{name}.svg" for name in names}
    for plot in plots.values():
        assert plot.render() == plot.render()
        assert f"<!-- {plot.digest} -->".encode() in plot.render()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_difference_has_zero_drawn_once(sign: float) -> None:
    """As one line, or as the lower end of the axis."""
    found = Results(make_results("pose", ftml=[50.0, 60.0], ftml_vs=[50.0 + 9 * sign, 60.0 + 8 * sign]))
    panel = list_plots(found)["pose"]["pose-difference-to-ftml.svg"].draw()
    panel.picture("")
    lines = [line for line in panel.axes.lines if set(np.ravel(line.get_ydata())) == {0.0}]
    assert len(lines) + (panel.axes.get_ylim()[0] == 0) == 1


def test_the_first_step_shows_methods_side_by_side_with_their_seeds() -> None:
    losses = {"ftml": [5.0, 6.0], "ftml-vs": [5.0], "ftml-0.03": [4.0], "ftml-vs-0.03": [4.0]}
    plots = list_plots(Results(make_results("rainbow-mnist", **losses)))["first-step"]
    panel = plots["first-step.svg"].draw()
    assert [tick.get_text() for tick in panel.axes.get_xticklabels()] == ["0.03\n(1)", "0.1\n(1 to 2)"]
    assert [name for _, name in panel.entries] == ["ftml", "ftml-vs"]
    places = [np.asarray(line.get_xdata(), float) for line, _ in panel.entries]
    assert np.all(np.abs(np.log(places[0] / places[1])) > 0.05)


def test_another_folder_gets_a_document_beside_it(tmp_path: Path) -> None:
    results = tmp_path / "kept"
    (results / "pose").mkdir(parents=True)
    (results / "figures").mkdir()
    (results / "figures/old.svg").touch()
    for result in make_results("pose", toe=[1.0], ftml=[2.0]):
        (results / f"pose/{result.job.file_name}.json").write_text(result.model_dump_json())
    write_document(results, tmp_path / "REPRODUCTION.md")
    text = (tmp_path / "REPRODUCTION.md").read_text("utf-8")
    assert "(kept/figures/pose-cumulative-loss.svg)" in text
    assert not (results / "figures/old.svg").exists()
    assert (results / "figures/pose-difference-to-toe.svg").is_file()
