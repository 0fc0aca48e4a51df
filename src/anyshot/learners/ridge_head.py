"""Ridge regression on learned features with a learned prior mean, adapted in closed form to any number of shots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from anyshot.learners.factorise import matmul, solve_ridge
from anyshot.learners.learner import Drawn, Want, wanted
from anyshot.learners.network_learner import Hyperparameters, ModelState, NetworkLearner
from anyshot.limits import check_whole
from anyshot.networks.layers import leaky_relu
from anyshot.shots import Episodes, Shots

MOST_FEATURES = 10_000
LEAST_RIDGE = 1e-4  # however small the learned λ becomes
FIRST_RIDGE, FIRST_SCALE = 0.1, 5.0
CONSTANT = 0.3  # the last feature; about as long as the others together


@dataclass(frozen=True, kw_only=True)
class RidgeHeadHyperparameters(Hyperparameters):
    """The hyperparameters of ridge regression on learned features.

    Attributes:
        meta_rate: the step size of Adam.
        features: the number of features.
    """

    meta_rate: float = 3e-4
    features: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("features", self.features, 1, MOST_FEATURES)


class Head(eqx.Module):
    """What is learned from all tasks.

    Attributes:
        model: f, the network that makes the features.
        mean: W₀, the weights of a task without shots; the last row belongs to the constant.
        log_ridge: the logarithm of λ, up to a constant.
        log_scale: the logarithm of s, which makes logits of the outputs of a classification.
    """

    model: PyTree[Any]
    mean: Float[Array, "rows outputs"]
    log_ridge: Float[Array, ""]
    log_scale: Float[Array, ""]


class RidgeHead(NetworkLearner):
    """A linear model on features that are learned from all tasks, and adapted to a task in closed form.

    With features φ(x) = (σ(f(x)) / √d, c), where f is the network, σ the leaky ReLU, d the number of features and c a
    constant, the weights of a task with shots (x_i, y_i) are the minimiser of Σ |Wᵀφ(x_i) - y_i|² + λ|W - W₀|²,

        W = W₀ + (ΦᵀΦ + λI)⁻¹ Φᵀ(Y - ΦW₀).

    They are the posterior mean of Bayesian linear regression, so they follow W₀ with few shots and the shots with many.
    The network, W₀ and λ are learned from the loss on other datapoints of the task, after adaptation to any number of
    shots. For classes, the y_i are one-hot vectors less their mean, and the logits are s Wᵀφ(x) with a learned s. This
    is ALPaCA (Harrison et al. 2018) without its variances, and R2-D2 (Bertinetto et al. 2019) with a prior mean.
    """

    hyperparameters: ClassVar[type[RidgeHeadHyperparameters]] = RidgeHeadHyperparameters

    hyper: RidgeHeadHyperparameters = eqx.field(static=True)

    @property
    def wants(self) -> frozenset[Want]:
        """Episodes."""
        return frozenset({"episodes"})

    @property
    def uses_all_labels(self) -> bool:
        """Yes: more than M shots cost little."""
        return True

    def init(self, key: Key[Array, ""]) -> ModelState:
        """Random weights of the network; W₀ is zero."""
        mean = jnp.zeros((self.hyper.features + 1, self.spec.problem.outputs))
        log_ridge, log_scale = (jnp.log(jnp.asarray(value)) for value in (FIRST_RIDGE, FIRST_SCALE))
        head = Head(self.make_model(key, self.hyper.features), mean, log_ridge, log_scale)
        return ModelState(head, self.init_optimiser(head))

    def update(
        self, state: ModelState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[ModelState, dict[str, Float[Array, ""]]]:
        """One step of the optimiser on the validation loss of the episodes."""
        episodes = wanted(drawn.episodes)

        @eqx.filter_value_and_grad
        def mean_loss(head: Head) -> Float[Array, ""]:
            def of_task(one: Episodes) -> Float[Array, ""]:
                val = one.val.without_padding_content()
                losses = jax.vmap(self.spec.loss)(self._outputs(head, one.train, val.x), val.y)
                return jnp.sum(losses * val.present()) / jnp.maximum(val.count, 1)

            return jnp.mean(jax.vmap(of_task)(episodes))

        loss, gradient = mean_loss(state.model)
        return ModelState(*self.descend(gradient, state.optimiser, state.model)), {"loss": loss}

    def predict(self, state: ModelState, support: Shots, query: PyTree[Array]) -> Float[Array, "n outputs"]:
        """Wᵀφ(x), times s for classes."""
        return self._outputs(state.model, support, query)

    def features(self, state: ModelState, x: PyTree[Array]) -> Float[Array, "n features"]:
        """φ(x) of each input, without the constant."""
        return _features(state.model.model, x)[:, :-1]

    def _outputs(self, head: Head, support: Shots, query: PyTree[Array]) -> Float[Array, "n outputs"]:
        outputs = matmul(_features(head.model, query), self._adapt(head, support.without_padding_content()))
        return jnp.exp(head.log_scale) * outputs if self.spec.problem.classification else outputs

    def _adapt(self, head: Head, support: Shots) -> Float[Array, "rows outputs"]:
        """W."""
        if support.size == 0:
            return head.mean
        phi = jnp.where(support.present()[:, None], _features(head.model, support.x), 0)
        outputs = self.spec.problem.outputs
        if self.spec.problem.classification:
            y = jax.nn.one_hot(support.y, outputs, dtype=phi.dtype) - 1 / outputs
        else:
            y = support.y.reshape(support.size, outputs)
        # Rows of padding are zero in Φ, so what y has there does not matter.
        right = matmul(phi.T, y - matmul(phi, head.mean))
        return head.mean + solve_ridge(matmul(phi.T, phi), right, LEAST_RIDGE + jnp.exp(head.log_ridge))


def _features(model: PyTree[Any], x: PyTree[Array]) -> Float[Array, "n rows"]:
    """φ(x) of each input."""
    found = leaky_relu(jax.vmap(model)(x))
    constant = jnp.full((found.shape[0], 1), CONSTANT, found.dtype)
    return jnp.concatenate([found / jnp.sqrt(found.shape[1]).astype(found.dtype), constant], axis=1)
