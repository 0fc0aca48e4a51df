"""What a notebook shows of tasks: tables, figures and HTML."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anyshot.lifelong.pictures import NAMES
from tests.support.lives import draw_task, make_life

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]


@pytest.mark.parametrize("measure", ["right", "error"])
def test_tables_and_figures_show_every_expert(tmp_path: Path, measure: str) -> None:
    x, y = draw_task(0, 6)
    labels = y if measure == "right" else x @ np.array([1.0, -2.0, 0.5])
    with make_life(tmp_path / "life") as life:
        task = life.task("<b>")
        for n in range(6):
            task.observe(x[n : n + 1], labels[n : n + 1])
        table, (row,) = task.table, life.table.to_dict("records")
        lines = {line.get_label(): line.get_ydata() for line in task.plot().axes[0].lines}
        columns = {measure: "all, weighed", **{f"{measure}.{expert}": name for expert, name in NAMES.items()}}
        for heading, name in columns.items():
            column = table[heading].astype(float)
            assert row[heading] == pytest.approx(column.mean())
            np.testing.assert_allclose(lines[name], column.cumsum() / np.arange(1, 7))
        if measure == "error":
            learner = [fact.predicted[0, 0] for fact in task._record.facts]
            np.testing.assert_allclose(table["error.learner"], (np.array(learner) - labels) ** 2, rtol=1e-4)
        shown = life._repr_html_()
        assert "<b>" not in shown
        assert "<b>&lt;b&gt;</b>" in task._repr_html_()
        assert all(name in shown for name in ("&lt;b&gt;", f"{measure}.kernel", "6 labels"))
    assert "1 tasks" in life._repr_html_()
