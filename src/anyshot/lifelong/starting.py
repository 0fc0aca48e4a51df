"""Beginning with what another folder has learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.errors import InputError
from anyshot.lifelong.arguments import check_path
from anyshot.lifelong.learning import LearnerSettings, check_learner, make_engine
from anyshot.lifelong.snapshots import read_snapshot

SAID = ("kind", "scalar", "shape", "dtype", "encoder", "slots", "prior")


@dataclass(frozen=True, eq=False)
class Start:
    """A file that `Lifelong.export` wrote.

    Attributes:
        path: of the file.
        about: what it says about learner, inputs and labels.
    """

    path: Path
    about: Mapping[str, Any]

    @classmethod
    def read(cls, path: Any) -> Start:
        """From a file that is whole."""
        checked = check_path("start", path, "a file that Lifelong.export wrote")
        about = read_snapshot(checked)[1]
        if missing := [name for name in SAID if name not in about]:
            raise InputError(
                f"start is {checked}, which does not say {missing[0]}; export it again with Lifelong.export"
            )
        return cls(checked, about)

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings of another learner than the file's."""
        outputs, shape = self.about["learner"]["problem"]["outputs"], tuple(self.about["shape"])
        is_classification = self.about["kind"] == "classes"
        engine = make_engine(
            LearnerSettings(**settings), shape, self.about["dtype"], outputs, is_classification, _read_nothing
        )
        check_learner(engine.learner, self.about, self.path)


def _read_nothing(rows: np.ndarray) -> np.ndarray:
    raise AssertionError("no example is read to compare learners")
