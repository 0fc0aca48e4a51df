"""The plain loop, which the compiled one is compared with, has the right derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.online_cases import Case, plain
from tests.support.plain_online.derivatives import value_and_gradient, var
from tests.support.tiny_tasks import regression


@pytest.mark.medium
def test_derivatives_are_those_of_small_differences() -> None:
    result = plain(Case("ftml-vs", regression, (), (("kl_coefficient", 0.01),)))
    method = result.method
    episodes = next(drawn.episodes for drawn in result.draws if min(len(train) for _, train, _ in drawn.episodes))
    noise = [np.full(p.shape, 0.5) for p in method.parameters[: method.arrays]]

    def objective(at: list[Any]) -> Any:
        return method.objective([var(p) for p in at], episodes, noise)

    _, gradient = value_and_gradient(objective, method.parameters)
    for number, slope in enumerate(gradient):
        for place in np.ndindex(slope.shape):
            values = []
            for change in (1e-5, -1e-5):
                moved = [np.array(p) for p in method.parameters]
                moved[number][place] += change
                values.append(float(objective(moved).value))
            assert slope[place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-7)
