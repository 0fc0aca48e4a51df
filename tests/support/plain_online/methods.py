"""The methods that are not FTML."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from tests.support.plain_online.derivatives import Var, value_and_gradient, var
from tests.support.plain_online.ftml import FollowTheMetaLeader
from tests.support.plain_online.parts import Method, forward, mean_of_losses, risk, squared_length
from tests.support.plain_online.world import Drawn, Points


class TrainOnEverything(Method):
    def __init__(self, learner: Any, key: Any):
        super().__init__(learner, key, learner.spec.problem.outputs)

    def update(self, drawn: Drawn, key: Any) -> float:
        return self.descend(lambda theta: risk(theta, drawn.batch, self.problem.classification))

    def predict(self, support: Points, inputs: list[Any]) -> Var:
        return forward(self.parameters, inputs)


class AveragedGem(TrainOnEverything):
    def update(self, drawn: Drawn, key: Any) -> float:
        classification = self.problem.classification
        loss, g = value_and_gradient(lambda theta: risk(theta, drawn.current, classification), self.parameters)
        if drawn.memory:
            _, r = value_and_gradient(lambda theta: risk(theta, drawn.memory, classification), self.parameters)
            dot = sum(float((a * b).sum()) for a, b in zip(g, r, strict=True))
            if dot < 0:
                g = [a - dot / squared_length(r) * b for a, b in zip(g, r, strict=True)]
        self.parameters = self.adam.step(self.parameters, g)
        return loss


class IncrementalProtoNet(Method):
    def __init__(self, learner: Any, key: Any):
        super().__init__(learner, key, learner.hyper.embedding)
        self.remembered: Points = []

    def logits(self, theta: list[Any], support: Points, inputs: list[Any]) -> Var:
        prototypes: list[Any] = []
        for c in range(self.problem.outputs):
            own = [x for _, x, y in support if int(y) == c]
            other = [x for _, x, y in self.remembered if int(y) == c]
            members = [forward(theta, [x]) for x in own or other]
            prototypes.append(sum(members) / len(members) if members else None)
        known = [prototype for prototype in prototypes if prototype is not None]
        centre = sum(known) / len(known) if known else Var(np.zeros((1, self.hyper.embedding)))
        embedded, total = forward(theta, inputs), Var(np.zeros((len(inputs), self.problem.outputs)))
        for c, prototype in enumerate(prototypes):
            difference = embedded - (centre if prototype is None else prototype)
            distance = (difference * difference).sum_to((len(inputs), 1))
            total = total - distance * (np.arange(self.problem.outputs) == c)
        return total

    def recall(self, memory: Points) -> None:
        self.remembered = memory[: self.hyper.remembered]

    def update(self, drawn: Drawn, key: Any) -> float:
        def objective(theta: list[Var]) -> Var:
            total = Var(0.0)
            for task, train, val in drawn.episodes:
                lent = zip(drawn.memory_task, drawn.memory, strict=True)
                self.recall([point for of_task, point in list(lent)[: self.hyper.remembered] if of_task != task])
                logits = self.logits(theta, train, [x for _, x, _ in val])
                total = total + mean_of_losses(logits, [y for _, _, y in val], True)
            return total / len(drawn.episodes)

        loss = self.descend(objective)
        self.recall(drawn.memory)
        return loss

    def predict(self, support: Points, inputs: list[Any]) -> Var:
        return self.logits(self.parameters, support, inputs)


class MemoryAugmented(Method):
    """Appendix D: a GRU reads features and labels of the shots; its state and a query's features give the outputs."""

    def __init__(self, learner: Any, key: Any):
        of_features, of_memory = jax.random.split(key)
        super().__init__(learner, of_features, learner.hyper.memory)
        self.layers = len(self.parameters)
        self.parameters += initial_memory(self.hyper.memory, self.problem.outputs, of_memory)

    def outputs(self, theta: list[Any], support: Points, inputs: list[Any]) -> Var:
        features, width = theta[: self.layers], self.hyper.memory
        embed, embed_bias, of_shot, of_state, bias, bias_new, head, head_bias = theta[self.layers :]
        state = Var(np.zeros((1, width)))
        for _, x, y in support:
            label = np.eye(self.problem.outputs)[int(y)] if self.problem.classification else np.asarray(y)
            embedded = Var(label.reshape(1, -1)) @ var(embed).T + embed_bias
            a = beside(forward(features, [x]), embedded) @ var(of_shot).T + bias
            b = state @ var(of_state).T
            reset, keep = (sigmoid(part(a, gate, width) + part(b, gate, width)) for gate in (0, 1))
            new = 2 * sigmoid(2 * (part(a, 2, width) + reset * (part(b, 2, width) + bias_new))) - 1  # tanh
            state = (1 - keep) * new + keep * state
        summaries = state.broadcast_to((len(inputs), width))
        return beside(summaries, forward(features, inputs)) @ var(head).T + head_bias

    def update(self, drawn: Drawn, key: Any) -> float:
        def objective(theta: list[Var]) -> Var:
            total = Var(0.0)
            for _, train, val in drawn.episodes:
                outputs = self.outputs(theta, train, [x for _, x, _ in val])
                total = total + mean_of_losses(outputs, [y for _, _, y in val], self.problem.classification)
            return total / len(drawn.episodes)

        return self.descend(objective)

    def predict(self, support: Points, inputs: list[Any]) -> Var:
        return self.outputs(self.parameters, support, inputs)


def initial_memory(width: int, out: int, key: Any) -> list[Any]:
    """Linear layers from normal, the GRU from uniform numbers; biases of linear layers are zero."""
    of_embedding, of_gru, of_head = jax.random.split(key, 3)
    keys, limit = jax.random.split(of_gru, 4), 1 / math.sqrt(width)
    shapes = [(3 * width, 2 * width), (3 * width, width), (3 * width,), (width,)]
    gru = [jax.random.uniform(k, s, minval=-limit, maxval=limit) for k, s in zip(keys, shapes, strict=True)]
    embedding = jax.random.normal(of_embedding, (width, out)) / math.sqrt(out)
    head = jax.random.normal(of_head, (out, 2 * width)) / math.sqrt(2 * width)
    return [np.asarray(one) for one in (embedding, np.zeros(width), *gru, head, np.zeros(out))]


def part(gates: Var, number: int, width: int) -> Var:
    """The columns of one gate."""
    return gates @ np.eye(gates.shape[1])[:, number * width : (number + 1) * width]


def beside(left: Var, right: Var) -> Var:
    wide = np.eye(left.shape[1] + right.shape[1])
    return left @ wide[: left.shape[1]] + right @ wide[left.shape[1] :]


def sigmoid(x: Var) -> Var:
    return 1 / (1 + (-x).exp())


def make_method(learner: Any, key: Any) -> Any:
    """The plain counterpart of a learner."""
    others = {"toe": TrainOnEverything, "a-gem": AveragedGem, "mann": MemoryAugmented, "protonet": IncrementalProtoNet}
    return others.get(learner.spec.name, FollowTheMetaLeader)(learner, key)
