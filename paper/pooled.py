"""Two methods of a table compared with an error that all its methods tell of."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats  # type: ignore[import-untyped]

from anyshot.report.statistics import CONFIDENCE, Difference
from paper.results import Results
from paper.targets import CUMULATIVE_LOSS, Table


def pooled_difference(table: Table, results: Results, first: str, second: str) -> Difference | None:
    """The cumulative loss of one method less that of another; None if fewer than two seeds have every method.

    A loss is taken as the method's effect, plus the seed's, plus a residual that scatters alike for all methods. Its
    variance then has (methods - 1) (seeds - 1) degrees of freedom, where one pair alone has seeds - 1.
    """
    losses = {label: results.rows(table.preset, label)[CUMULATIVE_LOSS] for label in table.paper}
    found = pd.DataFrame({label: loss for label, loss in losses.items() if len(loss)}).dropna()
    if not {first, second} <= set(found.columns) or len(found) < 2:
        return None
    values, n = found.to_numpy(), len(found)
    residual = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    freedom = (values.shape[1] - 1) * (n - 1)
    mean, error = float((found[first] - found[second]).mean()), float(np.sqrt(2 / n * (residual**2).sum() / freedom))
    if error == 0:  # all differences are equal, so the interval has no width
        return Difference(mean, mean, mean, 0.0 if mean else 1.0, n)
    low, high = stats.t.interval(CONFIDENCE, freedom, loc=mean, scale=error)
    return Difference(mean, float(low), float(high), float(2 * stats.t.sf(abs(mean) / error, freedom)), n)
