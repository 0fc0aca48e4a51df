"""Running an experiment, and opening a run again."""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import numpy as np

from anyshot.devices import share_tasks
from anyshot.errors import DataError, InputError, RunError
from anyshot.folders import check_folder
from anyshot.learners import Learner
from anyshot.limits import MOST_STEPS, check_whole
from anyshot.runs import checkpoints
from anyshot.runs.drive import Job, Observe, describe_environment, drive
from anyshot.runs.experiment import Experiment
from anyshot.runs.folder import RunFolder
from anyshot.runs.hosts import NoFolder, agree, agree_on_state, is_first_host
from anyshot.runs.learner_records import default_hyperparameters, describe_learner
from anyshot.runs.make import learner_of, protocol_from
from anyshot.runs.offline import OfflineJob
from anyshot.runs.online import OnlineJob
from anyshot.runs.predicting import prepare_inputs, prepare_shots
from anyshot.runs.progress import Progress
from anyshot.runs.reading import CHECKPOINTS_FOLDER, experiment_sha256, read_experiment, read_format, read_summary
from anyshot.runs.records import ExperimentRecord, Summary
from anyshot.runs.sameness import find_difference, with_defaults
from anyshot.runs.sharing import check_sharing, devices_before, warn_of_other_number
from anyshot.runs.state import restore_state
from anyshot.shots import Shots

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

JOBS: dict[str, Callable[[Experiment], Job]] = {"online": OnlineJob, "offline": OfflineJob}
LEARNER_STATE = {"online": ".learner", "offline": ".best"}  # where a checkpoint has the learner's state that counts


