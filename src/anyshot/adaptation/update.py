"""The update procedure U(θ, α, s) of the paper: a few gradient steps on the shots a task has so far."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from anyshot.adaptation.gradient import Parameters, gradient, mean_loss
from anyshot.adaptation.layers import mark_adapted
from anyshot.adaptation.losses import Loss, cross_entropy
from anyshot.errors import InputError
from anyshot.inputs import check_labels, check_positive, is_known
from anyshot.rates import Rate
from anyshot.shots import Shots, check_is_shots


class Update(eqx.Module):
    """U(θ, α, s): `steps` steps θ ← θ - α_s clip(∇L̂(θ)) on the mean loss over the s shots present.

    Args:
        loss: of one datapoint, a function of (output, target).
        steps: N_grad, the number of inner gradient steps (the paper: 5).
        clip: largest norm of the inner gradient over all parameters together (the paper: 10); None for no limit.
        second_order: whether the meta-gradient sees that the inner gradient depends on θ (first-order MAML: False).
        rematerialise: compute each step's intermediate values again in the backward pass instead of keeping them, so
            that memory does not grow with `steps`.
        fixed_layers: how many layers of the model, the first ones, are not adapted; see `mark_adapted`.

    A model is any callable PyTree that maps one example to one output; its floating-point arrays are adapted, but for
    those of fixed layers.

    >>> from anyshot.rates import Scaled
    >>> from anyshot.adaptation import squared_error
    >>> model = jax.tree_util.Partial(jnp.multiply, jnp.array(1.0))  # x -> 1.0 * x
    >>> update = Update(squared_error, steps=1, clip=None)
    >>> three = Shots.of([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], size=20)
    >>> adapted = update(model, Scaled(beta=0.1, eta=1.0), three)
    >>> print(f"{adapted(1.0):.2f}")  # one step of 0.1 * 3/4 along -gradient = 2
    1.15
    """

    loss: Loss = eqx.field(static=True, default=cross_entropy)
    steps: int = eqx.field(static=True, default=5)
    clip: float | None = eqx.field(static=True, default=10.0)
    second_order: bool = eqx.field(static=True, default=True)
    rematerialise: bool = eqx.field(static=True, default=False)
    fixed_layers: int = eqx.field(static=True, default=0)

    def __check_init__(self) -> None:
        if not callable(self.loss):
            raise InputError(
                f"loss must be a function of (output, target), such as anyshot.squared_error, got {self.loss!r}"
            )
        if type(self.steps) is not int or self.steps < 1:
            raise InputError(
                f"steps must be a whole number of at least 1, got {self.steps!r}; zero shots leaves a model unchanged"
            )
        if type(self.fixed_layers) is not int or self.fixed_layers < 0:
            raise InputError(f"fixed_layers must be a whole number of at least 0, got {self.fixed_layers!r}")
        if self.clip is not None:
            check_positive("clip", self.clip)

    def __call__(self, model: PyTree[Any], rate: Rate, shots: Shots) -> PyTree[Any]:
        """Adapt the model to the shots. With zero shots this is the model itself, exactly."""
        check_one_task(shots)
        check_fit(model, self.loss, shots)
        check_rate(rate)
        if shots.size == 0:
            return model
        alpha = jax.tree.map(jnp.asarray, rate(shots.count))
        shots = lax.stop_gradient(shots.without_padding_content())
        theta, rest = eqx.partition(model, eqx.is_inexact_array)
        adapted = mark_adapted(model, self.fixed_layers)

        def step(theta: Parameters, _: None) -> tuple[Parameters, None]:
            g = gradient(theta, rest, self.loss, shots)
            if not self.second_order:
                g = lax.stop_gradient(g)
            if self.fixed_layers:  # the meta-gradient still sees that the others depend on them
                g = jax.tree.map(lambda leaf, moves: leaf if moves else jnp.zeros_like(leaf), g, adapted)
            if self.clip is not None:
                g = clipped(g, self.clip)
            return descend(theta, alpha, g), None

        if self.rematerialise:
            step = jax.checkpoint(step, prevent_cse=False)
        theta, _ = lax.scan(step, theta, length=self.steps, unroll=self._unroll())
        return eqx.combine(theta, rest)

    def _unroll(self) -> int:
        # Unrolled steps let a GPU launch everything as one graph (20 % faster); on a CPU they only cost compile time.
        return 1 if self.rematerialise or jax.default_backend() == "cpu" else self.steps

    def risk(self, model: PyTree[Any], shots: Shots) -> Float[Array, ""]:
        """f(θ): the model's mean loss on the shots present, without adaptation."""
        check_one_task(shots)
        check_fit(model, self.loss, shots)
        theta, rest = eqx.partition(model, eqx.is_inexact_array)
        return mean_loss(theta, rest, self.loss, shots.without_padding_content())


