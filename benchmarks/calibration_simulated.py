"""How far the estimates and the advice of `Lifelong` can be trusted, on tasks whose true accuracy is known.

    python -m benchmarks.calibration_simulated

Learning curves of four kinds, labels right or wrong by chance, noisy looks (tests/support/simulated_tasks.py). Prints
eight tables. It takes a quarter of an hour or more on one core.
"""

from __future__ import annotations

import math

import numpy as np

from anyshot.lifelong.across_tasks import Look, fit_across
from anyshot.lifelong.advice import STOP_LEVEL, Curve, advise
from anyshot.lifelong.mixture import Mixture
from anyshot.lifelong.sequences import confidence_sequence
from tests.support.simulated_tasks import KINDS, LOOKS, MOST_LABELS, SimulatedTask

AT = (0, 3, 8, 18, 40, 90)
TARGET = 0.9
LEAST_LABELS = 60  # of the first tasks, before past tasks can give advice
ASKED = [*range(1, 31), *range(32, 61, 2), *range(65, MOST_LABELS + 1, 5)]  # labels at which advice is asked


def measure_intervals() -> None:
    """Coverage and width of the interval from past tasks, and the width of the one from own labels alone."""
    print("\n90 % interval from past tasks: share of new tasks whose accuracy it holds / width (width from own labels)")
    print("kind".ljust(14), "closed", *(f"{n} labels".rjust(20) for n in AT))
    for kind in KINDS:
        for closed, times, new in ((20, 400, 5), (50, 200, 10), (200, 60, 33)):
            rng = np.random.default_rng(closed)
            covered, width, own = [], [], []
            for _ in range(times):
                across = fit_across([SimulatedTask.draw(kind, rng).looks() for _ in range(closed)])
                assert across is not None
                for _ in range(new):
                    task = SimulatedTask.draw(kind, rng)
                    found = [across.estimate(task.look(n)) for n in AT]
                    covered.append([f.low <= task.accuracy[n] <= f.high for f, n in zip(found, AT, strict=True)])
                    width.append([f.high - f.low for f in found])
                    ends = [confidence_sequence(int(task.right[:n].sum()), n) for n in AT]
                    own.append([high - low for low, high in ends])
            cells = zip(np.mean(covered, 0), np.mean(width, 0), np.mean(own, 0), strict=True)
            print(kind.ljust(14), f"{closed:6}", *(f"{c:.3f} / {w:.2f} ({o:.2f})".rjust(20) for c, w, o in cells))


def measure_sequences(tasks: int = 1000) -> None:
    """Coverage of the confidence sequence at all looks."""
    print("\n90 % sequence from own labels: share of tasks in which it holds the mean accuracy at all of 200 looks")
    for kind in KINDS:
        rng, held = np.random.default_rng(0), 0
        for _ in range(tasks):
            task = SimulatedTask.draw(kind, rng)
            counts = np.arange(1, MOST_LABELS + 1)
            totals, means = np.cumsum(task.right), np.cumsum(task.accuracy[:-1]) / counts
            ends = (confidence_sequence(int(total), int(count)) for total, count in zip(totals, counts, strict=True))
            held += all(low <= mean <= high for (low, high), mean in zip(ends, means, strict=True))
        print(kind.ljust(14), f"{held / tasks:.3f}")


def follow_advice(task: SimulatedTask, past: list[list[Look]], curves: list[Curve], budget: int) -> tuple[str, int]:
    """The last advice, and the number of labels then."""
    across = fit_across(past)
    for n in [n for n in ASKED if n <= budget]:
        estimate = None if across is None else across.estimate(task.look(n), STOP_LEVEL)
        own = confidence_sequence(int(task.right[:n].sum()), n)
        advice = advise(estimate, own, n, curves, target=TARGET, price=1, budget=budget - n)
        if advice.action != "buy":
            return advice.action, n
    return "hopeless", budget


