"""The step sizes that were learned: is it true that few shots deserve a smaller step?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from anyshot.reproduction.results import Result, Results
from anyshot.runs.presets import PRESETS

FIXED = "ftml"  # its step size is not learned
FEW = (1, 2, 5, 10)  # shots to show, beside M
TOLD = (
    "Step sizes at the end of the stream, means over seeds; in brackets where they began, and where FTML's stay. "
    "Theorem 1 says that alpha_s should rise with the number s of shots. FTML-VS has that built in. FTML-VL has a step "
    "size of its own for each s, so that where it rises, that was found in the data. With Meta-SGD it is the mean over "
    "parameters, the same for every s unless it is scaled. FTML's step is not learned and stays where it began (on "
    "Rainbow MNIST the paper's 0.1); where methods that learn theirs end lower, how much of their lead is the rule and "
    "how much a smaller step has not been separated (docs/reproduction-notes.md)."
)


def learned(results: Results) -> list[list[str]]:
    """A table with its head; empty if no run has learned any."""
    rows = []
    for preset in results.presets():
        for learner in results.learners(preset):
            runs = [run for run in results.of(preset, learner).values() if len(run.rates.get("alpha", ())) > 1]
            if runs and learner != FIXED:
                rows.append(_row(preset, learner, runs))
    head = ["setting (at first)", "method", "seeds", *(f"alpha_{s}" for s in FEW), "alpha_M", "rises", "beta", "eta"]
    return [head, *rows] if rows else []


def _row(preset: str, learner: str, runs: Sequence[Result]) -> list[str]:
    alpha = [fmean(values) for values in zip(*(run.rates["alpha"] for run in runs), strict=True)]
    ends = {name: [run.rates[name][-1] for run in runs if name in run.rates] for name in ("beta", "eta")}
    first = f" ({PRESETS[preset][0].numbers.inner_rate:g})" if preset in PRESETS else ""
    return [
        f"`{preset}`{first}",
        learner,
        str(len(runs)),
        *(f"{alpha[s]:.3g}" if s < len(alpha) else "" for s in FEW),
        f"{alpha[-1]:.3g}",
        _rises(alpha[1:]),
        *(f"{fmean(values):.3g}" if values else "" for values in ends.values()),
    ]


def _rises(alpha: Sequence[float]) -> str:
    """At how many of the steps from s to s + 1.

    >>> _rises([1.0, 2.0, 3.0, 2.5]), _rises([1.0, 1.0])
    ('2 of 3', 'constant')
    """
    if max(alpha) == min(alpha):
        return "constant"
    return f"{sum(after > before for before, after in pairwise(alpha))} of {len(alpha) - 1}"
