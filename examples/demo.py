"""Variable-shot meta-learning on real handwritten digits, in about a minute on a CPU.

A task is one look of all digits: a background colour, a rotation and a size, as in the paper's Rainbow MNIST. Three
rules for the inner step size are meta-trained on the same batches, each task with 0 to 20 labelled digits (shots), then
tried on looks and digits that none has seen: a fixed step of 0.1 (MAML), one learned step for all numbers of shots, and
the paper's alpha_s = beta (1 - 1/(1 + eta s)) with beta and eta learned (MAML-VS).
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from jaxtyping import Array, Float, Int, UInt8

import anyshot
from anyshot.networks import Conv4

MAX_SHOTS, HELD_OUT = 20, 20  # in meta-training: digits given to adapt on (at most), and other digits to validate on
TASKS_PER_STEP, TEST_TASKS = 8, 14  # of 7 colours x 4 rotations x 2 sizes = 56 tasks, 14 are kept for testing
TEST_SHOTS, TEST_EPISODES, TEST_HELD_OUT = (0, 1, 2, 5, 10, 20), 20, 100  # episodes for each test task, drawn from
TEST_DIGITS = 600  # of the 1,797 digits that meta-training does not see
COLOURS = ((228, 26, 28), (255, 127, 0), (230, 200, 0), (40, 160, 60), (55, 126, 184), (75, 0, 130), (200, 80, 200))
UPDATE = anyshot.Update(steps=3)
ADAM = optax.adam(6e-3)  # chosen by the validation loss of the fixed step
FIXED, LEARNED, SCALED = "MAML, fixed step", "MAML, learned step", "MAML-VS"
STYLES = {FIXED: ("#0072B2", "o-"), LEARNED: ("#009E73", "^:"), SCALED: ("#D55E00", "s--")}  # colour, marker and line
STARTED = time.perf_counter()
Learned = tuple[Conv4, anyshot.Rate]


class Tasks(NamedTuple):
    """Several looks of the same digits."""

    images: UInt8[np.ndarray, "tasks digits 8 8 3"]
    labels: Int[np.ndarray, " digits"]


class Result(NamedTuple):
    """What meta-training with one rule came to."""

    rate: anyshot.Rate
    accuracy: Float[np.ndarray, "tasks shots"]  # in percent, mean over a test task's episodes


def say(line: str) -> None:
    """Print a line of progress at once, with the time since the start."""
    print(f"[{time.perf_counter() - STARTED:5.1f} s] {line}", flush=True)


def make_tasks(seed: int) -> tuple[Tasks, Tasks]:
    """Tasks for meta-training, and tasks for testing that differ from them in look and in digits."""
    from sklearn.datasets import load_digits

    digits, labels = load_digits(return_X_y=True)
    large = digits.reshape(-1, 8, 8, 1) / 16
    shrink = np.array([np.interp((np.arange(6) + 0.5) * 8 / 6 - 0.5, np.arange(8), pixel) for pixel in np.eye(8)])
    small = np.pad(np.einsum("nijc,ia,jb->nabc", large, shrink, shrink), ((0, 0), (1, 1), (1, 1), (0, 0)))
    turned = [np.rot90(size, quarters, axes=(1, 2)) for size in (large, small) for quarters in range(4)]
    looks = np.stack([ink * 255 + (1 - ink) * np.array(colour) for ink in turned for colour in COLOURS])
    random = np.random.default_rng(seed)
    look_order, digit_order = random.permutation(len(looks)), random.permutation(len(labels))

    def chosen(which_looks: Any, which_digits: Any) -> Tasks:
        return Tasks(looks[which_looks][:, which_digits].round().astype(np.uint8), labels[which_digits])

    train = chosen(look_order[TEST_TASKS:], digit_order[TEST_DIGITS:])
    return train, chosen(look_order[:TEST_TASKS], digit_order[:TEST_DIGITS])


def episodes(random: np.random.Generator, tasks: Tasks, which: Any, count: Any, held_out: int) -> anyshot.Episodes:
    """For each task in `which`, `count` digits to adapt on and `held_out` others to validate on, drawn anew."""
    digits = random.random((len(which), len(tasks.labels))).argsort(axis=1)[:, : MAX_SHOTS + held_out]
    images, labels = jnp.asarray(tasks.images[which[:, None], digits]), jnp.asarray(tasks.labels[digits], jnp.int32)
    given = anyshot.Shots(images[:, :MAX_SHOTS], labels[:, :MAX_SHOTS], jnp.asarray(count, jnp.int32))
    others = anyshot.Shots(images[:, MAX_SHOTS:], labels[:, MAX_SHOTS:], jnp.full_like(given.count, held_out))
    return anyshot.Episodes(given, others)


@eqx.filter_jit
def meta_step(learned: Learned, adam_state: Any, batch: anyshot.Episodes) -> tuple[Learned, Any, Float[Array, ""]]:
    """One step of Adam on weights and rate, and the loss before it."""
    # "in turn", the usual choice on a CPU, pays off in longer runs: it takes more than twice as long to compile.
    loss, gradients = anyshot.MetaObjective(UPDATE, tasks="together").value_and_grad(*learned, batch)
    changes, adam_state = ADAM.update(gradients, adam_state)
    return eqx.apply_updates(learned, changes), adam_state, loss


@eqx.filter_jit
def accuracy_by_shots(learned: Learned, test: anyshot.Episodes) -> Float[Array, "episodes shots"]:
    """Accuracy in percent on held-out digits after adapting on the first s digits given, for each s in TEST_SHOTS."""

    def of_episode(one: anyshot.Episodes) -> Float[Array, " shots"]:
        def with_shots(count: Int[Array, ""]) -> Float[Array, ""]:
            adapted = UPDATE(*learned, anyshot.Shots(one.train.x, one.train.y, count))
            return 100 * jnp.mean(jax.vmap(adapted)(one.val.x).argmax(axis=1) == one.val.y)

        return jax.lax.map(with_shots, jnp.asarray(TEST_SHOTS))

    return jax.lax.map(of_episode, test)


def meta_learn(name: str, rate: anyshot.Rate, train: Tasks, test: Tasks, seed: int, steps: int) -> Result:
    """Meta-train one rule and test it; every rule gets the same initial weights, batches and test episodes."""
    say(f"{name}: compiling (about ten seconds)")
    random = np.random.default_rng(seed)
    learned: Learned = (eqx.filter_jit(Conv4)((8, 8, 3), 10, channels=16, key=jax.random.key(seed)), rate)
    adam_state = jax.jit(ADAM.init)(eqx.filter(learned, eqx.is_inexact_array))
    losses = []
    for step in range(1, steps + 1):
        which = random.choice(len(train.images), TASKS_PER_STEP, replace=False)
        batch = episodes(random, train, which, random.integers(0, MAX_SHOTS + 1, TASKS_PER_STEP), HELD_OUT)
        learned, adam_state, loss = meta_step(learned, adam_state, batch)
        losses.append(float(loss))
        if step == 1 or step % 100 == 0 or step == steps:
            say(f"{name}: meta-step {step} of {steps}, validation loss {np.mean(losses[-100:]):.3f}")
    say(f"{name}: testing on {TEST_TASKS} unseen tasks")
    which = np.repeat(np.arange(TEST_TASKS), TEST_EPISODES)
    drawn = episodes(random, test, which, np.full(len(which), MAX_SHOTS), TEST_HELD_OUT)
    accuracy = np.asarray(accuracy_by_shots(learned, drawn))
    return Result(learned[1], accuracy.reshape(TEST_TASKS, TEST_EPISODES, len(TEST_SHOTS)).mean(axis=1))


def mean_and_error(by_task: Float[np.ndarray, "tasks ..."]) -> tuple[Any, Any]:
    """Mean over tasks and its standard error."""
    return by_task.mean(axis=0), by_task.std(axis=0, ddof=1) / np.sqrt(len(by_task))


def compared(results: dict[str, Result], name: str, other: str) -> str:
    """One sentence on two rules, from the differences on each test task."""
    difference, error = mean_and_error((results[name].accuracy - results[other].accuracy).mean(axis=1))
    clear = f"{'better' if difference > 0 else 'worse'} by more than two standard errors"
    judged = clear if abs(difference) > 2 * error else "no clear difference, within two standard errors"
    return f"{name} against '{other}': {difference:+.1f} ± {error:.1f} points averaged over these shots; {judged}."


def table(rows: list[list[str]]) -> str:
    """A Markdown table, headings first, whose columns also line up on a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def findings(results: dict[str, Result], steps: int, seed: int) -> str:
    """Tables of accuracies and step sizes, and what they say, in Markdown."""
    accuracies, step_sizes = [["shots", *map(str, TEST_SHOTS)]], [["shots s", *map(str, TEST_SHOTS[1:])]]
    for name, result in results.items():
        means_and_errors = zip(*mean_and_error(result.accuracy), strict=True)
        accuracies.append([name, *(f"{mean:.1f} ± {error:.1f}" for mean, error in means_and_errors)])
        step_sizes.append([name, *(f"{float(result.rate(s)):.4f}" for s in TEST_SHOTS[1:])])
    scaled: Any = results[SCALED].rate
    return f"""Accuracy in % on {TEST_TASKS} unseen tasks after {steps} meta-steps, ± standard error over tasks:

{table(accuracies)}

{compared(results, SCALED, LEARNED)}
{compared(results, SCALED, FIXED)}
The errors leave out the luck of one meta-training run (this one had --seed {seed}).

Step size alpha_s of each rule ({SCALED} learned beta = {scaled.beta:.4f}, eta = {scaled.eta:.4f}):

{table(step_sizes)}"""


