"""Programs computed as a GPU rounds: operation by operation in NumPy, which keeps denormal numbers.

XLA's CPU takes numbers below 1.2e-38 for zero. So a derivative that is infinite for such a number, and multiplied by
zero afterwards, never shows there, and makes a whole meta-gradient NaN on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

Replace = Callable[[JaxprEqn, list[Any]], list[Any] | None]


def evaluated(program: ClosedJaxpr, arguments: Sequence[Any], replace: Replace) -> list[Any]:
    """What a program returns, where `replace` computes some of its operations, and those of programs inside it."""
    values = dict(zip((*program.jaxpr.constvars, *program.jaxpr.invars), (*program.consts, *arguments), strict=True))

    def value(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    for equation in program.jaxpr.eqns:
        given, parameters = [value(one) for one in equation.invars], equation.params
        found = replace(equation, given)
        if found is None and (inner := parameters.get("jaxpr") or parameters.get("call_jaxpr")) is not None:
            found = evaluated(inner, given, replace)
        elif found is None:
            bound = equation.primitive.bind(*given, **parameters)
            found = bound if equation.primitive.multiple_results else [bound]
        values.update(zip(equation.outvars, found, strict=True))
    return [value(one) for one in program.jaxpr.outvars]


def as_on_a_gpu(function: Callable[..., Any], *example: Any) -> Callable[..., Any]:
    """The function of arguments like these, computed by NumPy as far as floating-point numbers are combined."""
    program, shape = jax.make_jaxpr(function, return_shape=True)(*example)

    def computed(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            found = evaluated(program, jax.tree.leaves(arguments), _in_numpy)
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return computed


def _in_numpy(equation: JaxprEqn, given: list[Any]) -> list[Any] | None:
    """None where numbers are moved about only, or are whole ones."""
    name, parameters = equation.primitive.name, equation.params
    if name == "scan":
        return _scan(equation, given)
    if name not in ELEMENTWISE and name not in OTHERS:
        return None
    arrays = [np.asarray(one, of.aval.dtype) for one, of in zip(given, equation.invars, strict=True)]
    return [ELEMENTWISE[name](*arrays) if name in ELEMENTWISE else OTHERS[name](*arrays, **parameters)]


def _scan(equation: Any, given: list[Any]) -> list[Any]:
    body, parameters = equation.params["jaxpr"], equation.params
    # What is scanned has one axis more outside than in the body; the parameters' names differ between JAX's versions.
    outside, inside = [of.aval.ndim for of in equation.outvars], [aval.ndim for aval in body.out_avals]
    carried = sum(a == b for a, b in zip(outside, inside, strict=True))
    fed = sum(of.aval.ndim == aval.ndim for of, aval in zip(equation.invars, body.in_avals, strict=True))
    constants = fed - carried
    fixed, carry, rows = given[:constants], given[constants : constants + carried], given[constants + carried :]
    steps, collected = range(parameters["length"]), []
    for step in reversed(steps) if parameters["reverse"] else steps:
        found = evaluated(body, [*fixed, *carry, *(row[step] for row in rows)], _in_numpy)
        carry, kept = found[:carried], found[carried:]
        collected.append(kept)
    if parameters["reverse"]:
        collected.reverse()
    return [*carry, *(np.stack(column) for column in zip(*collected, strict=True))]


def _product(a: Any, b: Any, dimension_numbers: Any, **_: Any) -> Any:
    (sum_a, sum_b), (batch_a, batch_b) = dimension_numbers
    axes_a, axes_b = list(range(a.ndim)), list(range(a.ndim, a.ndim + b.ndim))
    for own, other in zip((*sum_a, *batch_a), (*sum_b, *batch_b), strict=True):
        axes_b[other] = axes_a[own]
    free_a = [axis for i, axis in enumerate(axes_a) if i not in (*sum_a, *batch_a)]
    free_b = [axis for i, axis in enumerate(axes_b) if i not in (*sum_b, *batch_b)]
    return np.einsum(a, axes_a, b, axes_b, [*(axes_a[i] for i in batch_a), *free_a, *free_b])


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "square": np.square,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "gt": np.greater,
    "lt": np.less,
    "ge": np.greater_equal,
    "le": np.less_equal,
    "eq": np.equal,
    "div": lambda a, b: a / b if a.dtype.kind == "f" else a // b,
    "select_n": lambda which, *cases: np.where(which, *reversed(cases)),
}
OTHERS: dict[str, Callable[..., Any]] = {
    "integer_pow": lambda x, y: x**y if y >= 0 else 1 / x**-y,  # XLA too multiplies and then inverts
    "reduce_sum": lambda x, axes, **_: x.sum(tuple(axes), dtype=x.dtype),
    "reduce_max": lambda x, axes, **_: x.max(tuple(axes)),
    "dot_general": _product,
}
