"""The meta-objective J: mean over tasks, and over the shots each one has, of the validation loss after adaptation.

J = E_j,K [ L(D_val, U(θ, α_K, K)) ], with gradients for the weights θ and for the rate rule (paper, section 5.2).
"""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from anyshot.adaptation.gaussian import GaussianWeights
from anyshot.adaptation.tasks_shared import mean_over_tasks
from anyshot.adaptation.update import Update, check_fit, check_rate
from anyshot.errors import InputError
from anyshot.inputs import check_not_negative
from anyshot.rates import Rate
from anyshot.shots import Episodes, Shots, check_is_shots

# Numbers in the shots of the tasks that a GPU batches: four tasks of 20 pairs of 84x84 pixels, nineteen of 42x42.
FILL_A_GPU = 2**22


def tasks_that_fill_a_gpu(tasks: int, numbers: int) -> int:
    """How many of these tasks a GPU batches at a time.

    Args:
        tasks: that there are.
        numbers: in the shots of all of them.

    >>> tasks_that_fill_a_gpu(16, 16 * 20 * 2 * 84 * 84 * 3)
    4
    """
    return min(tasks, max(1, FILL_A_GPU * tasks // max(1, numbers)))


class MetaObjective(eqx.Module):
    """What meta-learning minimises over the weights and the rate rule.

    Args:
        update: the update procedure U.
        kl_coefficient: of meta-regularisation, the KL divergence of Gaussian weights from a standard normal (paper,
            appendix C). Used when the model is a `GaussianWeights`.
        batching: how the tasks of a batch are computed. "together" batches them (right for a GPU), "in turn" takes one
            after another, each in the smallest padding that holds its shots (right for a CPU). The result is the same;
            "auto" goes by the default device, and where a few tasks fill a GPU, it takes so many at a time, which
            bounds the memory. All share the tasks among the devices of `share_tasks`.

    >>> import jax.numpy as jnp
    >>> from anyshot.adaptation import squared_error
    >>> from anyshot.shots import Shots, stack_tasks
    >>> from anyshot.rates import Scaled
    >>> model = jax.tree_util.Partial(jnp.multiply, jnp.array(1.0))
    >>> two = stack_tasks([Shots.of([1.0], [3.0], size=2), Shots.of([1.0, 2.0], [2.0, 4.0])])
    >>> objective = MetaObjective(Update(squared_error, steps=1, clip=None))
    >>> loss, (d_model, d_rate) = objective.value_and_grad(model, Scaled(), Episodes(two, two))
    >>> print(f"{loss:.4f} {d_rate.log_beta:.4f}")
    2.1756 -0.9156
    """

    update: Update = eqx.field(default_factory=Update)
    kl_coefficient: float = eqx.field(static=True, default=0.0)
    batching: Literal["auto", "together", "in turn"] = eqx.field(static=True, default="auto")

    def __check_init__(self) -> None:
        if not isinstance(self.update, Update):
            raise InputError(f"update must be an anyshot.Update, got {self.update!r}")
        check_not_negative("kl_coefficient", self.kl_coefficient)
        if self.batching not in ("auto", "together", "in turn"):
            raise InputError(f'batching must be "auto", "together" or "in turn", got {self.batching!r}')

    def __call__(
        self, model: PyTree[Any], rate: Rate, episodes: Episodes, key: Key[Array, ""] | None = None
    ) -> Float[Array, ""]:
        """Compute J. `key` draws the weights if the model is a `GaussianWeights`."""
        if not isinstance(model, GaussianWeights):
            return self._mean_over_tasks(model, rate, episodes)
        if key is None:
            raise InputError(
                "key is missing: Gaussian weights are drawn anew for every meta-gradient; give a jax.random key"
            )
        return self._mean_over_tasks(model.draw(key), rate, episodes) + self.kl_coefficient * model.kl()

    def value_and_grad(
        self, model: PyTree[Any], rate: Rate, episodes: Episodes, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, ""], tuple[PyTree[Any], Rate]]:
        """Compute J and its gradients for the model and for the rate, each with the structure of what it belongs to."""

        def of_both(both: tuple[PyTree[Any], Rate]) -> Float[Array, ""]:
            return self(both[0], both[1], episodes, key)

        return eqx.filter_value_and_grad(of_both)((model, rate))

    def _mean_over_tasks(self, model: PyTree[Any], rate: Rate, episodes: Episodes) -> Float[Array, ""]:
        check_episodes(episodes)
        check_rate(rate)
        check_fit(model, self.update.loss, episodes.train, "episodes.train")
        check_fit(model, self.update.loss, episodes.val, "episodes.val")
        return mean_over_tasks(self._task_loss, (model, rate), episodes, self._at_once(episodes.train))

    def _at_once(self, shots: Shots) -> int | None:
        """The number of tasks that a device batches; None if it takes one after another."""
        if self.batching == "in turn" or (self.batching == "auto" and jax.default_backend() == "cpu"):
            return None
        tasks, numbers = shots.count.shape[0], sum(leaf.size for leaf in jax.tree.leaves(shots.x))
        return tasks if self.batching == "together" else tasks_that_fill_a_gpu(tasks, numbers)

    def _task_loss(self, both: tuple[PyTree[Any], Rate], episode: Episodes) -> Float[Array, ""]:
        """Compute L(D_val, U(θ, α_K, K)), the validation loss of one task after adaptation."""
        model, rate = both
        return self.update.risk(self.update(model, rate, episode.train), episode.val)


def check_episodes(episodes: Episodes) -> None:
    """Raise `InputError` for no tasks, numbers of tasks that differ, or a task with nothing to validate on."""
    if not isinstance(episodes, Episodes):
        raise InputError(f"episodes must be Episodes(train, val), got {type(episodes).__name__}")
    shots: Shots
    for name, shots in (("train", episodes.train), ("val", episodes.val)):
        check_is_shots(f"episodes.{name}", shots)
        if shots.count.ndim != 1:
            raise InputError(
                f"episodes.{name} must have one task axis in front, got count of shape {shots.count.shape}"
            )
        shots.check(f"episodes.{name}")
    if episodes.train.count.shape != episodes.val.count.shape:
        raise InputError(
            f"episodes.train holds {episodes.train.count.shape[0]} tasks, episodes.val {episodes.val.count.shape[0]}; "
            "give both for every task"
        )
    if episodes.num_tasks == 0:
        raise InputError("episodes holds no tasks; give at least one")
    if not isinstance(episodes.val.count, jax.core.Tracer) and bool((np.asarray(episodes.val.count) == 0).any()):
        task = int(np.argmin(np.asarray(episodes.val.count)))
        raise InputError(f"episodes.val has no datapoint for task {task}; every task needs at least one to validate on")