def measure_advice(*, living: bool) -> None:
    """What came of following the advice at every label, with 150 labels to spend on a task.

    Args:
        living: whether past tasks are those that were closed by the advice themselves (the first twenty after 60 labels
            or later), and later labels those that were bought; else past tasks have looks up to 130 labels.
    """
    print(
        f"\nAdvice followed, target {TARGET}, past tasks {'closed by advice too' if living else '(50) labelled long'}"
    )
    for kind in KINDS:
        rng, results = np.random.default_rng(1), []
        for _ in range(4 if living else 12):
            past = [] if living else [SimulatedTask.draw(kind, rng).looks() for _ in range(50)]
            curves = [curve for curve in map(Curve.of, past) if curve is not None]
            for number in range(120 if living else 25):
                task = SimulatedTask.draw(kind, rng)
                action, n = follow_advice(task, past, curves, 150)
                if living and number < 20:
                    n = max(n, LEAST_LABELS)
                first = int(np.argmax(task.accuracy >= TARGET)) if task.accuracy[150] >= TARGET else math.inf
                if number >= 20 or not living:
                    results.append((action, n, first, task.accuracy[n]))
                if living:
                    past.append([task.look(at, bought=n) for at in LOOKS if at < n])
                    curves += [curve for curve in [Curve.of(past[-1])] if curve is not None]
        stopped = [r for r in results if r[0] == "stop"]
        gave_up = [r for r in results if r[0] == "hopeless" and r[1] < 150]
        below = np.mean([accuracy < TARGET for _, _, _, accuracy in stopped])
        beyond = [n - first for _, n, first, _ in stopped if first < math.inf]
        wrongly = np.mean([first < math.inf for _, _, first, _ in gave_up]) if gave_up else 0.0
        print(
            f"{kind:14} {len(results)} tasks, {np.mean([r[2] < math.inf for r in results]):.0%} can reach it; "
            f"stopped {len(stopped) / len(results):.0%}, below the target {below:.1%} of these; labels beyond the "
            f"first moment: median {np.median(beyond):.0f}, mean {np.mean(beyond):.0f}; given up early "
            f"{len(gave_up) / len(results):.0%}, {wrongly:.0%} of these could have reached it; "
            f"labels a task {np.mean([r[1] for r in results]):.0f}"
        )


def measure_mixture(classes: int = 10, labels: int = 200, tasks: int = 100) -> None:
    """Regret to the best of four experts as in `Lifelong`, of plain Bayes and with fixed share.

    Each line gives, for the learner, the model from scratch, the stronger one and the one on features, the accuracy in
    the end, how far below it begins, and the labels that it takes to come closer by a factor of e.
    """
    print(f"\nLoss of the mixture less that of the best of four experts, {labels} labels, {classes} classes:")
    print(f"{'':20}  plain Bayes, fixed share")
    curves = {
        "scratch catches up": ((0.85, 0.05, 10), (0.97, 0.47, 20), (0.96, 0.46, 15), (0.95, 0.4, 20)),
        "learned stays ahead": ((0.95, 0.3, 5), (0.93, 0.63, 60), (0.93, 0.63, 50), (0.94, 0.5, 30)),
        "scratch soon ahead": ((0.85, 0.1, 60), (0.98, 0.48, 5), (0.985, 0.485, 3), (0.98, 0.48, 4)),
        "equally good": ((0.9, 0.3, 10),) * 4,
        "learned fails": ((0.3, 0.0, 1), (0.9, 0.7, 30), (0.9, 0.7, 25), (0.6, 0.4, 30)),
    }
    rng, t, regrets = np.random.default_rng(0), np.arange(labels), []
    for name, experts in curves.items():
        bayes, share = [], []
        accuracy = np.array([end - below * np.exp(-t / pace) for end, below, pace in experts])
        for _ in range(tasks):
            confidence = np.clip(accuracy + rng.normal(0, 0.1, accuracy.shape), 1 / classes + 0.02, 0.99)
            wrong = (1 - confidence) / (classes - 1)
            losses = -np.log(np.where(rng.random(accuracy.shape) < accuracy, confidence, wrong))
            mixture = Mixture.start(len(experts))
            for line in losses.T:
                mixture = mixture.update(line)
            assert mixture.loss <= mixture.bound()
            share.append(mixture.regret)
            behind = losses.sum(axis=1) - losses.sum(axis=1).min()
            bayes.append(math.log(len(experts)) - np.log(np.exp(-behind).sum()))
        regrets += share
        print(f"{name:20} {np.mean(bayes):12.2f} {np.mean(share):12.2f}   (largest {max(share):.2f})")
    bound = math.log(4) + 0.75 * math.log(labels)
    print(f"largest of all {max(regrets):.2f}, bound {bound:.2f}")


if __name__ == "__main__":
    for classes in (2, 10):
        for labels in (50, 200):
            measure_mixture(classes, labels)
    measure_sequences()
    measure_intervals()
    measure_advice(living=False)
    measure_advice(living=True)
