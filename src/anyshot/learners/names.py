"""The methods by name: what each is and where its class is, without importing JAX."""

from __future__ import annotations

from dataclasses import dataclass

from anyshot.errors import InputError


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes:
        told: what it is.
        place: its class, as module:class of `anyshot`: a learner that is made from a recipe, or a rate rule for FTML.
    """

    told: str
    place: str


METHODS = {
    "toe": Method("train on everything: one model, all data, no adaptation (section 6.2, table 2)", "learners.toe:TOE"),
    "ftml": Method(
        "follow the meta-leader with a fixed inner step size (section 6.2, table 2)", "rates.constant:Constant"
    ),
    "ftml-vl": Method(
        "FTML with a learned step size for every number of shots (section 4.2, table 2)", "rates.per_shot:PerShot"
    ),
    "ftml-vs": Method(
        "FTML with the scaled step size beta (1 - 1/(1 + eta s)), the paper's method (section 5, table 2)",
        "rates.scaled:Scaled",
    ),
    "ftml+meta-sgd": Method(
        "FTML with a learned step size for every parameter (section 6.2, table 2)", "rates.per_parameter:PerParameter"
    ),
    "ftml-vs+meta-sgd": Method(
        "FTML-VS with a beta for every parameter (named as future work in section 6.2)",
        "rates.scaled_per_parameter:ScaledPerParameter",
    ),
    "ftml-vs-closed-form": Method(
        "FTML-VS with eta measured by theorem 1 instead of learned (section 4.2)", "rates.closed_form:ClosedForm"
    ),
    "a-gem": Method("averaged gradient episodic memory, a continual learner (section 6.2)", "learners.agem:AGEM"),
    "mann": Method("a recurrent network that reads the shots (section 6.1, table 1, appendix D)", "learners.mann:MANN"),
    "protonet": Method(
        "incremental prototypical networks; classification only (section 6.2)", "learners.protonet:ProtoNet"
    ),
}

LEARNERS = {name: method.told for name, method in METHODS.items()}

# Offline, follow the meta-leader is MAML: the same learner, given all training tasks at once.
OFFLINE_LEARNERS = {
    "maml": "MAML with a fixed inner step size (section 6.1, table 1)",
    "maml-vl": "MAML with a learned step size for every number of shots (section 4.2, table 1)",
    "maml-vs": "MAML with the scaled step size beta (1 - 1/(1 + eta s)) (section 4.2, table 1)",
    "maml+meta-sgd": "MAML with a learned step size for every parameter (Li et al. 2017)",
    "maml-vs+meta-sgd": "MAML-VS with a beta for every parameter",
    "maml-vs-closed-form": "MAML-VS with eta measured by theorem 1 instead of learned (section 4.2)",
    "mann": "a recurrent network that reads the shots (section 6.1, table 1, appendix D)",
}


def learner_offline(name: str) -> str:
    """The name in `LEARNERS` of an offline method.

    >>> learner_offline("maml-vs")
    'ftml-vs'
    """
    if name not in OFFLINE_LEARNERS:
        raise InputError(f"there is no offline learner {name!r}; there are {', '.join(OFFLINE_LEARNERS)}")
    return name.replace("maml", "ftml", 1)
