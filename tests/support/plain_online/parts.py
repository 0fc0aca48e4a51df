"""What the methods share: an MLP, losses, and Adam with clipping, written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.plain_online.derivatives import Var, value_and_gradient, var
from tests.support.plain_online.world import Points

SLOPE = 0.01  # of the leaky ReLU below zero


def forward(theta: list[Any], inputs: list[Any]) -> Var:
    """An MLP's outputs for the inputs, one row each."""
    h = Var(np.stack([np.asarray(x).reshape(-1) for x in inputs]))
    for layer in range(0, len(theta), 2):
        h = h @ var(theta[layer]).T + theta[layer + 1]
        if layer + 2 < len(theta):
            h = h * np.where(h.value >= 0, 1.0, SLOPE)
    return h


def mean_of_losses(outputs: Var, labels: list[Any], classification: bool) -> Var:
    if classification:
        of_label = np.zeros(outputs.shape)
        for row, label in enumerate(labels):
            of_label[row, int(label)] = 1
        return (outputs.exp().sum_to((len(labels), 1)).log().sum() - (outputs * of_label).sum()) / len(labels)
    difference = outputs - np.stack([np.asarray(y) for y in labels])
    return (difference * difference).sum() / difference.value.size


def risk(theta: list[Any], points: Points, classification: bool) -> Var:
    return mean_of_losses(forward(theta, [x for _, x, _ in points]), [y for _, _, y in points], classification)


def squared_length(g: list[Any]) -> Any:
    return sum((one * one).sum() for one in g)


@dataclass
class Adam:
    rate: float
    clip: float
    steps: int = 0
    first: list[Any] = field(default_factory=list)
    second: list[Any] = field(default_factory=list)

    def step(self, parameters: list[Any], g: list[Any]) -> list[Any]:
        if not self.steps:
            self.first = [np.zeros(p.shape) for p in parameters]
            self.second = [np.zeros(p.shape) for p in parameters]
        length = math.sqrt(squared_length(g))
        if length > self.clip:
            g = [one * (self.clip / length) for one in g]
        self.steps += 1
        new = []
        for i in range(len(parameters)):
            self.first[i] = 0.9 * self.first[i] + 0.1 * g[i]
            self.second[i] = 0.999 * self.second[i] + 0.001 * g[i] ** 2
            first = self.first[i] / (1 - 0.9**self.steps)
            second = self.second[i] / (1 - 0.999**self.steps)
            new.append(parameters[i] - self.rate * first / (np.sqrt(second) + 1e-8))
        return new


class Method:
    """A learner: `parameters` is the list of all arrays that are learned.

    Args:
        learner: the package's learner, of which only the configuration is used.
        key: draws the weights.
        outputs: of the network.
    """

    def __init__(self, learner: Any, key: Any, outputs: int):
        self.problem, self.hyper = learner.spec.problem, learner.hyper
        self.adam = Adam(self.hyper.meta_rate, self.hyper.meta_clip)
        model = learner.spec.network(key, outputs)
        self.parameters = [np.asarray(leaf) for layer in model.layers for leaf in (layer.weight, layer.bias)]

    def descend(self, function: Callable[[list[Var]], Var]) -> float:
        loss, g = value_and_gradient(function, self.parameters)
        self.parameters = self.adam.step(self.parameters, g)
        return loss

    def rates(self) -> list[float] | None:
        return None