def write_report(out: Path, results: dict[str, Result], text: str) -> None:
    """Write the report and its figure under temporary names, then move both into place."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of building its font cache, once
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    (left, right), shots = figure.subplots(1, 2), range(1, MAX_SHOTS + 1)
    for name, result in results.items():
        colour, line = STYLES[name]
        left.errorbar(TEST_SHOTS, *mean_and_error(result.accuracy), fmt=line, color=colour, label=name, capsize=3)
        right.plot(shots, [float(result.rate(s)) for s in shots], line, color=colour, markersize=5)
    left.set(title=f"{TEST_TASKS} unseen tasks (bars: standard error)", ylabel="accuracy on held-out digits (%)")
    right.set(title="inner step size for s shots", ylabel=r"$\alpha_s$ (logarithmic)", yscale="log")
    for panel in (left, right):
        panel.set(xlabel="shots s (labelled digits of the task)", xticks=(0, 1, 2, 5, 10, 15, 20))
        panel.grid(alpha=0.3)
    left.legend()
    with tempfile.TemporaryDirectory(dir=out, prefix=".unfinished-") as unfinished:
        figure.savefig(Path(unfinished, "figure.png"), dpi=150)
        report = f"# {__doc__}\n{text}\n\n![accuracy and step size against the number of shots](figure.png)\n"
        Path(unfinished, "report.md").write_text(report, encoding="utf-8")
        for name in ("figure.png", "report.md"):
            Path(unfinished, name).replace(out / name)


def main() -> None:
    """Meta-train every rule, compare them on unseen tasks and write the report."""
    arguments = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS, allow_abbrev=False)
    arguments.add_argument("--out", type=Path, default=Path("demo-report"), help="folder for the report (%(default)s)")
    arguments.add_argument("--seed", type=int, default=0, help="of all random numbers, 0 or more (%(default)s)")
    arguments.add_argument("--steps", type=int, default=600, help="meta-steps for each rule (%(default)s)")
    chosen = arguments.parse_args()
    if chosen.steps < 1:
        arguments.error(f"--steps must be at least 1, got {chosen.steps}")
    if not 0 <= chosen.seed < 2**32:
        arguments.error(f"--seed must be from 0 to {2**32 - 1}, got {chosen.seed}")
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(dir=chosen.out).cleanup()
    except OSError as error:
        arguments.error(f"--out must be a folder that can be written to, {chosen.out} is not: {error.strerror}")
    say("reading 1,797 handwritten digits and making 56 tasks of them: 7 colours x 4 rotations x 2 sizes")
    jax.config.update("jax_platforms", "cpu")
    train, test = make_tasks(chosen.seed)
    one_for_all = anyshot.PerShot(0.1, max_shots=1)  # every number of shots counts as 1 and so has the same step
    rules = {FIXED: anyshot.Constant(0.1), LEARNED: one_for_all, SCALED: anyshot.Scaled(0.1, 1.0, MAX_SHOTS)}
    results = {name: meta_learn(name, rate, train, test, chosen.seed, chosen.steps) for name, rate in rules.items()}
    text = findings(results, chosen.steps, chosen.seed)
    print(f"\n{text}\n", flush=True)
    write_report(chosen.out, results, text)
    print(f"report with figure: {chosen.out / 'report.md'}")


if __name__ == "__main__":
    main()
