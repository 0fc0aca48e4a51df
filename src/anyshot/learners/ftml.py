"""Follow the meta-leader, with any rule for the inner step size (paper, section 5 and algorithm 2)."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from anyshot.adaptation import GaussianWeights, MetaObjective, Update, remeasure
from anyshot.adaptation.layers import mark_adapted
from anyshot.errors import InputError
from anyshot.learners.learner import Drawn, Want, wanted
from anyshot.learners.network_learner import Hyperparameters, NetworkLearner, check_number
from anyshot.limits import check_whole
from anyshot.rates import ClosedForm, Rate
from anyshot.shots import Shots

MOST_INNER_STEPS = 10_000
MOST_LAYERS = 1_000


@dataclass(frozen=True, kw_only=True)
class FTMLHyperparameters(Hyperparameters):
    """FTML's hyperparameters. The defaults are the paper's for Rainbow MNIST (appendix E).

    Attributes:
        inner_steps: N_grad, the gradient steps of one adaptation.
        inner_rate: the inner step size, or the initial value of a learned one (alpha, beta).
        inner_clip: the largest norm of the inner gradient; None means no limit.
        second_order: whether the meta-gradient takes into account that the inner gradient depends on the weights.
        eta: the initial value of a learned scaling factor.
        kl_coefficient: the weight of meta-regularisation, which is the KL divergence summed over all weights. With 0
            there is none, and weights are numbers instead of Gaussians.
        fixed_layers: how many layers, the first ones, are not adapted to a task; they are only meta-learned. A layer
            is a weight with its bias.
        kl_layers: the layers that meta-regularisation is for: "all", or "fixed" as in Yin et al. Weights of the others
            are then numbers.
        batching: how the tasks of a meta-batch are computed: "together", "in turn", or "auto" to suit the device.
    """

    inner_steps: int = 5
    inner_rate: float = 0.1
    inner_clip: float | None = 10.0
    second_order: bool = True
    eta: float = 1.0
    kl_coefficient: float = 0.0
    fixed_layers: int = 0
    kl_layers: Literal["all", "fixed"] = "all"
    batching: Literal["auto", "together", "in turn"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("inner_steps", self.inner_steps, 1, MOST_INNER_STEPS)
        check_number("inner_rate", self.inner_rate)
        if self.inner_clip is not None:
            check_number("inner_clip", self.inner_clip)
        check_number("eta", self.eta)
        check_number("kl_coefficient", self.kl_coefficient, zero=True)
        check_whole("fixed_layers", self.fixed_layers, 0, MOST_LAYERS)
        if self.kl_layers not in ("all", "fixed"):
            raise InputError(f"kl_layers must be 'all' or 'fixed', got {self.kl_layers!r}")
        if self.kl_layers == "fixed" and not self.fixed_layers:
            raise InputError("kl_layers is 'fixed', but fixed_layers is 0; give at least 1, or kl_layers 'all'")
        if not isinstance(self.second_order, bool):
            raise InputError(f"second_order must be True or False, got {self.second_order!r}")
        check_batching(self.batching)


class FTMLState(eqx.Module):
    """θ (or the mean and spread of Gaussian weights), the rate rule, and the optimiser's state."""

    weights: PyTree[Any]
    rate: Rate
    optimiser: PyTree[Any]


class FTML(NetworkLearner):
    """VS-Meta-Update and VS-Update-Procedure. The rule makes it FTML, FTML-VL, FTML-VS or one with Meta-SGD.

    Args:
        spec: its name, and the problem, network, loss and optimiser.
        hyper: its hyperparameters.
        rule: the class of the rule for the inner step size.
    """

    hyperparameters: ClassVar[type[FTMLHyperparameters]] = FTMLHyperparameters

    hyper: FTMLHyperparameters = eqx.field(static=True)
    rule: type[Rate] = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.hyper.fixed_layers and self.rule is ClosedForm:
            raise InputError(
                f"{self.name} measures the gradient of all weights, so fixed_layers must be 0, got "
                f"{self.hyper.fixed_layers}"
            )

    @property
    def wants(self) -> frozenset[Want]:
        """Episodes."""
        return frozenset({"episodes"})

    @property
    def shares_tasks(self) -> bool:
        """True."""
        return True

    @property
    def inner_steps(self) -> int:
        """N_grad."""
        return self.hyper.inner_steps

    @property
    def second_order(self) -> bool:
        """As its hyperparameter says."""
        return self.hyper.second_order

    @property
    def update_procedure(self) -> Update:
        """The update procedure U."""
        hyper = self.hyper
        return Update(
            self.spec.loss,
            hyper.inner_steps,
            hyper.inner_clip,
            hyper.second_order,
            fixed_layers=hyper.fixed_layers,
        )

    @property
    def objective(self) -> MetaObjective:
        """The meta-objective J."""
        return MetaObjective(self.update_procedure, self.hyper.kl_coefficient, self.hyper.batching)

    def init(self, key: Key[Array, ""]) -> FTMLState:
        """Random weights and the rule's initial values."""
        hyper, max_shots = self.hyper, self.spec.problem.max_shots
        model = self.make_model(key)
        fixed = jax.tree.map(operator.not_, mark_adapted(model, hyper.fixed_layers))
        fixed = fixed if hyper.kl_layers == "fixed" else None
        weights = GaussianWeights(model, random=fixed) if hyper.kl_coefficient else model
        rate = self.rule.initial(model, inner_rate=hyper.inner_rate, eta=hyper.eta, max_shots=max_shots)
        return FTMLState(weights, rate, self.init_optimiser((weights, rate)))

    def update(
        self, state: FTMLState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[FTMLState, dict[str, Float[Array, ""]]]:
        """One step of the optimiser on the meta-objective, for the weights and the rule."""
        episodes = wanted(drawn.episodes)
        both = (state.weights, remeasure(state.rate, _mean(state.weights), self.spec.loss, episodes.val))
        loss, gradient = self.objective.value_and_grad(*both, episodes, key)
        (weights, rate), optimiser = self.descend(gradient, state.optimiser, both)
        return FTMLState(weights, rate, optimiser), {"loss": loss}

    def predict(self, state: FTMLState, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """h(x; U(θ, α_s, s))."""
        return jax.vmap(self.update_procedure(_mean(state.weights), state.rate, support))(query)

    def rates(self, state: FTMLState) -> dict[str, Float[Array, "..."]]:
        """α_s for s = 0..M, and the rule's named numbers, such as β and η.

        A rule with a step size for each parameter gives their mean.
        """

        def alpha(shots: int) -> Float[Array, ""]:
            leaves = jax.tree.leaves(state.rate(shots))
            return sum((jnp.sum(leaf) for leaf in leaves), jnp.zeros(())) / sum(leaf.size for leaf in leaves)

        alphas = jnp.stack([alpha(shots) for shots in range(self.spec.problem.max_shots + 1)])
        return {"alpha": alphas, **state.rate.named()}


def _mean(weights: PyTree[Any]) -> PyTree[Any]:
    return weights.mean if isinstance(weights, GaussianWeights) else weights


def check_batching(batching: object) -> None:
    """Refuse a way to compute a meta-batch that does not exist.

    >>> check_batching("auto")
    """
    if batching not in ("auto", "together", "in turn"):
        raise InputError(f"batching must be 'auto', 'together' or 'in turn', got {batching!r}")
