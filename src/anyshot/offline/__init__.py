"""Meta-training on a set of tasks and k-shot evaluation on unseen ones (paper, section 6.1)."""

from typing import TYPE_CHECKING

from anyshot.lazily import lazily
from anyshot.offline.plan import Plan

if TYPE_CHECKING:
    from anyshot.offline.evaluation import Scores, evaluate
    from anyshot.offline.loop import OfflineLoop, OfflineState, Trained
    from anyshot.offline.split import Split, split_for

__all__ = ["OfflineLoop", "OfflineState", "Plan", "Scores", "Split", "Trained", "evaluate", "split_for"]

__getattr__ = lazily(
    __name__,
    {
        "evaluation": ("Scores", "evaluate"),
        "loop": ("OfflineLoop", "OfflineState", "Trained"),
        "split": ("Split", "split_for"),
    },
)
