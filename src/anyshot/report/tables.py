"""Comparisons ready to be written, whatever kind of runs they are of."""

from __future__ import annotations

from anyshot.report.comparison import AnyComparison
from anyshot.report.formats import Shown
from anyshot.report.offline_comparison import OfflineComparison
from anyshot.report.offline_tables import shown_offline
from anyshot.report.online_tables import shown_online


def shown(comparison: AnyComparison) -> Shown:
    """Everything about a comparison that is written in any format."""
    return shown_offline(comparison) if isinstance(comparison, OfflineComparison) else shown_online(comparison)
