"""Shots of every class, if need be from earlier tasks: the scheme of the comparison with ProtoNet (section 6.2).

"When we do not have the support datapoints for a particular class in the current task, we [...] sampl[e] data of this
class from previous tasks." In that comparison both methods are given such shots.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from anyshot.online.flat import draw_flat
from anyshot.online.stream import Stream
from anyshot.shots import Shots
from anyshot.tasks.rows import gather

# Datapoints of earlier tasks that are drawn to find one of each class. With 10 equally frequent classes, the
# probability that a class is not among them is 1e-23.
CANDIDATES = 500


def fill_missing_classes(
    stream: Stream, received: Int[Array, " positions"], position: Int[Array, ""], shots: Shots, key: Key[Array, ""]
) -> Shots:
    """Add to the shots of a task one datapoint of each class that has none, taken from earlier tasks.

    A class of which the earlier tasks have received nothing either stays without a shot.

    Args:
        stream: the stream.
        received: the number of datapoints received at each position of the stream.
        position: of the task.
        shots: of the task.
        key: draws the datapoints.
    """
    earlier = jnp.where(jnp.arange(stream.positions) < position, received, 0)
    drawn = draw_flat(earlier, stream.tasks.unit, CANDIDATES, key)
    rows, there = stream.train_rows[drawn.position, drawn.place], drawn.count > 0
    classes = jnp.arange(stream.classes)
    of_class = gather(stream.tasks.y, rows)[:, None] == classes
    lacking = ~jnp.any((shots.y[:, None] == classes) & shots.present()[:, None], axis=0)
    borrowed = lacking & jnp.any(of_class, axis=0) & there
    others = stream.tasks.look_up(rows[jnp.argmax(of_class, axis=0)])
    present = jnp.concatenate([shots.present(), borrowed])
    order = jnp.argsort(~present, stable=True)  # datapoints first, padding behind them
    x, y = jax.tree.map(lambda own, other: jnp.concatenate([own, other])[order], (shots.x, shots.y), others)
    return Shots(x, y, shots.count + jnp.sum(borrowed, dtype=jnp.int32))
