"""One sentence on who came out best, that does not claim more than the seeds show."""

from __future__ import annotations

from collections.abc import Callable

from anyshot.report.online_comparison import Comparison, Row
from anyshot.report.spread import Spread

FEW = 3  # seeds below which even a difference beyond the spread proves little


def verdict(comparison: Comparison) -> str:
    """Who needed the fewest labels, who lost least, and where the difference drowns in the spread over seeds."""
    seeds = min(len(row.seeds) for row in comparison.rows)
    best, labels = _best(comparison, lambda row: row.labels, "fewer")
    least, loss = _best(comparison, lambda row: row.loss, "less")
    few = f"; with {seeds} seed{'s' * (seeds > 1)} this is a hint, not a proof" if seeds < FEW else ""
    who = "it" if least == best else least
    return f"{best} needed the fewest labels{labels}; {who} had the lowest cumulative loss{loss}{few}."


def _best(comparison: Comparison, of: Callable[[Row], Spread], fewer: str) -> tuple[str, str]:
    best, *others = sorted(comparison.rows, key=lambda row: of(row).mean)
    told = [against(of(best), of(other), other.learner, fewer) for other in others]
    return best.learner, f" ({', '.join(told)})" if told else ""


def against(best: Spread, other: Spread, name: str, fewer: str) -> str:
    """How far the best is below another.

    >>> against(Spread(90.0, 4.0), Spread(100.0, 5.0), "toe", "fewer")
    '10 % fewer than toe'
    >>> against(Spread(90.0, 4.0), Spread(100.0, 20.0), "toe", "fewer")
    '10 % fewer than toe, which is within the spread over seeds and may be chance'
    """
    less = other.mean - best.mean
    if less == 0:
        return f"the same as {name}"
    told = f"{100 * less / other.mean:.0f} % {fewer} than {name}"
    spread = max(best.deviation or 0.0, other.deviation or 0.0)
    return told + (", which is within the spread over seeds and may be chance" if less <= spread else "")
