"""What the parts of an input are worth to `scratch-kernel`: accuracy and loss on single tasks, by number of labels.

    python -m benchmarks.kernel_parts rainbow-mnist
    python -m benchmarks.kernel_parts contextual-miniimagenet --set size=42

Compared are all parts weighed by what they say about the labels, all parts alike, and some of the parts alone.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from anyshot import load_tasks
from anyshot.learners.descriptors import Parts, describe, join, weigh
from anyshot.learners.kernel import fit_kernel_logistic
from anyshot.learners.scratch import count_classes, with_missing_classes
from anyshot.shots import Shots

LABELS = (8, 24, 80, 160, 320)
QUERIES, REGULARISATION = 100, 0.003


def ways(parts: int) -> dict[str, list[int] | None]:
    """Names of what is compared, and the numbers of the parts; None: all of them, weighed."""
    all_ = list(range(parts))
    if parts == 4:  # of a pair of images in colour
        return {"weighed": None, "alike": all_, "edges": [0, 2], "second image": [2, 3]}
    return {"weighed": None, "alike": all_} | {f"part {part + 1}": [part] for part in all_ if parts > 1}


@partial(jax.jit, static_argnames=("classes", "chosen"))
def losses(
    parts: Parts, y: Int[Array, " n"], queries: Parts, classes: int, chosen: tuple[int, ...] | None
) -> Float[Array, "queries classes"]:
    """Logarithms of the probabilities of the queries' classes."""
    counts = count_classes(Shots.of(y, y), classes)
    present: Bool[Array, " n"] = jnp.full(len(y), True)
    if chosen is None:
        weights = weigh(parts, jax.nn.one_hot(y, classes), jnp.sum(counts > 0) - 1, present)
    else:
        parts, queries = ([rows[part] for part in chosen] for rows in (parts, queries))
        weights = jnp.ones(len(parts))
    model = fit_kernel_logistic(join(parts, weights), y, present, classes, REGULARISATION)
    return with_missing_classes(model(join(queries, weights)), counts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_parts", description=__doc__)
    parser.add_argument("task_set")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the task set")
    parser.add_argument("--tasks", type=int, default=13, help="how many, spread over the set")
    asked = parser.parse_args(arguments)
    settings = {name: ast.literal_eval(value) for name, _, value in (one.partition("=") for one in asked.set)}
    tasks = load_tasks(asked.task_set, **settings)
    counts = [count for count in LABELS if count <= tasks.counts("train").min()]
    found: dict[str, list[list[tuple[float, float]]]] = {}
    for task in np.linspace(0, tasks.num_tasks - 1, asked.tasks).astype(int):
        of_labels, of_queries = jax.random.split(jax.random.key(int(task)))
        x, y = tasks.look_up(tasks.draw(of_labels, int(task), counts[-1], "train"))
        query, truth = tasks.look_up(tasks.draw(of_queries, int(task), QUERIES, "test"))
        classes = int(max(y.max(), truth.max())) + 1
        parts, queries = describe(jnp.asarray(x)), describe(jnp.asarray(query))
        for name, chosen in ways(len(parts)).items():
            row = []
            for n in counts:
                of_some = [part[:n] for part in parts]
                log = losses(of_some, jnp.asarray(y)[:n], queries, classes, chosen and tuple(chosen))
                right = np.asarray(log).argmax(axis=1) == truth
                row.append((float(right.mean()), -float(np.asarray(log)[np.arange(QUERIES), truth].mean())))
            found.setdefault(name, []).append(row)
    print(f"{asked.task_set}, {asked.tasks} tasks: accuracy / loss with " + ", ".join(map(str, counts)) + " labels")
    for name, rows in found.items():
        means = np.mean(rows, axis=0)
        print(f"  {name:14s}" + "".join(f"  {accuracy:.3f} / {loss:.3f}" for accuracy, loss in means))


if __name__ == "__main__":
    main()
