"""What a run writes: the types of `experiment.json`, of a line of `events.jsonl` and of `summary.json`.

This is the only place that knows the fields. Whatever reads or writes a run folder does it with these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

FORMAT = 2  # of run folders; what older versions wrote is brought up to date by `anyshot.runs.upgrade`
Count = Annotated[int, Field(ge=0, lt=2**53)]
Plain = str | bool | int | float | None
Setting = Plain | list[Plain | list[Plain]]


class _Record(BaseModel):
    """A JSON object with known fields: no others, no NaN, no text where a number belongs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def to_json(self) -> dict[str, Any]:
        """The object to write, without the fields that are not known."""
        return self.model_dump(mode="json", exclude_none=True)


class Evaluation(_Record):
    """Online: one evaluation of the current task.

    Attributes:
        position: the task's position in the stream, from 0.
        task: its name.
        step: of this task.
        labels: of this task received so far.
        shots: adapted on.
        loss: mean over the test datapoints.
        accuracy: share of the test datapoints that were right; None in a regression.
        constant_loss: of the best constant prediction on the task's test data, in a regression with squared errors.
        mastered: whether it met the threshold.
        ended: whether the task has ended with this.
        total_loss: summed over all evaluations so far, the paper's regret.
        total_labels: of all tasks so far.
        train: what the learner reported of its updates, mean over the round.
        rates: the learned rates: scalars such as beta and eta, and alpha for s = 0..M when a task ends.
    """

    kind: Literal["evaluation"] = "evaluation"
    position: Count
    task: str
    step: Count
    labels: Count
    shots: Count
    loss: float
    accuracy: float | None = None
    constant_loss: float | None = None
    mastered: bool
    ended: bool
    total_loss: float
    total_labels: Count
    train: dict[str, float] = {}
    rates: dict[str, float | list[float]] = {}


class Pretraining(_Record):
    """Online: one round of pretraining, before the stream begins."""

    kind: Literal["pretraining"] = "pretraining"
    train: dict[str, float] = {}


class Trial(_Record):
    """Offline: one trial, on validation tasks or on held examples of the training tasks.

    Attributes:
        step: meta-updates so far.
        accuracy: for each number of shots; None without validation tasks or in a regression.
        loss: for each number of shots; None without validation tasks.
        score: the mean over numbers of shots that decides which state is kept; larger is better.
        better: whether this state is kept.
        ended: whether training ends with this.
        train: what the learner reported of its updates, mean over the round.
        rates: the learned rates.
    """

    kind: Literal["trial"] = "trial"
    step: Count
    accuracy: list[float] | None = None
    loss: list[float] | None = None
    score: float | None = None
    better: bool
    ended: bool
    train: dict[str, float] = {}
    rates: dict[str, float | list[float]] = {}


class Score(_Record):
    """Offline: the test on unseen tasks with one number of shots; errors are standard errors over episodes.

    `constant_loss` is that of the best constant prediction on the test data of the test tasks, in a regression with
    squared errors. `task_loss` and `task_accuracy` are those of each test task by its name; None if classes are drawn
    for each episode.
    """

    kind: Literal["test"] = "test"
    shots: Count
    loss: float
    loss_error: float
    accuracy: float | None = None
    accuracy_error: float | None = None
    episodes: int = Field(ge=1)
    constant_loss: float | None = None
    task_loss: dict[str, float] | None = None
    task_accuracy: dict[str, float] | None = None


Event = Evaluation | Pretraining | Trial | Score
EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


class OnlineSummary(_Record):
    """What an online run came to.

    Attributes:
        experiment_sha256: of the `experiment.json` it belongs to.
        events_sha256: of the whole `events.jsonl`.
    """

    format: Literal[2] = 2
    kind: Literal["online"] = "online"
    experiment_sha256: str
    events_sha256: str
    tasks: Count
    mastered: Count
    total_loss: float
    total_labels: Count


class OfflineSummary(_Record):
    """What an offline run came to; see `OnlineSummary` for the hashes."""

    format: Literal[2] = 2
    kind: Literal["offline"] = "offline"
    experiment_sha256: str
    events_sha256: str
    steps: Count
    best_step: Count
    tests: list[Score]


