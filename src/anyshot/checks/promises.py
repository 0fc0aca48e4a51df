"""The promises a learner makes, each a check of its own."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from anyshot.checks.states import check_memory_is_bounded, check_observing, check_update_keeps_form
from anyshot.checks.trial import (
    Trial,
    close,
    demand,
    finite,
    joined,
    same,
    snapshot,
    some_rows,
    stacked,
    with_spoilt_padding,
)
from anyshot.learners.learner import Want
from anyshot.runs.checkpoints import Checkpoint, load, save
from anyshot.runs.state import restore_state, state_arrays
from anyshot.shots import Shots


def check_wants(trial: Trial) -> None:
    """`wants` says what the loop is to draw; it may be empty."""
    wants, known = trial.learner.wants, get_args(Want)
    ok = isinstance(wants, frozenset) and wants <= set(known)
    demand(ok, f"wants is {wants!r}; give a frozenset of some of {', '.join(known)}, empty if it is never updated")


def check_init(trial: Trial) -> None:
    """The state is a PyTree, the same for the same key. What is learned is in JAX arrays, all of them finite."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(trial.state):
        name = f"state{jax.tree_util.keystr(path)}"
        of_numpy = isinstance(leaf, np.ndarray | np.generic)
        demand(not of_numpy, f"{name} is an array of NumPy; make it one of JAX with jnp.asarray")
    demand(finite(trial.state), "init gives a state with NaN or infinity; start from finite numbers")
    again = trial.learner.init(trial.key)
    demand(same(trial.state, again), "init gives another state for the same key; draw from the key only")


def check_update_reports(trial: Trial) -> None:
    """`update` returns a finite state and a dict of finite scalars, `loss` among them."""
    state, metrics = trial.plainly_updated
    ok = isinstance(metrics, dict) and "loss" in metrics
    demand(ok, f"update returns the metrics {metrics!r}; return a dict of scalars with the key 'loss'")
    for name, value in metrics.items():
        demand(jnp.shape(value) == (), f"metric {name!r} has shape {jnp.shape(value)}; reduce it to one number")
    demand(finite(metrics), f"the metrics {metrics} are not finite; guard divisions and logarithms")
    demand(finite(state), "update gives a state with NaN or infinity; guard divisions, and roots in gradients")


def check_update_is_pure(trial: Trial) -> None:
    """`update` gives the same for the same arguments and leaves them as they are."""
    with jax.disable_jit():  # all of it, as for the first result: a compiled `init` may round otherwise
        arguments = (trial.learner.init(trial.key), trial.drawn, trial.key)
        before = snapshot(arguments)
        again = trial.learner.update(*arguments)
    demand(snapshot(arguments) == before, "update changes its arguments; return a new state instead")
    complaint = (
        "update gives another result for the same arguments; draw from the key only, keep all memory in the state"
    )
    demand(same(trial.plainly_updated, again), complaint)


def check_without_wants(trial: Trial) -> None:
    """A learner that wants nothing is never updated, so its `update` leaves the state as it is."""
    complaint = "update changes the state, but wants is empty, so that no loop calls it; name what it needs in wants"
    with jax.disable_jit():  # as for the updated state: compiled, `init` may round otherwise
        state = trial.learner.init(trial.key)
    # Arrays alone: a network may hold functions that are made anew by each `init`.
    after, before = (eqx.filter(s, eqx.is_array) for s in (trial.plainly_updated[0], state))
    demand(trial.learner.wants or same(after, before), complaint)


def check_predict_is_pure(trial: Trial) -> None:
    """`predict` gives the same for the same arguments and leaves them as they are."""
    arguments = (trial.plainly_updated[0], trial.many, trial.query)
    before = snapshot(arguments)
    with jax.disable_jit():
        first = trial.learner.predict(*arguments)
        trial.learner.predict(
            trial.state, trial.shots(1, seed=3), trial.shots(trial.max_shots + 1, seed=4).x
        )  # something else
        again = trial.learner.predict(*arguments)
    demand(snapshot(arguments) == before, "predict changes its arguments; work on copies")
    demand(same(first, again), "predict gives another result for the same arguments; keep nothing between calls")


