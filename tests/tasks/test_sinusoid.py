"""Sine waves are what their names say."""

from __future__ import annotations

import numpy as np

from anyshot.tasks import load_tasks


def test_sinusoid_is_its_formula() -> None:
    tasks = load_tasks("sinusoid", num_tasks=7, train_rows=5, test_rows=3)
    for task, name in enumerate(tasks.task_names):
        amplitude, phase = (float(number) for number in name.replace(")", "").split(" sin(x - "))
        x, y = tasks.look_up(tasks.train_rows[task])
        assert np.abs(y - amplitude * np.sin(x - phase)).max() < 0.005 * (1 + amplitude) + 1e-6, "names have two digits"
        assert 0.1 <= amplitude <= 5
        assert 0 <= phase <= 3.15
        assert np.abs(x).max() <= 5
