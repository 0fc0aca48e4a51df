"""What a folder was made with, and what its data turned out to be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.errors import InputError
from anyshot.learners.catalogue import hyperparameters_of
from anyshot.lifelong.across_tasks import Measure
from anyshot.lifelong.inputs import choose_encoder, encode_inputs, encoder_from
from anyshot.lifelong.learning import LearnerSettings
from anyshot.lifelong.store import Store
from anyshot.limits import MOST_SIZE, check_whole
from anyshot.tasks.encoders import Encoder

# Hyperparameters that differ from the paper's: there are fewer updates here. Chosen on digit pairs (seed 10).
USUAL = {"meta_rate": 1e-3, "inner_rate": 0.3}


class Setup:
    """The settings of a folder. What the first data decides is stored when it comes.

    Args:
        store: keeps them.
        given: settings of the learner that the user gave. In a folder that has some, they must be the same.
        encoder: that the user gave.
    """

    def __init__(self, store: Store, given: Mapping[str, Any], encoder: Encoder | None) -> None:
        self._store, self._values = store, store.settings
        if not self._values:
            learner = _plain(dataclasses.asdict(LearnerSettings(**given)))
            known = hyperparameters_of(learner["learner"]).__dataclass_fields__
            usual = {name: value for name, value in USUAL.items() if name in known}
            learner["hyperparameters"] = usual | learner["hyperparameters"]
            check_whole("max_shots", learner["max_shots"], 1, MOST_SIZE)
            check_whole("tasks_per_update", learner["tasks_per_update"], 1, MOST_SIZE)
            check_whole("seed", learner["seed"], 0, 2**31 - 1)
            self._change(learner=learner, kind=None, shape=None, dtype=None, outputs=2, scalar=None, encoder=None)
        for name, value in given.items():
            known = self._values["learner"][name]
            if name == "hyperparameters":  # those that are not given are the folder's
                value = known | value
            if _plain(value) != known:
                raise InputError(f"{name} is {value!r}, but {store.folder} was made with {known!r}; use another folder")
        self.learner = LearnerSettings(**self._values["learner"])
        self._encoder = self._find_encoder(encoder, store.folder)

    @property
    def kind(self) -> str | None:
        """What labels are: "classes" or "targets"; None while that is not known."""
        kind: str | None = self._values["kind"]
        return kind

    @property
    def classification(self) -> bool:
        """Whether labels are classes, as far as is known."""
        return self.kind != "targets"

    @property
    def measure(self) -> Measure:
        """What says how good predictions are: the accuracy, or the mean squared error."""
        return "accuracy" if self.classification else "error"

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of one input; None while that is not known."""
        return None if self._values["shape"] is None else tuple(self._values["shape"])

    @property
    def dtype(self) -> str | None:
        """Of the inputs; None while that is not known."""
        dtype: str | None = self._values["dtype"]
        return dtype

    @property
    def outputs(self) -> int:
        """The number of outputs of the learner."""
        return int(self._values["outputs"])

    @property
    def scalar(self) -> bool:
        """Whether a target is a single number."""
        return bool(self._values["scalar"])

    def describe(self) -> dict[str, Any]:
        """What a snapshot says about inputs and labels."""
        return {name: self._values[name] for name in ("encoder", "kind", "shape", "dtype", "scalar")}

    def encode(self, x: Any) -> np.ndarray:
        """Inputs as arrays of one shape. The first ones decide which."""
        if self.shape is None and self._encoder is None:
            self._encoder = choose_encoder(x)
            if self._encoder is not None:
                self._change(encoder=self._encoder.describe())
        rows = encode_inputs(x, self._encoder, self.shape, self.dtype)
        if self.shape is None:
            self._change(shape=list(rows.shape[1:]), dtype=rows.dtype.name)
        return rows

    def settle_kind(self, *, classification: bool) -> None:
        """Say whether labels are classes or targets. All tasks are of one kind."""
        kind = "classes" if classification else "targets"
        if self.kind is None:
            self._change(kind=kind)
        elif self.kind != kind:
            raise InputError(f"labels must be {self.kind} as before, got {kind}; use another folder for them")

    def check_kind(self, method: str, kind: str) -> None:
        """Refuse a method that is for the other kind of labels."""
        if self.kind not in (None, kind):
            raise InputError(f"{method} is for tasks with {kind}, but the labels here are {self.kind}")

    def settle_targets(self, values: np.ndarray) -> np.ndarray:
        """Targets with as many numbers each as the first ones had, one line each."""
        lines = values.reshape(len(values), -1).astype(np.float64)
        if self._values["scalar"] is None:
            self._change(scalar=values.ndim == 1, outputs=lines.shape[1])
        if lines.shape[1] != self.outputs:
            raise InputError(f"labels must have {self.outputs} numbers for each input, got {lines.shape[1]}")
        return lines

    def settle_outputs(self, outputs: int) -> None:
        """Have at least so many outputs."""
        if outputs > self.outputs:
            self._change(outputs=outputs)

    def _find_encoder(self, encoder: Encoder | None, folder: Path) -> Encoder | None:
        stored = self._values["encoder"]
        if encoder is None:
            return None if stored is None else encoder_from(stored)
        if not isinstance(encoder, Encoder):
            raise InputError(f"encoder must have the methods encode and describe, got {encoder!r}")
        if stored is None and self.shape is None:
            self._change(encoder=_plain(encoder.describe()))
        elif _plain(encoder.describe()) != stored:
            raise InputError(f"encoder is {encoder.describe()}, but {folder} was made with {stored}; give that one")
        return encoder

    def _change(self, **changes: Any) -> None:
        values = {**self._values, **changes}
        self._store.set_settings(values)
        self._values = values


def _plain(value: Any) -> Any:
    """A value as it comes back from JSON."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
