"""Adapting a model to a task's shots, and the objective that makes it good at that."""

from anyshot.adaptation.gaussian import GaussianWeights
from anyshot.adaptation.losses import Loss, cross_entropy, squared_error
from anyshot.adaptation.objective import MetaObjective
from anyshot.adaptation.shots import Episodes, Shots, stack_tasks
from anyshot.adaptation.theory import GradientMoments, gradient_moments, optimal_rate, reestimated
from anyshot.adaptation.update import Update

__all__ = [
    "Episodes",
    "GaussianWeights",
    "GradientMoments",
    "Loss",
    "MetaObjective",
    "Shots",
    "Update",
    "cross_entropy",
    "gradient_moments",
    "optimal_rate",
    "reestimated",
    "squared_error",
    "stack_tasks",
]
