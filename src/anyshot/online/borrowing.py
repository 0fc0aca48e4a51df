"""The data-generating scheme of the comparison with ProtoNet (paper, section 6.2): every class has a shot.

"When we do not have the support datapoints for a particular class in the current task, we [...] sampl[e] data of this
class from previous tasks." Both methods of that comparison are given shots completed in this way.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from anyshot.adaptation import Shots
from anyshot.online.flat import flat_rows
from anyshot.online.stream import Stream
from anyshot.tasks.taskset import gather

LOOKED_AT = 500  # datapoints of earlier tasks drawn to find one of each class; a class in 10 is missed with 1e-23


def completed(
    stream: Stream, received: Int[Array, " positions"], position: Int[Array, ""], shots: Shots, key: Key[Array, ""]
) -> Shots:
    """The shots of a task, and behind them one of each class they lack, drawn from what earlier tasks have received.

    A class that no earlier task has shown either stays without.
    """
    earlier = jnp.where(jnp.arange(stream.positions) < position, received, 0)
    rows, _, there = flat_rows(stream, earlier, LOOKED_AT, key)
    classes = jnp.arange(stream.classes)
    of_class = gather(stream.tasks.y, rows)[:, None] == classes
    lacking = ~jnp.any((shots.y[:, None] == classes) & shots.present()[:, None], axis=0)
    borrowed = lacking & jnp.any(of_class, axis=0) & there
    others = stream.tasks.look_up(rows[jnp.argmax(of_class, axis=0)])
    present = jnp.concatenate([shots.present(), borrowed])
    order = jnp.argsort(~present, stable=True)  # datapoints first, padding behind them
    x, y = jax.tree.map(lambda own, other: jnp.concatenate([own, other])[order], (shots.x, shots.y), others)
    return Shots(x, y, shots.count + jnp.sum(borrowed, dtype=jnp.int32))