def check_one_task(shots: Shots) -> None:
    """Raise `InputError` unless these are good shots of a single task."""
    check_is_shots("shots", shots)
    shots.check()
    if shots.count.ndim:
        raise InputError(
            f"shots hold {shots.count.shape} tasks, but one is adapted to at a time; use jax.vmap over them"
        )


def check_rate(rate: Any) -> None:
    """Raise `InputError` for anything but a step-size rule."""
    if not isinstance(rate, Rate):
        raise InputError(f"rate must be a step-size rule such as anyshot.rates.Constant(0.1), got {rate!r}")


def clipped(g: Parameters, limit: float) -> Parameters:
    """Shorten the gradient to norm `limit` if it is longer."""
    # One sum over all parameters: on a CPU a sum costs 20 us to start, and there is one in every step of every task.
    squared = jnp.sum(jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(g)]) ** 2)
    # Nothing is divided by the norm of a gradient that stays as it is: at 0 it has no derivative, and where a GPU keeps
    # a square of 1e-40, its inverse is infinite and would make the meta-gradient NaN, though it is multiplied by 0.
    too_long = squared > limit * limit  # ** would refuse a limit of 1e200
    factor = jnp.where(too_long, limit / jnp.sqrt(jnp.where(too_long, squared, 1.0)), 1.0)
    return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), g)


def descend(theta: Parameters, alpha: Any, g: Parameters) -> Parameters:
    """Take the step θ - α g, with one α for all parameters or a PyTree with an array for each."""
    if isinstance(alpha, jax.Array):
        return jax.tree.map(lambda p, d: p - alpha.astype(p.dtype) * d, theta, g)
    shapes = [{k: v.shape for k, v in jax.tree_util.tree_leaves_with_path(tree)} for tree in (alpha, theta)]
    if shapes[0] != shapes[1]:
        raise InputError(
            "rate gives one step size per parameter, but not of this model: it has "
            f"{len(shapes[0])} arrays, the model {len(shapes[1])}, or their shapes differ; make it from this model"
        )
    return jax.tree.map(lambda p, a, d: p - a.astype(p.dtype) * d, theta, alpha, g)


def check_fit(model: PyTree[Any], loss: Loss, shots: Shots, name: str = "shots") -> None:
    """Raise `InputError` unless the model takes the shots' x and its outputs go with their y."""
    if not callable(model):
        raise InputError(f"model must be a callable PyTree that maps one example to one output, got {type(model)}")
    row = shots.count.ndim + 1

    def one(tree: PyTree[Array]) -> PyTree[Any]:
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[row:], a.dtype), tree)

    x, y = one(shots.x), one(shots.y)
    output = _evaluated(f"model does not take one example of {name}.x", model, x)
    if loss is cross_entropy:
        if getattr(output, "ndim", None) != 1 or getattr(y, "shape", None) != ():
            raise InputError(
                f"cross entropy needs a vector of logits and one class number per datapoint, but the model gives "
                f"{output} and {name}.y holds {y}"
            )
        labels = shots.y
        if is_known(labels) and is_known(shots.count):
            labels = np.asarray(labels)[np.arange(shots.size) < np.asarray(shots.count)[..., None]]
        check_labels(f"{name}.y", labels, output.shape[0])
    value = _evaluated(f"loss does not take the model's output and one example of {name}.y", loss, output, y)
    if getattr(value, "shape", None) != () or not jnp.issubdtype(value.dtype, jnp.floating):
        raise InputError(f"loss must return one floating-point number per datapoint, got {value}")


def _evaluated(complaint: str, function: Any, *arguments: Any) -> Any:
    """Find the shape of what a function returns; if it raises, refuse with the complaint and the arguments."""
    try:
        return eqx.filter_eval_shape(function, *arguments)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        given = " and ".join(str(jax.tree.map(lambda a: f"{a.dtype}{list(a.shape)}", part)) for part in arguments)
        raise InputError(f"{complaint}, here {given}: {str(error).splitlines()[0]}") from error
