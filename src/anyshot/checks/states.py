"""The promises a learner makes about the form of its state, which a compiled loop carries."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax

from anyshot.checks.trial import Trial, close, demand, finite, same_structure, with_spoilt_padding
from anyshot.shots import Shots


def check_memory_is_bounded(trial: Trial) -> None:
    """The state has as many bytes after several updates as after one."""
    states = [trial.updated[0]]
    for _ in range(3):
        states.append(trial.update(states[-1], trial.drawn, trial.key)[0])
    first, *_, last = [
        sum(leaf.nbytes for leaf in jax.tree.leaves(eqx.filter(state, eqx.is_array))) for state in states
    ]
    complaint = f"the state has {first} bytes after one update and {last} after four; remember in arrays of fixed size"
    demand(first == last, complaint)


def check_update_keeps_form(trial: Trial) -> None:
    """The state keeps its structure, shapes and dtypes, and what is no array: a compiled loop carries the arrays."""
    _demand_same_form(trial.state, trial.updated[0], "update")


def _demand_same_form(old: Any, new: Any, what: str) -> None:
    demand(
        same_structure(old, new),
        f"{what} gives a state of another structure (or other static fields) than init; return the same type",
    )
    for (path, before), after in zip(jax.tree_util.tree_leaves_with_path(old), jax.tree.leaves(new), strict=True):
        was, now = _form(before), _form(after)
        advice = "keep its shape and dtype" if eqx.is_array(before) else "keep what changes in arrays of JAX"
        demand(was == now, f"{what} turns state{jax.tree_util.keystr(path)} from {was} into {now}; {advice}")


def _form(leaf: Any) -> Any:
    """What a compiled loop takes for constant of a leaf: shape and dtype of an array, anything else as it is."""
    return f"{leaf.dtype}{list(leaf.shape)}" if eqx.is_array(leaf) else leaf


def check_observing(trial: Trial) -> None:
    """A learner that observes predicts by `expect` and `combine`, and keeps the form of its state."""
    learner, state = trial.learner, trial.updated[0]
    if not learner.observes():
        return

    @eqx.filter_jit
    def expect(state: Any, support: Shots, query: Any) -> Any:
        expected = learner.expect(state, support, query)
        return expected, learner.combine(state, support, expected)

    arrived = trial.shots(2, seed=30)
    expected, outputs = expect(state, trial.many, arrived.x)
    complaint = "predict gives another result than combine after expect; define it by the two"
    demand(close(outputs, trial.predict(state, trial.many, arrived.x)), complaint)
    observe = eqx.filter_jit(lambda state, expected, arrived: learner.observe(state, expected, arrived))
    observed = observe(state, expected, arrived)
    ended = eqx.filter_jit(lambda state: learner.end_task(state))(observed)
    for what, new in (("observe", observed), ("end_task", ended)):
        _demand_same_form(state, new, what)
        demand(
            finite(eqx.filter(new, eqx.is_array)),
            f"{what} gives a state with NaN or infinity; guard divisions and logarithms",
        )
    complaint = "observe depends on rows behind count; use Shots.present or Shots.without_padding_content"
    spoilt = observe(state, expected, with_spoilt_padding(arrived))
    demand(close(*(eqx.filter(one, eqx.is_array) for one in (spoilt, observed))), complaint)