class Run:
    """A run: what was learned, and what was found on the way.

    Attributes:
        folder: where it is kept.
        experiment: what it is a run of, as a record.
        learner: the method.
        state: what it has learned: the state of the last checkpoint (offline: the one that did best).
    """

    def __init__(self, folder: Path, experiment: ExperimentRecord, learner: Learner, state: Any) -> None:
        self.folder, self.experiment, self.learner, self.state = folder, experiment, learner, state

    @cached_property
    def summary(self) -> Summary | None:
        """What came out; None if the run is not finished."""
        return read_summary(self.folder)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Everything it has found, one row an evaluation; see `anyshot.read_runs`."""
        from anyshot.runs.table import table_of

        return table_of([self.folder])

    def predict(self, shots: Shots | tuple[Any, Any] | None, x: Any) -> np.ndarray:
        """Outputs for inputs of one task, after adapting to its shots.

        Args:
            shots: labelled datapoints of the task, as (inputs, labels) or `Shots`; None for zero shots.
            x: inputs, one row each.

        Returns:
            One row for each input: a score (logit) for each class, whose largest is the prediction, or the predicted
            target of a regression.
        """
        queries = prepare_inputs("x", x, self.learner)
        support = prepare_shots(shots, queries, self.learner, protocol_from(self.experiment).most_shots)
        if len(jax.tree.leaves(queries)[0]):
            return np.asarray(self._predict(self.state, support, queries))
        one = jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape[1:]), leaf.dtype), queries)
        return np.asarray(self._predict(self.state, support, one))[:0]  # networks need an input to know its shape

    @cached_property
    def _predict(self) -> Any:
        return eqx.filter_jit(self.learner.predict)

    def plot(self) -> Figure:
        """A figure of the run: loss and labels over tasks, or accuracy over shots offline."""
        from anyshot.runs.plot import plot_run

        return plot_run(self.table, self.experiment)

    def __repr__(self) -> str:
        record = self.experiment
        return f"Run({record.learner.name} on {record.tasks.name}, seed {record.seed}: {self.outcome})"

    def _repr_html_(self) -> str:
        return f"<p><code>{escape(repr(self))}</code><br>folder: <code>{escape(str(self.folder))}</code></p>"

    @property
    def outcome(self) -> str:
        """What came out, in words."""
        summary = self.summary
        if summary is None:
            return "not finished"
        if summary.kind == "online":
            return (
                f"{summary.mastered} of {summary.tasks} tasks mastered with {summary.total_labels:,} labels, "
                f"cumulative loss {summary.total_loss:,.1f}"
            )
        found = [
            f"{100 * one.accuracy:.1f} %" if one.accuracy is not None else f"loss {one.loss:.3f}"
            for one in summary.tests
        ]
        return (
            ", ".join(f"{score} with {one.shots}" for score, one in zip(found, summary.tests, strict=True)) + " shots"
        )


def run(
    experiment: Experiment,
    folder: str | Path | None = None,
    *,
    progress: bool = True,
    devices: int | Literal["auto"] | None = None,
    checkpoint_seconds: float = 60.0,
    until_tasks: int | None = None,
    observe: Observe | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> Run:
    """Run an experiment to its end, or on from where it was left.

    Args:
        experiment: what to run.
        folder: new, empty, or of this experiment, which then goes on; None: a temporary one, removed with the `Run`,
            or if the run is interrupted.
        progress: whether to print how far it is.
        devices: how many share the tasks of each meta-batch; "auto" takes all, of all hosts that `jax.distributed` has
            joined. None takes as many as the folder's run had; for a new one all CPU devices, or one GPU. Results of
            different numbers differ in the last bits.
        checkpoint_seconds: how often to save, at least.
        until_tasks: online, pause once so many tasks of the stream have ended; a later call goes on.
        observe: called with what happens as it happens, such as ("event", Evaluation(...)).
        warn: called with one sentence for each thing that was damaged and has been healed.

    Raises:
        RunError: a loss or a parameter was not finite; the last good checkpoint is kept, if there is one.
        KeyboardInterrupt: Ctrl-C; what was at hand was finished and saved.
    """
    if not isinstance(experiment, Experiment):
        raise InputError(f"experiment must be an Experiment, got {experiment!r}")
    if not (isinstance(checkpoint_seconds, int | float) and 0 <= checkpoint_seconds < float("inf")):
        raise InputError(f"checkpoint_seconds must be a finite number of at least 0, got {checkpoint_seconds!r}")
    if until_tasks is not None:
        check_whole("until_tasks", until_tasks, 1, MOST_STEPS)
        if experiment.protocol.kind != "online":
            raise InputError(f"until_tasks is for online experiments, got {until_tasks} with an offline one")
    if folder is None:
        place = Path(tempfile.mkdtemp(prefix="anyshot-"))
        try:
            how: dict[str, Any] = {"checkpoint_seconds": checkpoint_seconds, "observe": observe, "warn": warn}
            finished = run(experiment, place, progress=progress, devices=devices, until_tasks=until_tasks, **how)
        except RunError:  # which says where the last good checkpoint is
            raise
        except BaseException:
            _remove(place)
            raise
        weakref.finalize(finished, _remove, place)
        return finished
    place, learner = check_folder("folder", folder), experiment.learner
    job = JOBS[experiment.protocol.kind](experiment)  # which refuses what cannot be run, before anything is written
    with share_tasks(devices if devices is not None else devices_before(place)) as sharing:
        check_sharing(experiment, sharing)
        sharing = sharing if learner.shares_tasks else 1
        if devices is not None and is_first_host():
            warn_of_other_number(place, sharing, warn)
        with Progress(experiment, quiet=not progress or not is_first_host()) as shown:

            def tell(what: str, news: Any) -> None:
                shown(what, news)
                if observe is not None:
                    observe(what, news)

            with _open_folder(experiment, place, sharing, warn) as opened:
                (is_finished,) = agree(opened.finished)
                if not is_finished:
                    drive(job, opened, checkpoint_seconds, tell, until_tasks)
    if is_first_host():
        found = _load(place, read_experiment(place), learner, experiment_sha256(place), None, warn)
    else:
        found = Run(place, experiment.record, learner, learner.init(jax.random.key(0)))
    found.state = agree_on_state(found.state)
    return found


def _open_folder(
    experiment: Experiment, place: Path, sharing: int, warn: Callable[[str], None]
) -> AbstractContextManager[RunFolder | NoFolder]:
    """The folder of a run, which the first host keeps."""
    if not is_first_host():
        return nullcontext(NoFolder(place))
    defaults = default_hyperparameters(experiment.learner)
    return RunFolder.opened(place, experiment.record, describe_environment(sharing), warn, defaults)


def load_run(
    folder: str | Path,
    checkpoint: int | None = None,
    *,
    learner: Learner | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> Run:
    """Open a run again, finished or not.

    Args:
        folder: of the run.
        checkpoint: its number; by default the newest. A folder keeps the last two.
        learner: the learner of the run, if it has an own network, loss or optimiser, which a folder cannot hold.
        warn: called with one sentence for each checkpoint that is damaged.
    """
    place = Path(folder)
    record, is_old = read_experiment(place), read_format(place) == 1
    if learner is None:
        learner = learner_of(record)
    elif not is_old:
        theirs = with_defaults(record, default_hyperparameters(learner))["learner"]
        difference = find_difference(theirs, describe_learner(learner).model_dump(mode="json"))
        if difference:
            raise InputError(f"learner is not the one of {place}: {difference}")
    return _load(place, record, learner, None if is_old else experiment_sha256(place), checkpoint, warn)


def _load(
    place: Path,
    record: ExperimentRecord,
    learner: Learner,
    expected_sha256: str | None,
    checkpoint: int | None,
    warn: Callable[[str], None],
) -> Run:
    found = checkpoints.load(place / CHECKPOINTS_FOLDER, expected_sha256, warn, checkpoint)
    if found is None:
        raise DataError(f"{place} has no checkpoint yet; run it first")
    prefix = LEARNER_STATE[record.kind]
    inside = re.compile(re.escape(prefix) + r"(?=$|[.\[])")
    arrays = {name[len(prefix) :]: array for name, array in found.arrays.items() if inside.match(name)}
    return Run(place, record, learner, restore_state(learner.init(jax.random.key(0)), arrays))


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
