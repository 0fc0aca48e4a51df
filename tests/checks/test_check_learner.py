"""Every learner keeps the promises of `anyshot.checks`, and so may learners and networks of other people."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from anyshot.checks import LearnerError, check_learner
from anyshot.errors import InputError
from tests.checks.counting import Counting, frequencies
from tests.support.learners import CLASS, INPUT, NAMES, M, N, build
from tests.support.refusals import as_a_user_runs_it

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.slow]

# The rules that differ little from others wait for `make test-slow`.
SLOW = ("ftml", "ftml-vl", "ftml+meta-sgd", "ftml-vs+meta-sgd", "ftml-learned-constant")
LATER = (*SLOW, "ftml-vs-closed-form", "mann")  # tried on classes


def marked(names: list[str], slow: tuple[str, ...]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] if name in slow else []) for name in names]


@pytest.mark.parametrize("name", marked(NAMES, SLOW))
def test_every_learner_behaves_on_classes(name: str) -> None:
    check_learner(build(name), (INPUT, CLASS), classes=N, max_shots=M, order_matters=name == "mann")


@pytest.mark.parametrize("name", marked([name for name in NAMES if name != "protonet"], LATER))
def test_every_learner_but_protonet_behaves_in_a_regression(name: str) -> None:
    learner = build(name, example=(INPUT, INPUT))
    check_learner(learner, (INPUT, INPUT), max_shots=M, order_matters=name == "mann")


def test_a_learner_with_gaussian_weights_behaves() -> None:
    check_learner(build("ftml-vs", kl_coefficient=1e-3), (INPUT, CLASS), classes=N, max_shots=M)


def equinox_mlp(key: Any, outputs: int) -> Any:
    """A model with leaves that are no arrays: activation functions, one of them made anew each time."""
    return eqx.nn.MLP(N, outputs, N, 1, jnp.tanh, lambda x: 2 * x, key=key)


@pytest.mark.parametrize("name", marked(NAMES, tuple(name for name in NAMES if name not in ("toe", "ftml-vs"))))
def test_any_callable_tree_may_be_the_network(name: str) -> None:
    learner = build(name, network=equinox_mlp)
    assert name in ("scratch", "scratch-kernel") or any(
        callable(leaf) for leaf in jax.tree.leaves(learner.init(jax.random.key(0)))
    )
    check_learner(learner, (INPUT, CLASS), classes=N, max_shots=M, order_matters=name == "mann")


def test_a_learner_without_any_of_our_parts_behaves() -> None:
    check_learner(Counting(), (INPUT, CLASS), classes=N, max_shots=M)


def test_order_may_matter_if_declared() -> None:
    class LikesTheFirst(Counting):
        def predict(self, state: Any, support: Any, query: Any) -> Any:
            return super().predict(state, support, query) + jnp.where(support.count > 0, support.x[0], 0.0)

    check_learner(LikesTheFirst(), (INPUT, CLASS), classes=N, max_shots=M, order_matters=True)
    with pytest.raises(LearnerError, match="check_order_of_shots"):
        check_learner(LikesTheFirst(), (INPUT, CLASS), classes=N, max_shots=M)


def test_inputs_of_any_form_are_tried() -> None:
    class OfTrees(Counting):
        def predict(self, state: Any, support: Any, query: Any) -> Any:
            flat = query["image"].astype(float).sum((1, 2)) + query["flag"] + query["small"]
            return flat[:, None] + state["seen"] + frequencies(support)

    shapes = {"image": ((2, 2), jnp.uint8), "flag": ((), jnp.bool_), "small": ((), jnp.bfloat16)}
    x = {name: jax.ShapeDtypeStruct(*shape) for name, shape in shapes.items()}
    check_learner(OfTrees(), (x, CLASS), classes=N, max_shots=1)


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        ({"learner": "toe"}, "^learner must be a Learner"),
        ({"example": (INPUT,)}, "^example must be a pair"),
        ({"example": None}, "^example must be a pair"),
        ({"classes": 1}, "^classes is 1"),
        ({"example": (INPUT, INPUT)}, "^classes is 3 and a label is"),
        ({"max_shots": 0}, "^max_shots must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, saying: str) -> None:
    right: Any = {"learner": Counting(), "example": (INPUT, CLASS), "classes": N, "max_shots": M} | arguments
    with as_a_user_runs_it(), pytest.raises(InputError, match=saying):
        check_learner(**right)
