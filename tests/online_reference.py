"""Algorithms 1 and 2 of the paper, and every method, in plain Python: lists and loops, no masks, no padding, no jit.

The buffer is a list of lists of datapoints. Nothing is shared with the package but configuration (the fields of
`Protocol` and `Recipe`) and random bits: the same keys are split in the same order, but what is chosen by the bits is
decided here anew. The network is an MLP, a Python list [W1, b1, W2, b2, ...]; what is learned is a Python list too.
Derivatives are taken by the chain rule, in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

MOMENTS_KEPT = 0.9
SLOPE = 0.01
Point = tuple[Any, Any, Any]  # row (or pair of rows) of the pool, input, label
Points = list[Point]


def bits_of(key: Any, shape: tuple[int, ...]) -> Any:
    """32 random bits each, as Python integers."""
    return np.asarray(jax.random.bits(key, shape, jnp.uint32)).tolist()


# The world: which task comes when, what of it arrives in which order, what it is tested on.


@dataclass
class World:
    unit: int
    order: list[int]
    given: list[Points]
    test: list[Points]


def make_world(tasks: Any, protocol: Any, key: Any) -> World:
    pairs = type(tasks).__name__ == "PairTasks"
    x, y, parts = np.asarray(tasks.x), np.asarray(tasks.y), {"given": tasks.given, "held": tasks.held}
    number = len(tasks.task_names)
    positions = number if protocol.tasks is None else protocol.tasks
    of_order, of_given, of_test = jax.random.split(key, 3)
    order_bits = np.asarray(jax.random.bits(of_order, (number,), "uint32")).tolist()
    order = [task for _, task in sorted((b, task) for task, b in enumerate(order_bits))][:positions]

    def single(one: Any, task: int, count: int, part: str) -> Points:
        rows = np.asarray(parts[part])[task].tolist()
        row_bits = np.asarray(jax.random.bits(one, (len(rows),), "uint32")).tolist()
        chosen = [rows[place] for _, place in sorted((b, place) for place, b in enumerate(row_bits))][:count]
        return [(row, x[row], y[row]) for row in chosen]

    def pair(one: Any, task: int, count: int, part: str) -> Points:
        rows = np.asarray(parts[part]).tolist()
        each = len(rows[task])
        b = bits_of(one, (6, math.ceil(count / 2)))
        found = []
        for c in range(math.ceil(count / 2)):
            reference = b[0][c] % each
            others = list(range(reference + 1, reference + each))
            positive = others[b[3][c] % (each - 1)] % each
            classes = [other % number for other in range(task + 1, task + number)]
            stranger = classes[b[4][c] % (number - 1)]
            same = (rows[task][reference], rows[task][positive])
            different = (rows[task][b[1][c] % each], rows[stranger][b[2][c] % each])
            found += [different, same] if b[5][c] % 2 else [same, different]
        return [((r, q), np.stack([x[r], x[q]]), int(y[r] == y[q])) for r, q in found[:count]]

    wanted = math.ceil(protocol.max_steps / protocol.every) * protocol.arrive
    capacity = wanted if pairs else min(wanted, tasks.given.shape[1])
    draw = pair if pairs else single
    given_keys, test_keys = jax.random.split(of_given, positions), jax.random.split(of_test, positions)
    return World(
        2 if pairs else 1,
        order,
        [draw(given_keys[p], order[p], capacity, "given") for p in range(positions)],
        [draw(test_keys[p], order[p], protocol.test, "held") for p in range(positions)],
    )


# Draws from what has been received.


def shuffled(points: Points, bits: list[int], unit: int) -> Points:
    """Whole units in random order."""
    units = [points[start : start + unit] for start in range(0, len(points), unit)]
    order = [place for _, place in sorted((bits[place] >> 1, place) for place in range(len(units)))]
    return [point for place in order for point in units[place]]


def draw_episodes(world: World, buffer: list[Points], seen: list[int], protocol: Any, key: Any) -> list[Any]:
    """For each task of a meta-batch its position, D^tr and D^val (section 5.2, steps 1 to 4)."""
    units = len(world.given[0]) // world.unit
    found = []
    for bits in bits_of(key, (protocol.tasks_per_update, 2 + units * (2 if protocol.overlap else 1))):
        position = seen[bits[0] % len(seen)]
        points = buffer[position]
        largest = min(len(points) if protocol.overlap else len(points) // 2, protocol.max_shots)
        possible = [shots for shots in range(largest + 1) if shots % world.unit == 0]
        shots = possible[bits[1] % len(possible)]
        order = shuffled(points, bits[2 : 2 + units], world.unit)
        others = shuffled(points, bits[2 + units :], world.unit) if protocol.overlap else order[shots:]
        found.append((position, order[:shots], others[: protocol.validation]))
    if protocol.borrow:
        keys = jax.random.split(jax.random.fold_in(key, 1), protocol.tasks_per_update)
        return [(t, with_all_classes(world, buffer[:t], a, k), b) for (t, a, b), k in zip(found, keys, strict=True)]
    return found


def with_all_classes(world: World, earlier: list[Points], support: Points, key: Any) -> Points:
    """One datapoint of each class that the support lacks, the first among 500 of earlier tasks (section 6.2)."""
    candidates = draw_flat(world, earlier, 500, key)
    classes = 1 + max(int(y) for points in world.given for _, _, y in points)
    borrowed = []
    for c in range(classes):
        if all(int(y) != c for _, _, y in support):
            borrowed += [point for point in candidates if int(point[2]) == c][:1]
    return support + borrowed


def draw_flat(world: World, tasks: list[Points], size: int, key: Any) -> Points:
    """A batch with replacement, whole units at a time; nothing if there is nothing."""
    pool = [
        points[at : at + world.unit] for points in tasks for at in range(0, len(points) - world.unit + 1, world.unit)
    ]
    if not pool:
        return []
    chosen = [pool[b % len(pool)] for b in bits_of(key, (math.ceil(size / world.unit),))]
    return [point for unit in chosen for point in unit][:size]


def draw_support(world: World, points: Points, protocol: Any, key: Any) -> Points:
    """What an evaluation adapts on."""
    shots = min(len(points) // protocol.points_per_shot, protocol.max_shots)
    bits = bits_of(key, (len(world.given[0]) // world.unit,))
    return shuffled(points, bits, world.unit)[: shots - shots % world.unit]


@dataclass
class Drawn:
    """What one update is given. Everything can be drawn; a method takes what it wants."""

    episodes: list[Any]
    batch: Points
    current: Points
    memory: Points
    memory_task: list[int]


def draw(world: World, buffer: list[Points], seen: list[int], position: int, protocol: Any, key: Any) -> Drawn:
    keys = jax.random.split(key, 4)
    remembered = [[(t, point) for point in buffer[t][: protocol.memory_per_task]] for t in range(position)]
    memory = draw_flat(world, remembered, protocol.batch, keys[3])
    return Drawn(
        draw_episodes(world, buffer, seen, protocol, keys[0]),
        draw_flat(world, buffer, protocol.batch, keys[1]),
        draw_flat(world, [buffer[position]] if buffer[position] else buffer, protocol.batch, keys[2]),
        [point for _, point in memory],
        [task for task, _ in memory],
    )


# Derivatives. A meta-gradient is a derivative of derivatives of a few datapoints: op by op, JAX would spend minutes on
# compiling every operation for every number of shots.


class Var:
    """A NumPy array that knows what it was computed from; derivatives are Vars too, so they have derivatives."""

    __array_ufunc__ = None  # array * Var is Var's business

    def __init__(self, value: Any, parents: list[tuple[Var, Callable[[Var], Var]]] | None = None):
        self.value = np.asarray(value, np.float64)
        self.parents = parents or []

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def T(self) -> Var:
        return Var(self.value.T, [(self, lambda g: g.T)])

    def __add__(self, other: Any) -> Var:
        other = var(other)
        return Var(
            self.value + other.value, [(self, lambda g: g.sum_to(self.shape)), (other, lambda g: g.sum_to(other.shape))]
        )

    def __mul__(self, other: Any) -> Var:
        other = var(other)
        return Var(
            self.value * other.value,
            [(self, lambda g: (g * other).sum_to(self.shape)), (other, lambda g: (g * self).sum_to(other.shape))],
        )

    def __matmul__(self, other: Any) -> Var:
        other = var(other)
        return Var(self.value @ other.value, [(self, lambda g: g @ other.T), (other, lambda g: self.T @ g)])

    def __pow__(self, n: float) -> Var:
        return Var(self.value**n, [(self, lambda g: g * n * self ** (n - 1))])

    def __neg__(self) -> Var:
        return self * -1.0

    def __sub__(self, other: Any) -> Var:
        return self + -var(other)

    def __rsub__(self, other: Any) -> Var:
        return -self + other

    def __truediv__(self, other: Any) -> Var:
        return self * var(other) ** -1

    def __rtruediv__(self, other: Any) -> Var:
        return self**-1 * other

    __radd__, __rmul__ = __add__, __mul__

    def exp(self) -> Var:
        result = Var(np.exp(self.value))
        result.parents = [(self, lambda g: g * result)]
        return result

    def log(self) -> Var:
        return Var(np.log(self.value), [(self, lambda g: g / self)])

    def sum_to(self, shape: tuple[int, ...]) -> Var:
        """What broadcasting from `shape` has multiplied, added up again."""
        if shape == self.shape:
            return self
        value = self.value.sum(axis=tuple(range(self.value.ndim - len(shape))))
        axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and value.shape[axis] > 1)
        return Var(value.sum(axis=axes, keepdims=True), [(self, lambda g: g.broadcast_to(self.shape))])

    def broadcast_to(self, shape: tuple[int, ...]) -> Var:
        return Var(np.broadcast_to(self.value, shape), [(self, lambda g: g.sum_to(self.shape))])

    def sum(self) -> Var:
        return self.sum_to(())


def var(value: Any) -> Var:
    return value if isinstance(value, Var) else Var(value)


def gradient(output: Var, at: list[Var]) -> list[Var]:
    """The derivatives of a number: the chain rule backwards from it, stopping at what it is differentiated by."""
    order: list[Var] = []
    visited = {id(one) for one in at}
    stack = [(output, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in visited:
            visited.add(id(node))
            stack.append((node, True))
            stack += [(parent, False) for parent, _ in node.parents]
    matters = {id(one) for one in at}
    for node in order:
        if any(id(parent) in matters for parent, _ in node.parents):
            matters.add(id(node))
    slopes = {id(output): Var(1.0)}
    for node in reversed(order):
        if id(node) not in matters:
            continue
        for parent, back in node.parents:
            if id(parent) in matters:
                slope = back(slopes[id(node)])
                slopes[id(parent)] = slopes[id(parent)] + slope if id(parent) in slopes else slope
    return [slopes.get(id(one), Var(np.zeros(one.shape))) for one in at]


def value_and_gradient(function: Callable[[list[Var]], Var], at: list[Any]) -> tuple[float, list[Any]]:
    variables = [Var(one) for one in at]
    output = function(variables)
    return float(output.value), [one.value for one in gradient(output, variables)]


# The network and the losses.


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


# Adam with clipping, written out.


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


# The methods: each has `parameters` (a list of all that is learned), update and predict.


class Method:
    def __init__(self, recipe: Any, key: Any, outputs: int):
        self.recipe = recipe
        self.adam = Adam(recipe.meta_rate, recipe.meta_clip)
        model = recipe.network(key, outputs)
        self.parameters = [np.asarray(leaf) for layer in model.layers for leaf in (layer.weight, layer.bias)]

    def descend(self, function: Callable[[list[Var]], Var]) -> float:
        loss, g = value_and_gradient(function, self.parameters)
        self.parameters = self.adam.step(self.parameters, g)
        return loss

    def rates(self) -> list[float] | None:
        return None


class TrainOnEverything(Method):
    def update(self, drawn: Drawn, key: Any) -> float:
        return self.descend(lambda theta: risk(theta, drawn.batch, self.recipe.classification))

    def predict(self, support: Points, inputs: list[Any]) -> Var:
        return forward(self.parameters, inputs)


class AveragedGem(TrainOnEverything):
    def update(self, drawn: Drawn, key: Any) -> float:
        classification = self.recipe.classification
        loss, g = value_and_gradient(lambda theta: risk(theta, drawn.current, classification), self.parameters)
        if drawn.memory:
            _, r = value_and_gradient(lambda theta: risk(theta, drawn.memory, classification), self.parameters)
            dot = sum(float((a * b).sum()) for a, b in zip(g, r, strict=True))
            if dot < 0:
                g = [a - dot / squared_length(r) * b for a, b in zip(g, r, strict=True)]
        self.parameters = self.adam.step(self.parameters, g)
        return loss


class FollowTheMetaLeader(Method):
    """θ (or μ and log σ) first, then the raw numbers of the rate rule."""

    def __init__(self, name: str, recipe: Any, key: Any):
        super().__init__(recipe, key, recipe.outputs)
        self.name = name
        self.arrays = len(self.parameters)
        mean = list(self.parameters)
        if recipe.kl_coefficient:
            self.parameters = mean + [np.full(m.shape, math.log(0.0183)) for m in mean]
        self.weights = len(self.parameters)
        log_rate, log_eta = np.asarray(math.log(recipe.inner_rate)), np.asarray(math.log(recipe.eta))
        self.c1 = self.c2 = 1.0
        self.parameters += {
            "ftml": [],
            "ftml-vl": [np.full(recipe.max_shots + 1, log_rate)],
            "ftml-vs": [log_rate, log_eta],
            "ftml+meta-sgd": [np.full(m.shape, log_rate) for m in mean],
            "ftml-vs+meta-sgd": [*(np.full(m.shape, log_rate) for m in mean), log_eta],
            "ftml-vs-closed-form": [log_rate],
        }[name]

    def alpha(self, raw: list[Var], shots: int) -> Any:
        """α_s: one number, or a list with one array for each of the weights."""
        s = min(shots, self.recipe.max_shots)
        if self.name == "ftml":
            return Var(self.recipe.inner_rate)
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
        for _ in range(self.recipe.inner_steps):
            g = gradient(risk(theta, points, self.recipe.classification), theta)
            if not self.recipe.second_order:
                g = [Var(one.value) for one in g]
            if self.recipe.inner_clip is not None:
                length = squared_length(g) ** 0.5
                if length.value > self.recipe.inner_clip:
                    g = [one * (self.recipe.inner_clip / length) for one in g]
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
        if self.recipe.kl_coefficient:
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
            total = total + risk(self.adapted(drawn, raw, train), val, self.recipe.classification)
        total = total / len(episodes)
        if noise:
            for m, log_s in zip(theta, parameters[self.arrays : self.weights], strict=True):
                variance = log_s.exp() ** 2
                total = total + self.recipe.kl_coefficient * (0.5 * (variance + m**2 - 1 - variance.log())).sum()
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
                _, g = value_and_gradient(lambda at, one=point: risk(at, [one], self.recipe.classification), theta)
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
        for shots in range(self.recipe.max_shots + 1):
            alpha = self.alpha([Var(p) for p in self.parameters[self.weights :]], shots)
            of_each = [one.value for one in alpha] if isinstance(alpha, list) else [alpha.value]
            found.append(float(sum(one.sum() for one in of_each) / sum(one.size for one in of_each)))
        return found


class IncrementalProtoNet(Method):
    REMEMBERED = 200

    def __init__(self, recipe: Any, key: Any):
        super().__init__(recipe, key, recipe.embedding)
        self.remembered: Points = []

    def logits(self, theta: list[Any], support: Points, inputs: list[Any]) -> Var:
        prototypes: list[Any] = []
        for c in range(self.recipe.outputs):
            own = [x for _, x, y in support if int(y) == c]
            other = [x for _, x, y in self.remembered if int(y) == c]
            members = [forward(theta, [x]) for x in own or other]
            prototypes.append(sum(members) / len(members) if members else None)
        known = [prototype for prototype in prototypes if prototype is not None]
        centre = sum(known) / len(known) if known else Var(np.zeros((1, self.recipe.embedding)))
        embedded, total = forward(theta, inputs), Var(np.zeros((len(inputs), self.recipe.outputs)))
        for c, prototype in enumerate(prototypes):
            difference = embedded - (centre if prototype is None else prototype)
            distance = (difference * difference).sum_to((len(inputs), 1))
            total = total - distance * (np.arange(self.recipe.outputs) == c)
        return total

    def recall(self, memory: Points) -> None:
        self.remembered = memory[: self.REMEMBERED]

    def update(self, drawn: Drawn, key: Any) -> float:
        def objective(theta: list[Var]) -> Var:
            total = Var(0.0)
            for task, train, val in drawn.episodes:
                lent = zip(drawn.memory_task, drawn.memory, strict=True)
                self.recall([point for of_task, point in list(lent)[: self.REMEMBERED] if of_task != task])
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

    def __init__(self, recipe: Any, key: Any):
        of_features, of_memory = jax.random.split(key)
        super().__init__(recipe, of_features, recipe.memory)
        self.layers = len(self.parameters)
        self.parameters += initial_memory(recipe, of_memory)

    def outputs(self, theta: list[Any], support: Points, inputs: list[Any]) -> Var:
        features, width = theta[: self.layers], self.recipe.memory
        embed, embed_bias, of_shot, of_state, bias, bias_new, head, head_bias = theta[self.layers :]
        state = Var(np.zeros((1, width)))
        for _, x, y in support:
            label = np.eye(self.recipe.outputs)[int(y)] if self.recipe.classification else np.asarray(y)
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
                total = total + mean_of_losses(outputs, [y for _, _, y in val], self.recipe.classification)
            return total / len(drawn.episodes)

        return self.descend(objective)

    def predict(self, support: Points, inputs: list[Any]) -> Var:
        return self.outputs(self.parameters, support, inputs)


def initial_memory(recipe: Any, key: Any) -> list[Any]:
    """Linear layers from normal, the GRU from uniform numbers; biases of linear layers are zero."""
    width, out = recipe.memory, recipe.outputs
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


def make_method(name: str, recipe: Any, key: Any) -> Any:
    if name == "toe":
        return TrainOnEverything(recipe, key, recipe.outputs)
    if name == "a-gem":
        return AveragedGem(recipe, key, recipe.outputs)
    if name == "mann":
        return MemoryAugmented(recipe, key)
    if name == "protonet":
        return IncrementalProtoNet(recipe, key)
    return FollowTheMetaLeader(name, recipe, key)


# Algorithm 1.


@dataclass
class Row:
    """One line of the ledger."""

    position: int
    round: int
    received: int
    shots: int
    loss: float
    accuracy: float
    mastered: bool
    ended: bool
    pretraining: bool
    train_loss: float  # mean over the round's updates, NaN without any
    rates: list[float] | None


@dataclass
class Run:
    method: Any
    buffer: list[Points]
    seen: list[int]
    ledger: list[Row]
    draws: list[Drawn]  # of every update
    supports: list[Points]  # of every evaluation


def run(world: World, protocol: Any, method: Any, classification: bool, key: Any) -> Run:
    """All tasks of the stream, one after another; the method is one of those above, or anything like it."""
    positions, first = len(world.order), protocol.pretrain_tasks
    buffer = [list(world.given[p]) if p < first else [] for p in range(positions)]
    result = Run(method, buffer, list(range(first)), [], [], [])

    def a_round(t: int, number: int, learning: bool, pretraining: bool) -> Row:
        of_updates, of_evaluation = jax.random.split(jax.random.fold_in(key, len(result.ledger)))
        losses = []
        if learning:
            for one in jax.random.split(of_updates, protocol.every * protocol.updates):
                of_draw, of_update = jax.random.split(one)
                drawn = draw(world, buffer, result.seen, t, protocol, of_draw)
                losses.append(float(method.update(drawn, of_update)))
                result.draws.append(drawn)
        if isinstance(method, IncrementalProtoNet):
            remembered = [points[: protocol.memory_per_task] for points in buffer[:t]]
            method.recall(draw_flat(world, remembered, protocol.batch, jax.random.fold_in(of_evaluation, 1)))
        support = draw_support(world, buffer[t], protocol, of_evaluation)
        adapted_on = support
        if protocol.borrow:
            adapted_on = with_all_classes(world, buffer[:t], support, jax.random.fold_in(of_evaluation, 2))
        outputs = method.predict(adapted_on, [x for _, x, _ in world.test[t]])
        labels = [y for _, _, y in world.test[t]]
        loss = float(mean_of_losses(outputs, labels, classification).value)
        accuracy = math.nan
        if classification:
            right = [int(np.argmax(o)) == int(y) for o, y in zip(outputs.value, labels, strict=True)]
            accuracy = sum(right) / len(right)
        proficient = accuracy >= protocol.threshold if protocol.measure == "accuracy" else loss <= protocol.threshold
        given_up = number >= math.ceil(protocol.max_steps / protocol.every)
        ended = not pretraining and ((proficient and protocol.advance) or given_up)
        mean = sum(losses) / len(losses) if losses else math.nan
        row = Row(
            t,
            number,
            len(buffer[t]),
            len(support),
            loss,
            accuracy,
            proficient,
            ended,
            pretraining,
            mean,
            method.rates(),
        )
        result.ledger.append(row)
        result.supports.append(support)
        return row

    for _ in range(math.ceil(protocol.pretrain_steps / protocol.every)):
        a_round(first, 0, learning=True, pretraining=True)
    for t in range(first, positions):
        number = 0
        row = a_round(t, number, learning=False, pretraining=False)  # zero shots, on arrival
        while not row.ended:
            number += 1
            arriving = world.given[t][len(buffer[t]) : len(buffer[t]) + protocol.arrive]
            if not buffer[t]:
                result.seen.append(t)
            buffer[t] += arriving
            row = a_round(t, number, learning=True, pretraining=False)
    return result
