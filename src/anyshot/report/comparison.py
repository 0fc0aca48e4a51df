"""The methods of each group compared to a reference, whatever kind of runs they are."""

from __future__ import annotations

from collections.abc import Sequence

from anyshot.errors import InputError
from anyshot.report.offline_comparison import OfflineComparison, compare_offline
from anyshot.report.offline_runs import OfflineGroup
from anyshot.report.online_comparison import Comparison, compare_online
from anyshot.report.online_runs import Group

AnyComparison = Comparison | OfflineComparison


def compare(groups: Sequence[Group | OfflineGroup], against: str | None = None) -> list[AnyComparison]:
    """One comparison for each group, with `against` as the reference where it is.

    Default: toe online and maml offline, if they are there, else the first method.
    """
    there = list(dict.fromkeys(learner for group in groups for learner in group.learners))
    if against is not None and against not in there:
        raise InputError(f"--against must be one of the learners here ({', '.join(there)}), got {against!r}")
    return [
        compare_offline(group, against) if isinstance(group, OfflineGroup) else compare_online(group, against)
        for group in groups
    ]
