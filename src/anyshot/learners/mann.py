"""MANN (Santoro et al. 2016) as the paper has it (section 6.1, appendix D): a recurrent network reads the shots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from anyshot.adaptation import GaussianWeights
from anyshot.learners.learner import Drawn, Want, wanted
from anyshot.learners.network_learner import Hyperparameters, ModelState, NetworkLearner, check_number
from anyshot.limits import check_whole
from anyshot.networks.memory import Memory
from anyshot.shots import Episodes, Shots

MOST_WIDTH = 10_000


@dataclass(frozen=True, kw_only=True)
class MANNHyperparameters(Hyperparameters):
    """MANN's hyperparameters.

    Attributes:
        memory: the size of the features, of the label's embedding and of the recurrent state.
        head_hidden: units of a hidden layer with a leaky ReLU before the last layer; 0 for none, as in the paper.
            Without it shots shift the outputs of all queries alike.
        memory_kl_coefficient: the weight of the KL divergence of Gaussian weights, as FTML's kl_coefficient. With 0
            there is none, and weights are numbers. It has a name of its own, as presets give MANN none.
    """

    memory: int = 256
    head_hidden: int = 0
    memory_kl_coefficient: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("memory", self.memory, 1, MOST_WIDTH)
        check_whole("head_hidden", self.head_hidden, 0, MOST_WIDTH)
        check_number("memory_kl_coefficient", self.memory_kl_coefficient, zero=True)


class MANN(NetworkLearner):
    """Adapts by reading the shots instead of by gradients: h(x; GRU over the shots).

    With zero shots the recurrent state is the initial one, zeros.
    """

    hyperparameters: ClassVar[type[MANNHyperparameters]] = MANNHyperparameters

    hyper: MANNHyperparameters = eqx.field(static=True)

    @property
    def wants(self) -> frozenset[Want]:
        """Episodes."""
        return frozenset({"episodes"})

    def init(self, key: Key[Array, ""]) -> ModelState:
        """Random weights."""
        problem, hyper, (of_features, of_memory) = self.spec.problem, self.hyper, jax.random.split(key)
        features = self.make_model(of_features, hyper.memory)
        memory = Memory(
            features, problem.outputs, problem.classification, hyper.memory, hyper.head_hidden, key=of_memory
        )
        model = GaussianWeights(memory) if hyper.memory_kl_coefficient else memory
        return ModelState(model, self.init_optimiser(model))

    def update(
        self, state: ModelState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[ModelState, dict[str, Float[Array, ""]]]:
        """One step of the optimiser on the validation loss of the episodes, and on the KL of Gaussian weights."""
        episodes = wanted(drawn.episodes)

        def objective(model: Memory | GaussianWeights) -> Float[Array, ""]:
            if not isinstance(model, GaussianWeights):
                return self.meta_loss(model, episodes)
            return self.meta_loss(model.draw(key), episodes) + self.hyper.memory_kl_coefficient * model.kl()

        loss, gradient = eqx.filter_value_and_grad(objective)(state.model)
        return ModelState(*self.descend(gradient, state.optimiser, state.model)), {"loss": loss}

    def predict(self, state: ModelState, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """Outputs given the recurrent state after the last shot."""
        model = state.model.mean if isinstance(state.model, GaussianWeights) else state.model
        return _answers(model, support, query)

    def meta_loss(self, model: Memory, episodes: Episodes) -> Float[Array, ""]:
        """The validation loss given the shots, averaged over the tasks."""

        def of_task(one: Episodes) -> Float[Array, ""]:
            val = one.val.without_padding_content()
            losses = jax.vmap(self.spec.loss)(_answers(model, one.train, val.x), val.y)
            return jnp.sum(losses * val.present()) / jnp.maximum(val.count, 1)

        return jnp.mean(jax.vmap(of_task)(episodes))


def _answers(model: Memory, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
    support = support.without_padding_content()
    summary = model.summary(support.x, support.y, support.present())
    return jax.vmap(lambda x: model(summary, x))(query)
