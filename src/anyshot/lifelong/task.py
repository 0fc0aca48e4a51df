"""One task of yours: predict at any time, observe labels as they come."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from anyshot.errors import InputError
from anyshot.lifelong.advice import STOP_LEVEL, Advice, advise, check_request
from anyshot.lifelong.arguments import check_count, check_interval, check_labels, check_new_file, spread_random
from anyshot.lifelong.estimates import Estimate, estimate_own
from anyshot.lifelong.experts import Experts
from anyshot.lifelong.exporting import export_task
from anyshot.lifelong.home import Home
from anyshot.lifelong.labelling import check_fit, check_one_each, number_labels
from anyshot.lifelong.learning import Learning
from anyshot.lifelong.looks import Looks, to_json
from anyshot.lifelong.pictures import plot_task
from anyshot.lifelong.progress import Fact, name_experts
from anyshot.lifelong.record import Record
from anyshot.lifelong.suggestions import Choice, How, choose
from anyshot.lifelong.summaries import tabulate_labels
from anyshot.tasks.labels import ClassNames


class Task:
    """A task of a `Lifelong`, made by `Lifelong.task`.

    Predictions mix experts: what the learner has learned from all tasks, adapted to the labels of this one, and linear
    models and a kernel on these labels alone. Each label is predicted before it is learned from, and an expert's weight
    follows from how it has done. So the sum of losses is never far above that of the best expert.
    """

    def __init__(self, home: Home, record: Record) -> None:
        self._home, self._record = home, record
        self._experts = Experts(record, home.store)
        self._looks = Looks(record, self._experts, home.store, home.moments)

    def __repr__(self) -> str:
        known = f", classes {', '.join(map(str, self.classes))}" if self.classes else ""
        return f"<task {self.name!r}: {self.labels} labels{known}{', closed' if self.closed else ''}>"

    @property
    def name(self) -> str:
        """The name of the task."""
        return self._record.name

    @property
    def closed(self) -> bool:
        """Whether it takes no more labels."""
        return self._record.closed

    @property
    def classes(self) -> list[Any]:
        """The classes, as they were given; [] for a regression, or while none is known."""
        return self._record.classes

    @property
    def labels(self) -> int:
        """The number of labels."""
        return self._record.count

    @property
    def weights(self) -> dict[str, float]:
        """How much each expert counts in predictions."""
        self._check_there()
        return name_experts(self._record.progress.mixture.weights)

    @property
    def table(self) -> pd.DataFrame:
        """A row for each label: what was predicted before it was seen, and the loss of each expert."""
        self._check_there()
        return tabulate_labels(self._record)

    def predict_proba(self, x: Any) -> Float[np.ndarray, "n classes"]:
        """The probability of each class in the order of `classes`, for each input. Zero labels are fine."""
        self._home.setup.check_kind("predict_proba", "classes")
        return self._mix(x)

    def predict(self, x: Any) -> np.ndarray:
        """The most probable class of each input, or its target in a regression."""
        mixed = self._mix(x)
        if self._home.setup.classification:
            return ClassNames(tuple(self.classes)).decode(mixed.argmax(axis=1))
        return mixed[:, 0] if self._home.setup.scalar else mixed

    def observe(self, x: Any, labels: Any, *, random: bool | np.ndarray = True) -> Int[np.ndarray, " n"]:
        """Learn labels. They are on disk when this returns.

        Args:
            x: inputs.
            labels: strings, whole numbers or booleans for classes, floats for targets. Missing ones are left out.
            random: whether the inputs were drawn at random, or for each of them (`Choice.random`, see `suggest`).
                Estimates count only such labels.

        Returns:
            The numbers of the new labels, for `correct` and `delete`.
        """
        home = self._home
        self._check_there()
        if self.closed:
            raise InputError(f"task {self.name!r} is closed; open it again with task.reopen()")
        read = check_labels(labels)
        with home.changing:  # nothing is written before all is checked
            rows, inputs = home.setup.encode(x)
            check_one_each(len(read.labelled), len(rows), "input")
            drawn = spread_random(random, len(rows))[read.labelled]
            rows = rows[read.labelled]
            if not len(rows):
                return np.zeros(0, np.int64)
            check_fit(home, self._record, read)
            home.settle(inputs, read)
            y = number_labels(home, self._record, read)
            learning = self._learning()
            if not self.labels:
                self._drop_looks()  # of an attempt that failed
            self._looks.keep(learning)
            predicted = self._experts.predict(learning, rows)
            facts = [Fact.of(predicted[:, place], bool(drawn[place])) for place in range(len(rows))]
            ids = self._record.add(rows, y, facts)
            home.labels_changed(self._record)
            self._looks.keep(learning)
        return ids

    def correct(self, ids: Sequence[int] | np.ndarray, labels: Any) -> None:
        """Replace labels that were wrong. Predictions and estimates follow.

        Args:
            ids: the numbers that `observe` returned.
            labels: the right ones.
        """
        self._check_there()
        with self._home.changing:
            places, read = self._record.find(ids), check_labels(labels)
            if not read.labelled.all():
                raise InputError("labels must not be missing; use delete for labels that must go")
            check_one_each(len(read.values), len(places), "id")
            if not len(places):
                return
            check_fit(self._home, self._record, read)
            self._record.correct(places, number_labels(self._home, self._record, read))
            self._home.labels_changed(self._record)

    def delete(self, ids: Sequence[int] | np.ndarray) -> None:
        """Delete labels with their inputs. Predictions follow at once, the learner as it learns on.

        Args:
            ids: the numbers that `observe` returned.
        """
        self._check_there()
        with self._home.changing:
            self._record.delete(self._record.find(ids))
            self._drop_looks()  # labels that would judge them are gone
            self._home.labels_changed(self._record)

    def close(self) -> None:
        """Take no more labels. What was seen of the task helps to estimate the accuracy on later ones.

        A closed task still predicts. Closing it again changes nothing.
        """
        self._check_there()
        with self._home.changing:
            if self.closed:
                return
            new = [to_json(look) for look in self._looks.judge(self._learning())] if self.labels else []
            looks = {look["labels"]: look for look in [*self._record.info["looks"], *new]}  # it may have been reopened
            self._record.change(closed=True, looks=[looks[count] for count in sorted(looks)], kept={})
            self._home.remove_moments()

    def reopen(self) -> None:
        """Take labels again after `close`. What was seen of the task until then is kept for when it is closed again."""
        self._check_there()
        with self._home.changing:
            if self.closed:
                self._record.change(closed=False)

    def estimate(self, unlabelled: Any = None, *, level: float = 0.9, largest: float | int = 1.0) -> Estimate:
        """How good predictions are, without a test set. May be asked at any time, as often as you like.

        Args:
            unlabelled: inputs of this task; the model's confidence on them makes the estimate from past tasks better.
            level: of the intervals.
            largest: in a regression, the largest squared error; larger ones count as this.
        """
        self._check_there()
        check_interval(level, largest)
        pool = None if unlabelled is None else self._home.encode(unlabelled)
        own, count = estimate_own(self.table, level, float(largest))
        found, past = self._home.past(), None
        if found.across is not None and self._home.learning is not None:
            learning, earlier = self._learning(), None
            if learning.classification:
                earlier = self._looks.look_back(learning, found.across.most_labels, pool)
            past = found.across.estimate(self._looks.look(learning, pool), level, earlier)
        return Estimate(self._home.setup.measure, level, count, own, past, found.tasks)

    def advise(
        self,
        target: float | int,
        price: float | int,
        budget: float | int,
        unlabelled: Any = None,
        *,
        largest: float | int = 1.0,
    ) -> Advice:
        """Say whether to buy more labels: "buy", "stop" or "hopeless", and why.

        Args:
            target: the accuracy that is wanted, or the mean squared error in a regression.
            price: of a label.
            budget: what may still be spent on this task.
            unlabelled: inputs of this task, as for `estimate`.
            largest: in a regression, the largest squared error, as for `estimate`.
        """
        check_request(target, price, budget, self._home.setup.measure)
        estimate = self.estimate(unlabelled, level=STOP_LEVEL, largest=largest)
        own, curves = (estimate.own.low, estimate.own.high), self._home.past().curves
        asked = {"target": float(target), "price": float(price), "budget": float(budget)}
        return advise(estimate.past, own, self.labels, curves, measure=estimate.measure, **asked)

    def suggest(self, unlabelled: Any, n: int, how: How = "random") -> Choice:
        """Choose inputs to label next.

        Give what it returns on to `observe`, so that estimates stay honest: of the inputs that are not chosen at
        random, only every fourth is, and estimates count these alone.

            choice = task.suggest(x, 5, "uncertainty")
            task.observe(x[choice.places], labels, random=choice.random)

        Args:
            unlabelled: inputs of this task.
            n: how many.
            how: "random"; "uncertainty", where the prediction is least certain; or "disagreement", where the
                experts differ most, that is, what was learned from all tasks and models of this task alone.
        """
        self._check_there()
        count = check_count("n", n)
        self._check_classes()
        rows = self._home.encode(unlabelled)
        weights, predicted = self._record.progress.mixture.weights, self._experts.predict(self._learning(), rows)
        rng = np.random.default_rng([self._home.setup.learner.seed, self._record.number, self.labels])
        since = next((place for place, fact in enumerate(reversed(self._record.facts)) if fact.random), self.labels)
        return choose(count, predicted, weights, how, rng, self._home.setup.measure, since_random=since)

    def plot(self, level: float = 0.9) -> Figure:
        """A figure: how good predictions were before labels were seen, with an interval, and the experts' weights."""
        check_interval(level, largest=1.0)
        return plot_task(self.table, f"{self.name}: {self.labels} labels", level)

    def _repr_html_(self) -> str:
        estimate = escape(str(self.estimate())) if self._home.open and not self._record.forgotten else ""
        return f"<p><b>{escape(self.name)}</b>: {self.labels} labels; {estimate}</p>"

    def export(self, path: str | Path) -> Path:
        """Write the predictor of this task, as it is now, to one file. It runs where there is JAX but no anyshot:

            import json, zipfile, jax.export
            with zipfile.ZipFile(path) as file:
                about = json.loads(file.read("about.json"))
                predict = jax.export.deserialize(bytearray(file.read("predictor.bin"))).call
            probabilities = predict(x)  # a column for each of about["classes"]; for a regression, the targets

        Here x is an array of shape (n, *about["shape"]) and dtype about["dtype"]. Where the task's inputs are no
        arrays, it is what the encoder makes of them, which about["encoder"] describes. JAX reads such files for six
        months of its later versions.

        The file holds inputs of this task that have a label, at most the last 2,000, as the kernel needs them: shifted
        and scaled, images as their edges and colours. about["inputs_held"] is their number. Who may not see the inputs
        should not get the file.
        """  # noqa: D415
        self._check_there()
        checked = check_new_file(path)
        export_task(self._home, self._record, checked)
        return checked

    def _drop_looks(self) -> None:
        self._looks.drop()
        self._home.remove_moments()

    def _mix(self, x: Any) -> np.ndarray:
        self._check_there()
        self._check_classes()
        rows = self._home.encode(x)
        return self._record.progress.combine(self._experts.predict(self._learning(), rows))

    def _check_there(self) -> None:
        """Refuse to work on a folder that was closed, or on a task that was forgotten."""
        self._home.check_open()
        if self._record.forgotten:
            raise InputError(f"task {self.name!r} was forgotten; begin one with life.task({self.name!r})")

    def _check_classes(self) -> None:
        setup = self._home.setup
        if setup.kind is None or (setup.classification and not self.classes):
            raise InputError(
                f"the classes of task {self.name!r} are not known yet; give them, life.task({self.name!r}, "
                "classes=[...]), or observe labels first"
            )

    def _learning(self) -> Learning:
        learning = self._home.learning
        assert learning is not None, "inputs and labels are known by now"
        return learning
