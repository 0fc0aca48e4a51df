"""FTML with every rule for the inner step size: algorithm 2."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from tests.support.plain_online.derivatives import Var, gradient, value_and_gradient
from tests.support.plain_online.parts import Method, forward, risk, squared_length
from tests.support.plain_online.world import Drawn, Points

MOMENTS_KEPT = 0.9


class FollowTheMetaLeader(Method):
    """θ (or μ and log σ) first, then the raw numbers of the rate rule."""

    def __init__(self, learner: Any, key: Any):
        super().__init__(learner, key, learner.spec.problem.outputs)
        self.name = learner.spec.name
        self.arrays = len(self.parameters)
        mean = list(self.parameters)
        if self.hyper.kl_coefficient:
            self.parameters = mean + [np.full(m.shape, math.log(0.0183)) for m in mean]
        self.weights = len(self.parameters)
        log_rate, log_eta = np.asarray(math.log(self.hyper.inner_rate)), np.asarray(math.log(self.hyper.eta))
        self.c1 = self.c2 = 1.0
        self.parameters += {
            "ftml": [],
            "ftml-vl": [np.full(self.problem.max_shots + 1, log_rate)],
            "ftml-vs": [log_rate, log_eta],
            "ftml+meta-sgd": [np.full(m.shape, log_rate) for m in mean],
            "ftml-vs+meta-sgd": [*(np.full(m.shape, log_rate) for m in mean), log_eta],
            "ftml-vs-closed-form": [log_rate],
            "ftml-learned-constant": [log_rate],
        }[self.name]

    def alpha(self, raw: list[Var], shots: int) -> Any:
        """α_s: one number, or a list with one array for each of the weights."""
        s = min(shots, self.problem.max_shots)
        if self.name == "ftml":
            return Var(self.hyper.inner_rate)
        if self.name == "ftml-learned-constant":
            return raw[0].exp()
        if self.name == "ftml-vl":
            return (raw[0] * (np.arange(raw[0].shape[0]) == s)).sum().exp()
        if self.name == "ftml-vs":
            return raw[0].exp() * (1 - 1 / (1 + raw[1].exp() * s))
        if self.name == "ftml+meta-sgd":
            return [one.exp() for one in raw]
        if self.name == "ftml-vs+meta-sgd":
            return [one.exp() * (1 - 1 / (1 + raw[-1].exp() * s)) for one in raw[:-1]]
        return raw[0].exp() * (1 - 1 / (1 + self.c2 / self.c1 * s))

    def adapted(self, theta: list[Var], raw: list[Var], points: Points) -> list[Var]:
        """VS-Update-Procedure."""
        if not points:
            return theta
        alpha = self.alpha(raw, len(points))
        for _ in range(self.hyper.inner_steps):
            g = gradient(risk(theta, points, self.problem.classification), theta)
            if not self.hyper.second_order:
                g = [Var(one.value) for one in g]
            if self.hyper.inner_clip is not None:
                length = squared_length(g) ** 0.5
                if length.value > self.hyper.inner_clip:
                    g = [one * (self.hyper.inner_clip / length) for one in g]
            if isinstance(alpha, list):
                theta = [p - a * d for p, a, d in zip(theta, alpha, g, strict=True)]
            else:
                theta = [p - alpha * d for p, d in zip(theta, g, strict=True)]
        return theta

    def update(self, drawn: Drawn, key: Any) -> float:
        """VS-Meta-Update, one step of it."""
        if self.name == "ftml-vs-closed-form":
            self.measure([val for _, _, val in drawn.episodes])
        noise = []
        if self.hyper.kl_coefficient:
            keys = jax.random.split(key, self.arrays)
            noise = [np.asarray(jax.random.normal(keys[i], self.parameters[i].shape)) for i in range(self.arrays)]
        return self.descend(lambda parameters: self.objective(parameters, drawn.episodes, noise))

    def objective(self, parameters: list[Var], episodes: list[Any], noise: list[Any]) -> Var:
        """J, with Gaussian weights plus its share of their KL from a standard normal."""
        theta, raw = parameters[: self.arrays], parameters[self.weights :]
        total = Var(0.0)
        for _, train, val in episodes:
            drawn = theta
            if noise:
                log_stds = parameters[self.arrays : self.weights]
                drawn = [m + log_s.exp() * e for m, log_s, e in zip(theta, log_stds, noise, strict=True)]
            total = total + risk(self.adapted(drawn, raw, train), val, self.problem.classification)
        total = total / len(episodes)
        if noise:
            for m, log_s in zip(theta, parameters[self.arrays : self.weights], strict=True):
                variance = log_s.exp() ** 2
                total = total + self.hyper.kl_coefficient * (0.5 * (variance + m**2 - 1 - variance.log())).sum()
        return total

    def measure(self, tasks: list[Points]) -> None:
        """C1 and C2 of theorem 1, datapoint by datapoint, averaged with what they were."""
        theta = self.parameters[: self.arrays]
        variances, squares = [], []
        for points in tasks:
            if len(points) < 2:
                continue
            n, gradients = len(points), []
            for point in points:
                _, g = value_and_gradient(lambda at, one=point: risk(at, [one], self.problem.classification), theta)
                gradients.append(np.concatenate([one.reshape(-1) for one in g]))
            mean = sum(gradients) / n
            variance = sum(float(np.sum((g - mean) ** 2)) for g in gradients) / (n - 1)
            variances.append(variance)
            squares.append(float(np.sum(mean**2)) - variance / n)
        if variances:
            self.c1 = MOMENTS_KEPT * self.c1 + (1 - MOMENTS_KEPT) * sum(variances) / len(variances)
            self.c2 = MOMENTS_KEPT * self.c2 + (1 - MOMENTS_KEPT) * max(0.0, sum(squares) / len(squares))

    def predict(self, support: Points, inputs: list[Any]) -> Var:
        parameters = [Var(p) for p in self.parameters]
        return forward(self.adapted(parameters[: self.arrays], parameters[self.weights :], support), inputs)

    def rates(self) -> list[float]:
        """α_s for s = 0..M, its mean over the weights where each has its own."""
        found = []
        for shots in range(self.problem.max_shots + 1):
            alpha = self.alpha([Var(p) for p in self.parameters[self.weights :]], shots)
            of_each = [one.value for one in alpha] if isinstance(alpha, list) else [alpha.value]
            found.append(float(sum(one.sum() for one in of_each) / sum(one.size for one in of_each)))
        return found
