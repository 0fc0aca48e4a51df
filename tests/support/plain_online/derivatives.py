"""Derivatives of derivatives, in NumPy.

A meta-gradient is a derivative of derivatives of a few datapoints. Without jit, JAX would spend minutes on compiling
each operation for each number of shots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


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
