"""The step sizes that were learned: is it true that few shots deserve a smaller step?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from paper.records import Online
from paper.results import Results
from paper.targets import LABELS

FEW = (1, 2, 5, 10)  # shots to show, beside M
TEXT = """Step sizes at the end of the stream, means over seeds; in brackets the step size at the start. Theorem 1 says
that alpha_s should rise with the number s of shots. FTML-VS has that built in. FTML-VL has a step size of its own for
each s, so where it rises, that was found in the data. With Meta-SGD it is the mean over parameters, the same for every
s unless it is scaled. FTML's step is fixed (on Rainbow MNIST at the paper's 0.1); "What the rule is worth" has other
first steps."""


def rate_rows(results: Results) -> list[list[str]]:
    """A row for each method that learns its step size; only the head if none was run."""
    rows = [["setting (at first)", "method", "seeds", *(f"alpha_{s}" for s in FEW), "alpha_M", "rises", "beta", "eta"]]
    for preset, label in dict.fromkeys((result.preset, result.label) for result in results.found):
        runs = results.of(preset, label)
        rates = [run.outcome.rates for run in runs if isinstance(run.outcome, Online) and "alpha" in run.outcome.rates]
        if not rates or label in LABELS or label in ("ftml", "anyshot"):  # FTML's is fixed; anyshot is a pool
            continue
        alpha = [fmean(values) for values in zip(*(each["alpha"] for each in rates), strict=True)]
        last = {name: [each[name][-1] for each in rates if name in each] for name in ("beta", "eta")}
        first = runs[0].experiment.learner.hyperparameters["inner_rate"]
        rows.append(
            [
                f"`{preset}` ({first:g})",
                label,
                str(len(rates)),
                *(f"{alpha[s]:.3g}" if s < len(alpha) else "" for s in FEW),
                f"{alpha[-1]:.3g}",
                count_rises(alpha[1:]),
                *(f"{fmean(values):.3g}" if values else "" for values in last.values()),
            ]
        )
    return rows


def count_rises(alpha: Sequence[float]) -> str:
    """At how many of the steps from s to s + 1 it rises.

    >>> count_rises([1.0, 2.0, 3.0, 2.5]), count_rises([1.0, 1.0])
    ('2 of 3', 'constant')
    """
    if max(alpha) == min(alpha):
        return "constant"
    return f"{sum(after > before for before, after in pairwise(alpha))} of {len(alpha) - 1}"
