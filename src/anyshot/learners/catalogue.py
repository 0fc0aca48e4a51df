"""The learners by name. Listing them does not import JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anyshot.errors import InputError
from anyshot.registry import Entry, Registry

if TYPE_CHECKING:
    from anyshot.learners.learner import Learner
    from anyshot.learners.network_learner import LearnerSpec

# A target is a subclass of `NetworkLearner`, or of `Rate`, which stands for FTML with that rule. MAML is the same
# learner as FTML under its offline name.
LEARNERS = Registry(
    "learner",
    "anyshot.learners",
    {
        "anyshot": Entry(
            "a product of FTML-VS, ridge-head and scratch-kernel, with powers learned from their predictions (our own)",
            "anyshot.learners.anyshot:Anyshot",
        ),
        "toe": Entry(
            "train on everything: one model, all data, no adaptation (section 6.2, table 2)", "anyshot.learners.toe:TOE"
        ),
        "ftml": Entry(
            "follow the meta-leader with a fixed inner step size (section 6.2, table 2)",
            "anyshot.rates.constant:Constant",
        ),
        "ftml-vl": Entry(
            "FTML with a learned step size for each number of shots (section 4.2, table 2)",
            "anyshot.rates.per_shot:PerShot",
        ),
        "ftml-vs": Entry(
            "FTML with the scaled step size beta (1 - 1/(1 + eta s)), the paper's method (section 5, table 2)",
            "anyshot.rates.scaled:Scaled",
        ),
        "ftml+meta-sgd": Entry(
            "FTML with a learned step size for each parameter (section 6.2, table 2)",
            "anyshot.rates.per_parameter:PerParameter",
        ),
        "ftml-vs+meta-sgd": Entry(
            "FTML-VS with a beta for each parameter (named as future work in section 6.2)",
            "anyshot.rates.scaled_per_parameter:ScaledPerParameter",
        ),
        "ftml-vs-closed-form": Entry(
            "FTML-VS with eta measured by theorem 1 instead of learned (section 4.2)",
            "anyshot.rates.closed_form:ClosedForm",
        ),
        "ftml-learned-constant": Entry(
            "FTML with one learned step size for all numbers of shots (a control for FTML-VS)",
            "anyshot.rates.learned_constant:LearnedConstant",
        ),
        "a-gem": Entry(
            "averaged gradient episodic memory, a continual learner (section 6.2)", "anyshot.learners.agem:AGEM"
        ),
        "mann": Entry(
            "a recurrent network that reads the shots (section 6.1, table 1, appendix D)", "anyshot.learners.mann:MANN"
        ),
        "protonet": Entry(
            "incremental prototypical networks; classification only (section 6.2)", "anyshot.learners.protonet:ProtoNet"
        ),
        "ridge-head": Entry(
            "ridge regression on learned features, adapted in closed form (not in the paper)",
            "anyshot.learners.ridge_head:RidgeHead",
        ),
        "scratch": Entry(
            "logistic or ridge regression from scratch on each task's own labels, a baseline",
            "anyshot.learners.scratch:Scratch",
        ),
        "scratch-kernel": Entry(
            "a Gaussian kernel from scratch on each task's own labels, on edges and colours of images, a baseline",
            "anyshot.learners.scratch_kernel:ScratchKernel",
        ),
        "scratch-network": Entry(
            "the network trained from scratch on each task's own labels, a baseline",
            "anyshot.learners.scratch:ScratchNetwork",
        ),
        "maml": Entry("FTML's name offline (section 6.1, table 1)", "anyshot.rates.constant:Constant"),
        "maml-vl": Entry("FTML-VL's name offline (section 4.2, table 1)", "anyshot.rates.per_shot:PerShot"),
        "maml-vs": Entry("FTML-VS's name offline (section 4.2, table 1)", "anyshot.rates.scaled:Scaled"),
        "maml+meta-sgd": Entry(
            "FTML + Meta-SGD's name offline (Li et al. 2017)", "anyshot.rates.per_parameter:PerParameter"
        ),
        "maml-vs+meta-sgd": Entry(
            "FTML-VS + Meta-SGD's name offline", "anyshot.rates.scaled_per_parameter:ScaledPerParameter"
        ),
        "maml-vs-closed-form": Entry(
            "FTML-VS closed form's name offline (section 4.2)", "anyshot.rates.closed_form:ClosedForm"
        ),
    },
)


def register(name: str, target: type | str, summary: str = "") -> None:
    """Make a learner available by name.

    Args:
        name: a name that is not taken.
        target: a subclass of `NetworkLearner`, or of `Rate` for FTML with that rule; or "module:name" to import it
            from when it is first used.
        summary: what it is, in one line; by default the first line of its docstring.
    """
    if not isinstance(target, str):
        _learner_class(name, target)
    LEARNERS.register(name, target, summary)


def hyperparameters_of(name: str) -> type[Any]:
    """The dataclass of a learner's hyperparameters.

    >>> hyperparameters_of("ftml-vs")().inner_steps
    5
    """
    return _learner_class(name, LEARNERS.find(name).load()).hyperparameters


def has_features(name: str) -> bool:
    """Whether a learner makes features of inputs.

    >>> has_features("ridge-head"), has_features("toe")
    (True, False)
    """
    return bool(_learner_class(name, LEARNERS.find(name).load()).has_features())


def build_learner(spec: LearnerSpec, hyperparameters: Mapping[str, Any]) -> Learner:
    """Make the learner called `spec.name`.

    Args:
        spec: its name, and the problem, network, loss and optimiser.
        hyperparameters: values by name. Those that are not given have the learner's defaults; a name that the learner
            does not have is refused.
    """
    target = LEARNERS.find(spec.name).load()
    kind = _learner_class(spec.name, target)
    known = kind.hyperparameters.__dataclass_fields__
    unknown = [name for name in hyperparameters if name not in known]
    if unknown:
        raise InputError(f"{spec.name} has no hyperparameter {unknown[0]!r}; it has {', '.join(known)}")
    hyper = kind.hyperparameters(**hyperparameters)
    return kind(spec, hyper) if kind is target else kind(spec, hyper, target)


def _learner_class(name: str, target: Any) -> Any:
    """The class of the learner that a target stands for."""
    from anyshot.learners.ftml import FTML
    from anyshot.learners.network_learner import NetworkLearner
    from anyshot.rates import Rate

    if isinstance(target, type) and issubclass(target, Rate):
        return FTML
    if not (isinstance(target, type) and issubclass(target, NetworkLearner)):
        raise InputError(f"learner {name!r} must be a subclass of NetworkLearner or of Rate, got {target!r}")
    return target
