"""The methods: each is a `Learner`, three pure functions over a state."""

from anyshot.learners.agem import AGEM
from anyshot.learners.catalogue import make_learner
from anyshot.learners.ftml import FTML
from anyshot.learners.learner import Drawn, Learner
from anyshot.learners.names import LEARNERS
from anyshot.learners.protonet import ProtoNet
from anyshot.learners.recipe import Recipe
from anyshot.learners.toe import TOE

__all__ = ["AGEM", "FTML", "LEARNERS", "TOE", "Drawn", "Learner", "ProtoNet", "Recipe", "make_learner"]
