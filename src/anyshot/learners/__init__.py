"""The methods: each is a `Learner`, three pure functions over a state."""

from typing import TYPE_CHECKING

from anyshot.lazily import lazily
from anyshot.learners.names import LEARNERS

if TYPE_CHECKING:
    from anyshot.learners.agem import AGEM
    from anyshot.learners.catalogue import make_learner
    from anyshot.learners.ftml import FTML
    from anyshot.learners.learner import Drawn, Learner
    from anyshot.learners.mann import MANN
    from anyshot.learners.protonet import ProtoNet
    from anyshot.learners.recipe import Recipe
    from anyshot.learners.toe import TOE

__all__ = ["AGEM", "FTML", "LEARNERS", "MANN", "TOE", "Drawn", "Learner", "ProtoNet", "Recipe", "make_learner"]

__getattr__ = lazily(
    __name__,
    {
        "agem": ("AGEM",),
        "catalogue": ("make_learner",),
        "ftml": ("FTML",),
        "learner": ("Drawn", "Learner"),
        "mann": ("MANN",),
        "protonet": ("ProtoNet",),
        "recipe": ("Recipe",),
        "toe": ("TOE",),
    },
)
