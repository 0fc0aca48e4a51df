"""What a step-size rule is: a small PyTree with one function, from the number of shots to the inner step size."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from anyshot.errors import InputError
from anyshot.inputs import check_count, check_positive

Count = Int[Array, "..."] | int
Moments = tuple[Float[Array, ""], Float[Array, ""]]  # C1 and C2 of theorem 1


class Rate(eqx.Module):
    """A step-size rule α_s. Its floating-point arrays are meta-learned next to the weights.

    To add a rule, subclass this in one file and give it `__call__`; with `initial` it can be registered by name, too.
    """

    @abc.abstractmethod
    def __call__(self, shots: Count) -> Float[Array, "..."] | PyTree[Float[Array, "..."]]:
        """The step size for adapting on `shots` datapoints: a scalar, or a PyTree with one array per parameter."""

    @classmethod
    def initial(cls, model: PyTree[Any], *, inner_rate: float, eta: float, max_shots: int) -> Rate:
        """The rule as learning begins; each takes what it needs.

        Args:
            model: whose parameters a rule may have a step size for.
            inner_rate: the step size, or where a learned one (α, β) starts.
            eta: where a learned η starts.
            max_shots: M.
        """
        raise NotImplementedError(f"{cls.__name__} must have the class method `initial` to be made by name")

    def remeasure(self, measure: Callable[[], Moments]) -> Rate:
        """The rule with what it measures measured anew; a rule that measures nothing returns itself.

        `anyshot.adaptation.remeasure` calls this with the model and the shots at hand.

        Args:
            measure: computes C1 and C2 of theorem 1, the variance of the inner gradient and its squared mean. Only
                a rule that needs them calls it.
        """
        return self

    def named(self) -> dict[str, Float[Array, ""]]:
        """The numbers of the rule that have a name, such as `beta` and `eta`, for logs and figures."""
        return {}


def at_most(shots: Count, max_shots: int) -> Int[Array, "..."]:
    """min{s, M}: the paper adapts on at most M datapoints, so more shots than M counts as M."""
    check_count("shots", shots)
    return jnp.minimum(jnp.asarray(shots), max_shots)


def check_single(shots: Count) -> None:
    """Refuse several numbers of shots at once, which a rule with a step size per parameter cannot answer."""
    check_count("shots", shots)
    if jnp.ndim(shots):
        raise InputError(
            f"shots must be one number for rates per parameter, got shape {jnp.shape(shots)}; use jax.vmap"
        )


def fraction_of_full_step(eta: Float[Array, "..."], shots: Int[Array, "..."]) -> Float[Array, "..."]:
    """1 - 1/(1 + ηs), written as ηs/(1 + ηs) so that small ηs does not cancel."""
    scaled = eta * shots
    return scaled / (1 + scaled)


def check_max_shots(max_shots: int) -> None:
    """Refuse an M that is not a whole number of at least 1."""
    if not isinstance(max_shots, int) or isinstance(max_shots, bool) or max_shots < 1:
        raise InputError(f"max_shots must be a whole number of at least 1, got {max_shots!r}")


def log_array(name: str, value: float) -> Float[Array, "..."]:
    """The logarithm of a positive number: learned rates are kept as logarithms and so stay positive."""
    check_positive(name, value)
    return jnp.log(jnp.asarray(value, dtype=float))
