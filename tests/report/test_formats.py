"""Every format holds the same numbers, and names cannot break out of it."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from anyshot.errors import InputError
from anyshot.report import Comparison, compare, format_comparisons, write_comparisons
from tests.report.conftest import Written
from tests.support.written_runs import Events, write_run


def cells(comparison: Comparison) -> dict[str, list[str]]:
    """The numbers of each method as a table shows them."""
    found = {}
    for method, row in comparison.table.iterrows():
        found[str(method)] = [
            f"{one.scale * row[f'{one.name}_mean']:,.{one.digits}f} ± "
            f"{one.scale * row[f'{one.name}_deviation']:,.{one.digits}f}"
            for one in comparison.measures
        ]
    return found


@pytest.mark.parametrize("kind", ["online", "offline"])
def test_every_format_holds_the_same_numbers(kind: str, request: pytest.FixtureRequest) -> None:
    folder, _ = request.getfixturevalue(f"{kind}_runs")
    (comparison,) = compare(folder)
    (found,) = json.loads(comparison.format("json"))
    lines = list(csv.DictReader(io.StringIO(comparison.format("csv"))))
    text, markdown, latex = (comparison.format(form) for form in ("text", "markdown", "latex"))
    assert str(comparison) == text
    assert [row["method"] for row in found["table"]] == comparison.methods
    assert [run["run"] for run in found["runs"]] == list(comparison.group.runs["run"])
    assert found["settings"]["data.name"] == "rainbow-digits"
    assert len(lines) == len(comparison.methods) * len(comparison.measures)
    for line in lines:
        row = comparison.table.loc[line["method"]]
        less = comparison.difference(line["method"], line["measure"])
        assert float(line["mean"]) == row[f"{line['measure']}_mean"]
        assert float(line["deviation"]) == row[f"{line['measure']}_deviation"]
        assert line["against"] == comparison.against
        expected = [less.mean, less.low, less.high, less.p, less.n] if less else [None] * 5
        given = [line[end] for end in ("difference", "low", "high", "p", "pairs")]
        assert [float(end) if end else None for end in given] == expected
    for method, numbers in cells(comparison).items():
        assert re.search(re.escape(method) + r"\s+3\s+" + r"\s+".join(map(re.escape, numbers)), text)
        assert re.search(r"\|\s+".join(map(re.escape, numbers)).replace(r"\|", r" +\|"), markdown)
        inside = [number.replace("±", r"$\pm$") for number in numbers]
        assert r" & ".join(inside) in re.sub(" +", " ", latex)
    for less in map(comparison.difference, comparison.methods, [comparison.measures[0].name] * 3):
        if less is not None:
            one = comparison.measures[0]
            mean, low, high = (
                f"{one.scale * end:+,.{one.digits}f}" for end in (less.mean, less.low or 0, less.high or 0)
            )
            assert f"{mean} [{low}, {high}]" in text


def test_files_get_the_format_of_their_name(online_runs: Written, tmp_path: Path) -> None:
    comparisons = compare(online_runs[0])
    for suffix, form in ((".csv", "csv"), (".json", "json"), (".md", "markdown"), (".tex", "latex"), (".txt", "text")):
        write_comparisons(comparisons, tmp_path / "new" / f"table{suffix}")
        assert (tmp_path / "new" / f"table{suffix}").read_text("utf-8") == format_comparisons(comparisons, form)
    assert not list((tmp_path / "new").glob(".*"))
    with pytest.raises(InputError, match=r"out must end in \.txt"):
        write_comparisons(comparisons, tmp_path / "table.doc")
    with pytest.raises(InputError, match="form must be one of"):
        format_comparisons(comparisons, "html")


def test_one_seed_has_no_spread_and_its_test_has_an_error(tmp_path: Path) -> None:
    def widen(events: Events) -> Events:
        return [event | ({"accuracy_error": 0.0042} if event["kind"] == "test" else {}) for event in events]

    for learner in ("toe", "ftml"):
        write_run(tmp_path / learner, learner, 0)
    write_run(tmp_path / "maml", "maml", 4, "rainbow-digits-offline", change=widen)
    online, offline = compare(tmp_path)
    assert "±" not in online.format().split("\n", 1)[1]
    assert [row["cumulative_loss_deviation"] for row in json.loads(online.format("json"))[0]["table"]] == [None, None]
    assert f"{100 * offline.table['accuracy_at_0_shots_mean']['maml']:.1f} ± 0.4" in offline.format()
    assert "standard error over test episodes" in offline.format()
    write_run(tmp_path / "vs-4", "maml-vs", 4, "rainbow-digits-offline")
    write_run(tmp_path / "vs-5", "maml-vs", 5, "rainbow-digits-offline")
    assert "where n = 1" in compare(tmp_path)[1].format()


EVIL = ["_x", "a|b", "<script>", "50% & #1 \\input{x} $y$ ~^{}", "[2em] `code` *b*", "naïve"]


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Learners whose names mean something in a table."""
    folder = tmp_path_factory.mktemp("evil")
    for number, name in enumerate(EVIL):
        write_run(folder / str(number), name, 0)
    return compare(folder)[0]


def test_markdown_shows_names_as_they_are(evil: Comparison) -> None:
    lines = evil.format("markdown").splitlines()
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|") and "---" not in line]
    means = rows[: len(EVIL) + 1]
    assert {len(row) for row in means} == {7}
    shown = {re.sub(r"\\(?=[^0-9A-Za-z ])", "", row[0].strip()) for row in means[1:]}
    assert shown == set(EVIL)
    raw = "\n".join(row[0] for row in rows)
    assert not re.search(r"(?<!\\)[<>*`\[$]", raw)
    assert not re.search(r"(^|\s)_", raw)


def test_latex_shows_names_as_they_are(evil: Comparison) -> None:
    latex = evil.format("latex")
    body = latex[latex.index(r"\midrule") : latex.index(r"\bottomrule")]
    rows = [line for line in body.splitlines() if line.rstrip().endswith(r"\\")]
    assert len(rows) == len(EVIL)
    for row in rows:
        assert len(re.split(r"(?<!\\)&", row)) == 7
        name = re.split(r"(?<!\\)&", row)[0]
        assert not re.search(r"(?<!\\)[%#_]", name)
        assert r"\input" not in name
        assert not row.lstrip().startswith("["), "after a line end it would be read as a length"


def test_tables_of_both_kinds_go_into_one_csv(online_runs: Written, offline_runs: Written) -> None:
    text = format_comparisons(compare([online_runs[0], offline_runs[0]]), "csv")
    table = pd.read_csv(io.StringIO(text))
    assert set(table["kind"]) == {"online", "offline"}
    assert table["mean"].notna().all()
    assert not table.duplicated(["kind", "method", "measure"]).any()


def test_the_words_do_not_claim_more_than_the_seeds_show(online_runs: Written, offline_runs: Written) -> None:
    found: Any = [one.format() for one in compare([online_runs[0], offline_runs[0]])]
    for word in ("sure", "chance", "significant", "proof"):
        assert not any(word in text for text in found)
