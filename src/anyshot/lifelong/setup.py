"""What a folder was made with, and what its data turned out to be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from anyshot.errors import InputError
from anyshot.lifelong.across_tasks import Measure
from anyshot.lifelong.inputs import DESCRIBED, Inputs, decide_inputs, encoder_from
from anyshot.lifelong.learning import LearnerSettings
from anyshot.lifelong.settings import complete_settings, make_plain
from anyshot.lifelong.starting import Start
from anyshot.lifelong.store import Store
from anyshot.tasks.encoders import Encoder
from anyshot.tasks.frames import FrameEncoder
from anyshot.tasks.labels import ReadLabels


class Setup:
    """The settings of a folder.

    The first label decides for good what inputs are, and is stored together with that. Until then they may change.

    Args:
        store: keeps them.
        given: settings of the learner that the user gave. In a folder that has some, they must be the same.
        encoder: that the user gave.
        start: to begin with, in a folder without labels. Inputs, labels and the learner must be as there.
    """

    def __init__(
        self,
        store: Store,
        given: Mapping[str, Any],
        encoder: Encoder | None,
        start: Start | None = None,
    ) -> None:
        self._store, self._values = store, store.settings
        if not self._values:
            learner = complete_settings(given)
            check_encoder(encoder)
            self._change(learner=learner, kind=None, shape=None, dtype=None, outputs=2, scalar=None, encoder=None)
        for name, value in given.items():
            known = self._values["learner"][name]
            if name == "hyperparameters":  # those that are not given are the folder's
                value = known | value
            if make_plain(value) != known:
                raise InputError(f"{name} is {value!r}, but {store.folder} was made with {known!r}; use another folder")
        self.learner = LearnerSettings(**self._values["learner"])
        if start is not None and store.is_empty:
            encoder = self._begin_with(start, encoder)
        found = self._find_encoder(encoder, store.folder)
        if self.start is not None and store.is_empty:
            self._change(shape=self.start["shape"], dtype=self.start["dtype"])
        shape = self._values["shape"]
        self.inputs = Inputs(found, None if shape is None else tuple(shape), self._values["dtype"])
        by_inputs = store.is_empty and shape is not None and isinstance(found, FrameEncoder) and encoder is None
        self._chosen = None if by_inputs else found  # what the user chose

    @property
    def start(self) -> Mapping[str, Any] | None:
        """Of what the folder began with: shape and dtype of inputs, outputs of classes, prior. None if with nothing."""
        start: Mapping[str, Any] | None = self._values.get("start")
        return start

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
        return self.inputs.shape

    @property
    def dtype(self) -> str | None:
        """Of the inputs; None while that is not known."""
        return self.inputs.dtype

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
        return {"kind": self.kind, "scalar": self._values["scalar"], **self._describe(self.inputs)}

    def encode(self, x: Any) -> tuple[np.ndarray, Inputs]:
        """Inputs as arrays of one shape, and what inputs then are. While no label is stored, other ones may follow."""
        if not self._store.is_empty:
            return self.inputs.encode(x), self.inputs
        if self.start is not None:
            try:
                return self.inputs.encode(x), self.inputs
            except InputError as error:
                raise InputError(f"{error}; what the folder began with was learned from such inputs") from error
        if self.inputs.shape is not None:
            try:
                return self.inputs.encode(x), self.inputs
            except InputError:
                pass  # they are of another kind than those before, so these decide
        return decide_inputs(x, self._chosen)

    def check_kind(self, method: str, kind: str) -> None:
        """Refuse a method that is for the other kind of labels."""
        if self.kind not in (None, kind):
            raise InputError(f"{method} is for tasks with {kind}, but the labels here are {self.kind}")

    def find_conflict(self, read: ReadLabels) -> str | None:
        """Why labels are not of the kind, or have not as many numbers, as those before; None if they are and have."""
        if self.kind is None:
            return None
        if read.are_classes and not self.classification:
            whole = read.values.dtype.kind in "iu"
            remedy = "give floats, such as labels.astype(float)" if whole else "use another folder for them"
            return f"labels are classes, but the labels here are targets of a regression; {remedy}"
        if not read.are_classes and self.classification:
            whole = np.array_equal(read.values, np.round(read.values))
            remedy = "give whole numbers, such as labels.astype('Int64')" if whole else "use another folder for them"
            return f"labels are floats, which are targets of a regression, but the labels here are classes; {remedy}"
        if not read.are_classes and self._values["scalar"] is not None and (got := _width(read)) != self.outputs:
            numbers = "1 number" if self.outputs == 1 else f"{self.outputs} numbers"
            return f"labels must have {numbers} for each input, got {got}"
        return None

    def settle_inputs(self, inputs: Inputs) -> None:
        """Store what inputs are, just before the first label."""
        if self._store.is_empty:
            self._change(**self._describe(inputs))
            self.inputs = inputs

    def settle_classes(self, outputs: int) -> None:
        """Store that labels are classes, and have at least so many outputs."""
        most = max(outputs, self.outputs) if self.kind == "classes" else outputs
        if (self.kind, self.outputs) != ("classes", most):
            self._change(kind="classes", outputs=most, scalar=None)

    def settle_targets(self, read: ReadLabels) -> None:
        """Store that labels are targets, and how many numbers each has."""
        if self.kind != "targets" or self._values["scalar"] is None:
            self._change(kind="targets", scalar=read.values.ndim == 1, outputs=_width(read))

    def reopen_kind(self) -> None:
        """Let the next labels decide again what labels are."""
        if self.kind is not None:
            self._change(kind=None, outputs=2, scalar=None)

    def forget_categories(self, used: Bool[np.ndarray, " numbers"]) -> None:
        """Remove the names of categories from the encoder of frames; see `FrameEncoder.forget_categories`."""
        assert isinstance(self.inputs.encoder, FrameEncoder)
        self.inputs = Inputs(self.inputs.encoder.forget_categories(used), self.shape, self.dtype)
        self._change(encoder=self._describe(self.inputs)["encoder"])

    def _begin_with(self, start: Start, encoder: Encoder | None) -> Encoder | None:
        """Store what is said about inputs and labels there. Returns the encoder of inputs."""
        about = start.about
        start.check(self._values["learner"])
        described = about["encoder"] if (about["encoder"] or {}).get("encoder") in DESCRIBED else None
        if encoder is None and described is not None:
            encoder = encoder_from(described)
        if encoder is not None and described is not None and make_plain(encoder.describe()) != described:
            raise InputError(f"encoder is {encoder.describe()}, but start was learned with {described}; leave it out")
        outputs = 2 if about["kind"] == "classes" else int(about["learner"]["problem"]["outputs"])
        kept = {name: about[name] for name in ("shape", "dtype", "slots", "prior")}
        self._change(start=kept, outputs=outputs, kind=about["kind"], scalar=about["scalar"])
        return encoder

    def _find_encoder(self, encoder: Encoder | None, folder: Path) -> Encoder | None:
        stored = self._values["encoder"]
        if encoder is None:
            return None if stored is None else encoder_from(stored)
        check_encoder(encoder)
        if self._store.is_empty:
            self._change(encoder=make_plain(encoder.describe()), shape=None, dtype=None)
            return encoder
        if isinstance(encoder, FrameEncoder) and stored is not None and stored.get("encoder") == "frame":
            encoder = _forget_as(encoder, encoder_from(stored))
        if make_plain(encoder.describe()) != stored:
            raise InputError(f"encoder is {encoder.describe()}, but {folder} was made with {stored}; give that one")
        return encoder

    def _describe(self, inputs: Inputs) -> dict[str, Any]:
        encoder = None if inputs.encoder is None else make_plain(inputs.encoder.describe())
        return {"encoder": encoder, "shape": inputs.shape and list(inputs.shape), "dtype": inputs.dtype}

    def _change(self, **changes: Any) -> None:
        values = {**self._values, **changes}
        self._store.set_settings(values)
        self._values = values


def check_encoder(encoder: Encoder | None) -> None:
    """Refuse what is no encoder."""
    if encoder is not None and not isinstance(encoder, Encoder):
        raise InputError(f"encoder must have the methods encode and describe, got {encoder!r}")


def _forget_as(encoder: FrameEncoder, stored: Any) -> FrameEncoder:
    """An encoder without the names of categories that the stored one has forgotten, if it is the same otherwise."""
    if [len(column.categories) for column in encoder.columns] != [len(column.categories) for column in stored.columns]:
        return encoder
    kept = [np.array([name is not None for name in column.categories], bool) for column in stored.columns]
    return FrameEncoder(
        tuple(column.forget_categories(used) for column, used in zip(encoder.columns, kept, strict=True))
    )


def _width(read: ReadLabels) -> int:
    return int(np.prod(read.values.shape[1:], dtype=np.int64))
