"""Meta-training on some tasks, and k-shot evaluation on others (paper, section 6.1)."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr
from anyshot.offline.protocol import OfflineProtocol

if TYPE_CHECKING:
    from anyshot.offline.evaluation import Scores, evaluate
    from anyshot.offline.loop import OfflineLoop, OfflineState, Trained
    from anyshot.offline.split import Split, split_for

__all__ = ["OfflineLoop", "OfflineProtocol", "OfflineState", "Scores", "Split", "Trained", "evaluate", "split_for"]

__getattr__ = lazy_getattr(
    __name__,
    {
        "evaluation": ("Scores", "evaluate"),
        "loop": ("OfflineLoop", "OfflineState", "Trained"),
        "split": ("Split", "split_for"),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