def check_predict_compiles(trial: Trial) -> None:
    """`predict` works under jit and computes the same there."""
    arguments = (trial.plainly_updated[0], trial.many, trial.query)
    with jax.disable_jit():
        plain = trial.learner.predict(*arguments)
    complaint = "predict gives another result under jax.jit; do not branch on values or on whether they are traced"
    demand(close(trial.predict(*arguments), plain), complaint)


def check_update_compiles(trial: Trial) -> None:
    """`update` works under jit and computes the same there."""
    (plain, metrics), (compiled, compiled_metrics) = trial.plainly_updated, trial.updated
    complaint = "update gives another result under jax.jit; do not branch on values or on whether they are traced"
    demand(close(compiled_metrics, metrics), complaint)
    # What a state predicts, not the state: Adam turns a gradient of nothing but rounding into a whole step.
    demand(close(*(trial.predict(state, trial.many, trial.query) for state in (compiled, plain))), complaint)


def check_update_with_any_number_of_shots(trial: Trial) -> None:
    """`update` gives finite numbers, however many shots the episodes have to adapt on, zero included."""
    if trial.drawn.episodes is not None:
        for first in range(0, len(trial.counts), 3):
            counts = tuple(trial.counts[(first + place) % len(trial.counts)] for place in range(3))
            ok = finite(trial.update(trial.state, trial.draw(counts), trial.key))
            complaint = f"update is not finite with episodes of {counts} shots; divide by jnp.maximum(count, 1)"
            demand(ok, complaint)


def check_update_ignores_padding(trial: Trial) -> None:
    """What lies behind `count` changes neither the metrics nor what is learned."""
    spoilt = jax.tree.map(with_spoilt_padding, trial.drawn, is_leaf=lambda node: isinstance(node, Shots))
    results = (trial.updated, trial.update(trial.state, spoilt, trial.key))
    seen = [(metrics, trial.predict(state, trial.many, trial.query)) for state, metrics in results]
    demand(close(*seen), "update depends on rows behind count; use Shots.present or Shots.without_padding_content")


def check_empty_memory(trial: Trial) -> None:
    """While the first task lasts there is no memory of earlier ones."""
    memory = trial.drawn.memory
    if memory is not None:
        empty = with_spoilt_padding(Shots(memory.x, memory.y, jnp.zeros((), jnp.int32)))
        drawn = dataclasses.replace(trial.drawn, memory=empty)
        state, metrics = trial.update(trial.state, drawn, trial.key)
        ok = finite((metrics, trial.predict(state, trial.many, trial.query)))
        demand(ok, "update is not finite when drawn.memory has count 0; divide by jnp.maximum(count, 1)")


def check_one_row_per_query(trial: Trial) -> None:
    """There is an output for every query: in a classification, a number for every class."""
    rows = jax.tree.leaves(trial.query)[0].shape[0]
    shapes = [leaf.shape for leaf in jax.tree.leaves(trial.predict(trial.updated[0], trial.many, trial.query))]
    if trial.classes is None:
        ok, right = all(shape[:1] == (rows,) for shape in shapes), f"({rows}, ...)"
    else:
        ok, right = shapes == [(rows, trial.classes)], f"({rows}, {trial.classes})"
    demand(ok, f"predict gives shapes {shapes} for {rows} queries; give {right}")


def check_any_number_of_shots(trial: Trial) -> None:
    """Predictions are finite with every number of shots, zero included, before and after learning."""
    for count in trial.counts:
        for state in (trial.state, trial.updated[0]):
            outputs = trial.predict(state, trial.shots(count), trial.query)
            demand(finite(outputs), f"predict is not finite with {count} shots; divide by jnp.maximum(count, 1)")


def check_padding(trial: Trial) -> None:
    """Neither the content nor the number of the rows behind `count` matters to a prediction."""
    for count in trial.counts:
        support = trial.shots(count)
        longer = trial.shots(count, padding=trial.max_shots + 4 - count)
        expected = trial.predict(trial.updated[0], support, trial.query)
        for other, what in ((with_spoilt_padding(support), "the content"), (longer, "the number")):
            complaint = (
                f"with {count} shots predict depends on {what} of the rows behind count; mask with Shots.present"
            )
            demand(close(trial.predict(trial.updated[0], other, trial.query), expected), complaint)