Summary = OnlineSummary | OfflineSummary
SUMMARY: TypeAdapter[Summary] = TypeAdapter(Annotated[Summary, Field(discriminator="kind")])


class Origin(_Record):
    """How `load_tasks` makes a task set again."""

    name: str
    seed: int
    settings: dict[str, Setting] = {}


class TasksRecord(_Record):
    """The task set of an experiment; `origin` is None for own arrays."""

    name: str
    fingerprint: str
    num_tasks: Count | None = None
    origin: Origin | None = None


class ShapeRecord(_Record):
    """Shape and dtype of an array."""

    shape: list[Count]
    dtype: str


class ProblemRecord(_Record):
    """What a learner knows of the tasks; `example` has an input and a label."""

    example: list[ShapeRecord]
    outputs: Count
    max_shots: Count


# Settings that our networks have got since experiments were first kept, with the values that older ones had.
ADDED = {kind: {"precision": "float32"} for kind in ("conv4", "siamese", "stacked", "pose")}


def complete_network(network: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a network with the settings that were added since, if the network is one of ours.

    >>> complete_network({"kind": "conv4", "channels": 8, "stride": 2})
    {'precision': 'float32', 'kind': 'conv4', 'channels': 8, 'stride': 2}
    """
    own = "sha256" in network  # of its source
    return {**({} if own else ADDED.get(str(network.get("kind")), {})), **network}


class LearnerRecord(_Record):
    """The learner of an experiment.

    Attributes:
        name: what tables call it.
        type: the qualified name of its class; an own class also has a hash of its source.
        hyperparameters: by name.
        network: {"kind": ..., settings} of a registered network, or the qualified name and hash of an own one.
        loss: qualified name, and the hash of an own one.
        optimiser: None for the learner's own Adam, else as for the loss.
        problem: what it knows of the tasks.
        fields: everything else it was made of.
    """

    name: str
    type: dict[str, str]
    hyperparameters: dict[str, Any] = {}
    network: dict[str, Setting] | None = None
    loss: dict[str, str] | None = None
    optimiser: dict[str, str] | None = None
    problem: ProblemRecord | None = None
    fields: dict[str, Any] = {}

    @field_validator("network")
    @classmethod
    def _complete(cls, network: dict[str, Setting] | None) -> dict[str, Setting] | None:
        return None if network is None else complete_network(network)


class ExperimentRecord(_Record):
    """Everything that a result depends on."""

    format: Literal[2] = 2
    kind: Literal["online", "offline"]
    seed: int = Field(ge=0, lt=2**32)
    tasks: TasksRecord
    learner: LearnerRecord
    protocol: dict[str, Setting]

    @model_validator(mode="after")
    def _check_protocol(self) -> ExperimentRecord:
        """What tables use of a protocol must be there."""
        if self.kind == "online" and type(self.protocol.get("test_size")) is not int:
            raise ValueError("protocol.test_size must be a whole number")
        if self.kind == "offline" and any(type(shots) is not int for shots in self.test_shots or [None]):
            raise ValueError("protocol.test_shots must be a list of whole numbers")
        return self

    @property
    def test_shots(self) -> list[Any]:
        """The numbers of shots that an offline run tests; empty for an online run."""
        shots = self.protocol.get("test_shots")
        return shots if isinstance(shots, list) else []

    def settings(self) -> dict[str, Any]:
        """Everything by dotted names, such as protocol.threshold, network.channels and learner.inner_rate."""
        learner, origin = self.learner, self.tasks.origin
        return {
            "data.name": self.tasks.name,
            **({"data.seed": origin.seed} if origin else {}),
            **{f"data.{name}": value for name, value in (origin.settings if origin else {}).items()},
            **{f"network.{name}": value for name, value in (learner.network or {}).items()},
            **{f"learner.{name}": value for name, value in learner.hyperparameters.items()},
            **{f"protocol.{name}": value for name, value in self.protocol.items()},
        }


def first_problem(error: ValidationError) -> str:
    """What is wrong with a record, in a few words.

    >>> try:
    ...     Score.model_validate({"shots": -1})
    ... except ValidationError as error:
    ...     print(first_problem(error))
    shots: Input should be greater than or equal to 0
    """
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
