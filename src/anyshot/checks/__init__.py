"""Whether a learner keeps the promises that the loops and the checkpoints rely on."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from anyshot.checks.promises import CHECKS
from anyshot.checks.trial import LearnerError, Trial
from anyshot.errors import InputError
from anyshot.learners import Learner
from anyshot.rates.rule import check_max_shots

__all__ = ["CHECKS", "LearnerError", "check_learner"]


def check_learner(
    learner: Learner,
    example: tuple[PyTree[Any], ...],
    *,
    classes: int | None = None,
    max_shots: int = 5,
    order_matters: bool = False,
    key: Key[Array, ""] | None = None,
) -> None:
    """Raise `LearnerError` unless the learner behaves on random data, as all learners of anyshot do.

    It is tried with every number of shots from 0 to `max_shots`.

    Args:
        learner: any `Learner`.
        example: shape and dtype of one input and label, as `TaskSet.example` gives them.
        classes: labels are 0..classes-1; None for a regression.
        max_shots: M, the most shots a task has.
        order_matters: whether the learner may give other predictions for the same shots in another order.
        key: draws the data.

    >>> from anyshot import OnlineProtocol, check_learner, load_tasks, make_learner
    >>> tasks, rules = load_tasks("sinusoid"), OnlineProtocol(measure="loss", threshold=0.3, max_shots=5)
    >>> check_learner(make_learner("toe", tasks, rules), tasks.example())
    """
    if not isinstance(learner, Learner):
        raise InputError(f"learner must be a Learner, got {learner!r}; anyshot.make_learner makes one by name")
    if not isinstance(example, tuple) or len(example) != 2:
        raise InputError(f"example must be a pair, shape and dtype of one input and of one label, got {example!r}")
    check_max_shots(max_shots)
    label = example[1]
    is_class = getattr(label, "shape", None) == () and jnp.issubdtype(label.dtype, jnp.integer)
    if classes is not None and not (is_class and classes >= 2):
        raise InputError(f"classes is {classes} and a label is {label!r}; give two classes or more, and one integer")
    trial = Trial(learner, example, classes, max_shots, order_matters, jax.random.key(0) if key is None else key)
    for check in CHECKS:
        try:
            check(trial)
        except Exception as error:
            why = str(error)
            if not isinstance(error, LearnerError):
                said = (why.splitlines() or ["no message"])[0].rstrip(".")
                why = f"it raised {type(error).__name__} ({said}); see the error above, it must not raise here"
            raise LearnerError(f"{type(learner).__name__} fails {check.__name__}: {why}") from error
