"""The settings of an experiment, online or offline: one definition for flags, checks and the file in the run folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from anyshot.errors import InputError
from anyshot.learners.numbers import Numbers
from anyshot.offline.plan import Plan
from anyshot.online.protocol import Protocol
from anyshot.runs.networks import NETWORKS

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Data:
    """What is learned from.

    Attributes:
        name: of the task set; `anyshot data list` shows them.
        seed: which image goes to which task.
        settings: of the task set, if not the usual ones: names and values, such as size 42.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    name: str = "rainbow-mnist"
    seed: int = 0
    settings: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """The model.

    Attributes:
        kind: which one; conv4 is for images, siamese for pairs of them, pose for large grey ones, mlp for vectors.
        channels: of every convolution.
        stride: of the convolutions of conv4 and pose (the paper does not say; 2 as in MAML's Omniglot network).
        hidden: widths of the hidden layers of an mlp.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    kind: Literal[tuple(NETWORKS)] = "conv4"
    channels: int = 32
    stride: int = 2
    hidden: tuple[int, ...] = (40, 40)


class _Common(BaseModel):
    """What online and offline experiments both have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Data = Data()
    network: Network = Network()
    numbers: Numbers = Numbers()


class Settings(_Common):
    """Everything about an experiment but the method and the seed."""

    protocol: Protocol = Protocol()

    @property
    def most_shots(self) -> int:
        """M, in datapoints."""
        return self.protocol.max_shots

    @property
    def ways(self) -> None:
        """Online, tasks have labels of their own."""


class OfflineSettings(_Common):
    """Everything about an offline experiment but the method and the seed."""

    plan: Plan = Plan()

    @property
    def most_shots(self) -> int:
        """M, in datapoints."""
        return self.plan.max_shots * (self.plan.ways or 1)

    @property
    def ways(self) -> int | None:
        """Classes of an episode, if they are numbered anew in each."""
        return self.plan.ways


def settings_from(values: dict[str, Any]) -> Settings:
    """Settings from what `Settings.model_dump` or a JSON file gives; raises `InputError` naming what is wrong."""
    return _validated(Settings, values)


def offline_settings_from(values: dict[str, Any]) -> OfflineSettings:
    """The same for `OfflineSettings`."""
    return _validated(OfflineSettings, values)


def any_settings_from(values: dict[str, Any]) -> Settings | OfflineSettings:
    """Of whichever kind the values are; only an offline experiment has a plan."""
    return offline_settings_from(values) if "plan" in values else settings_from(values)


def _validated(model: type[Model], values: dict[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = str(first["msg"]).removeprefix("Value error, ")
        raise InputError(f"{where}: {what}" + (f", got {first['input']!r}" if "got" not in what else "")) from error
