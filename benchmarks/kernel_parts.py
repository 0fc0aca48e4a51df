"""What the parts of an input are worth to `scratch-kernel`: accuracy and loss on single tasks, by number of labels.

    python -m benchmarks.kernel_parts rainbow-mnist
    python -m benchmarks.kernel_parts contextual-miniimagenet --set size=42

Compared are all parts weighed by what they say about the labels, all parts alike, and some of the parts. Parts of
images in colour are edges and colours, of one image after another.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from anyshot import load_tasks
from anyshot.learners.descriptors import Part, describe, join, weigh
from anyshot.learners.kernel import fit_kernel_logistic
from anyshot.learners.scratch import count_classes, with_missing_classes
from anyshot.shots import Shots

LABELS = (8, 24, 80, 160, 320)
QUERIES, REGULARISATION = 100, 0.003


def ways(parts: int) -> dict[str, list[int] | None]:
    """What is compared, and the numbers of the parts; None: all of them, weighed."""
    all_ = list(range(parts))
    last = {"last two parts": all_[-2:]} if parts > 2 else {}
    return {"weighed": None, "all alike": all_, "every other part": all_[::2], **last}


@partial(jax.jit, static_argnames=("classes", "chosen"))
def log_probabilities(
    parts: list[Part], y: Int[Array, " n"], queries: list[Part], classes: int, chosen: tuple[int, ...] | None
) -> Float[Array, "queries classes"]:
    """Logarithms of the probabilities of the queries' classes."""
    counts, present = count_classes(Shots.of(y, y), classes), jnp.full(len(y), True)
    if chosen is None:
        scales = weigh(parts, jax.nn.one_hot(y, classes), jnp.sum(counts > 0) - 1, present)
    else:
        parts, queries = ([rows[part] for part in chosen] for rows in (parts, queries))
        scales = jnp.ones(len(parts))
    model = fit_kernel_logistic(join(parts, scales), y, present, classes, REGULARISATION)
    return with_missing_classes(model(join(queries, scales)), counts)


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
                first = [Part(part.rows[:n], part.of_image) for part in parts]
                some = None if chosen is None else tuple(chosen)
                log = np.asarray(log_probabilities(first, jnp.asarray(y)[:n], queries, classes, some))
                right = log.argmax(axis=1) == truth
                row.append((float(right.mean()), -float(log[np.arange(QUERIES), truth].mean())))
            found.setdefault(name, []).append(row)
    print(f"{asked.task_set}, {asked.tasks} tasks: accuracy / loss with " + ", ".join(map(str, counts)) + " labels")
    for name, rows in found.items():
        means = np.mean(rows, axis=0)
        print(f"  {name:16s}" + "".join(f"  {accuracy:.3f} / {loss:.3f}" for accuracy, loss in means))
        gain = np.array(found["weighed"])[:, :, 0] - np.array(rows)[:, :, 0]
        error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
        if name != "weighed":
            pairs = zip(gain.mean(axis=0), error, strict=True)
            print("    weighed less this, ± standard error: " + ", ".join(f"{a:+.3f} ± {b:.3f}" for a, b in pairs))


if __name__ == "__main__":
    main()
