"""The methods. Each is a `Learner`: three pure functions over a state."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr
from anyshot.learners.catalogue import LEARNERS, build_learner, register

if TYPE_CHECKING:
    from anyshot.learners.agem import AGEM
    from anyshot.learners.ftml import FTML
    from anyshot.learners.learner import Drawn, Learner
    from anyshot.learners.mann import MANN
    from anyshot.learners.network_learner import Hyperparameters, LearnerSpec, ModelState, NetworkLearner, Problem
    from anyshot.learners.protonet import ProtoNet
    from anyshot.learners.scratch import Scratch, ScratchNetwork
    from anyshot.learners.toe import TOE

__all__ = [
    "AGEM",
    "FTML",
    "LEARNERS",
    "MANN",
    "TOE",
    "Drawn",
    "Hyperparameters",
    "Learner",
    "LearnerSpec",
    "ModelState",
    "NetworkLearner",
    "Problem",
    "ProtoNet",
    "Scratch",
    "ScratchNetwork",
    "build_learner",
    "register",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "agem": ("AGEM",),
        "ftml": ("FTML",),
        "learner": ("Drawn", "Learner"),
        "mann": ("MANN",),
        "network_learner": ("Hyperparameters", "LearnerSpec", "ModelState", "NetworkLearner", "Problem"),
        "protonet": ("ProtoNet",),
        "scratch": ("Scratch", "ScratchNetwork"),
        "toe": ("TOE",),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