def check_queries_are_independent(trial: Trial) -> None:
    """The prediction for a query does not depend on the others, nor on its place among them."""
    complaint = "predict depends on {}; compute one query at a time with jax.vmap"
    expected = trial.predict(trial.updated[0], trial.many, trial.query)
    moved = trial.predict(trial.updated[0], trial.many, some_rows(trial.query, slice(None, None, -1)))
    demand(close(moved, some_rows(expected, slice(None, None, -1))), complaint.format("the order of the queries"))
    others = jax.tree.map(
        lambda *both: joined(both[0][:1], both[1][1:]), trial.query, trial.shots(trial.max_shots + 1, seed=4).x
    )
    alone = trial.predict(trial.updated[0], trial.many, others)
    demand(close(some_rows(alone, slice(1)), some_rows(expected, slice(1))), complaint.format("what else is asked"))


def check_order_of_shots(trial: Trial) -> None:
    """The same shots in another order give the same predictions, unless the learner is declared to care."""
    if not trial.order_matters:
        last, turned = slice(trial.max_shots, None), slice(trial.max_shots - 1, None, -1)
        x, y = (
            jax.tree.map(lambda leaf: joined(leaf[turned], leaf[last]), tree) for tree in (trial.many.x, trial.many.y)
        )
        supports = (trial.many, Shots(x, y, trial.many.count))
        complaint = "predict depends on the order of the shots; if that is intended, give order_matters=True"
        demand(close(*(trial.predict(trial.updated[0], support, trial.query) for support in supports)), complaint)


def check_many_tasks(trial: Trial) -> None:
    """`predict` works under vmap over tasks, each with a number of shots of its own, and computes the same there."""
    tasks = [
        (trial.shots(count, seed=count), trial.shots(trial.max_shots + 1, seed=20 + count).x) for count in trial.counts
    ]

    @eqx.filter_jit
    def predict_all(state: Any, supports: Any, queries: Any) -> Any:
        return jax.vmap(lambda support, query: trial.learner.predict(state, support, query))(supports, queries)

    together = predict_all(trial.updated[0], *stacked(tasks))
    in_turn = [trial.predict(trial.updated[0], *task) for task in tasks]
    complaint = "predict gives another result under jax.vmap over tasks; do not use axis names or hidden state"
    demand(close(together, stacked(in_turn)), complaint)


def check_rates(trial: Trial) -> None:
    """`rates` gives finite arrays, also inside a compiled loop; α_s is there for every number of shots."""
    rates = eqx.filter_jit(lambda state: trial.learner.rates(state))(trial.updated[0])
    demand(isinstance(rates, dict), f"rates returns {rates!r}; return a dict of arrays, empty if there is none")
    demand(finite(rates), f"rates returns {rates}, which is not finite; keep rates as logarithms")
    alpha = np.asarray(rates.get("alpha", np.zeros(trial.max_shots + 1)))
    ok = alpha.ndim == 1 and len(alpha) > trial.max_shots and (alpha >= 0).all()
    demand(ok, f"rates gives alpha {alpha}; give {trial.max_shots + 1} or more numbers, none below 0, for s = 0..M")


def check_saving(trial: Trial) -> None:
    """A state that went through a checkpoint predicts the same, bit for bit."""
    learned = trial.updated[0]
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), Checkpoint(0, state_arrays((learned,)), {}, b""), experiment_sha256="")
        read = load(Path(folder), experiment_sha256="", warn=lambda _: None)
    assert read is not None
    (state,) = restore_state((trial.state,), read.arrays)
    results = (trial.predict(one, trial.many, trial.query) for one in (learned, state))
    demand(same(*results), "predict gives another result after save and load; keep all it needs in the state's arrays")


# In this order, so that a check relies only on what those before it have shown.
CHECKS: tuple[Callable[[Trial], None], ...] = (
    *(check_wants, check_init, check_update_reports, check_update_is_pure, check_without_wants),
    *(check_predict_is_pure, check_predict_compiles, check_update_compiles),
    *(check_memory_is_bounded, check_update_keeps_form, check_update_with_any_number_of_shots),
    *(check_update_ignores_padding, check_empty_memory),
    *(check_one_row_per_query, check_any_number_of_shots, check_padding, check_queries_are_independent),
    *(check_order_of_shots, check_many_tasks, check_rates, check_observing, check_saving),
)
