"""Adapting a model to a task's shots, and the objective that makes it good at that."""

from anyshot.adaptation.gaussian import GaussianWeights
from anyshot.adaptation.losses import Loss, cross_entropy, squared_error
from anyshot.adaptation.objective import MetaObjective
from anyshot.adaptation.theory import GradientMoments, gradient_moments, optimal_rate, remeasure
from anyshot.adaptation.update import Update

__all__ = [
    "GaussianWeights",
    "GradientMoments",
    "Loss",
    "MetaObjective",
    "Update",
    "cross_entropy",
    "gradient_moments",
    "optimal_rate",
    "remeasure",
    "squared_error",
]
