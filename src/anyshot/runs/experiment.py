"""An online experiment, from settings to a loop that is ready to run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from anyshot.adaptation import cross_entropy, squared_error
from anyshot.devices import everywhere
from anyshot.errors import InputError
from anyshot.learners import Recipe, make_learner
from anyshot.networks import MLP, Conv4, PoseRegressor, Siamese
from anyshot.online import OnlineLoop, Stream, make_stream
from anyshot.online.stream import check_fits
from anyshot.runs.settings import Network, Settings
from anyshot.tasks import TaskSet, load_tasks


@dataclass(frozen=True)
class Experiment:
    """A method on a stream: all that the result depends on.

    Attributes:
        settings: but the method and the seed.
        learner: the method's name.
        seed: of the stream, the initial weights and every draw; the stream depends on nothing else, so that methods
            with the same seed are given the same tasks and datapoints in the same order.
    """

    settings: Settings
    learner: str
    seed: int

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise InputError(f"seed must be a whole number from 0 to {2**32 - 1}, got {self.seed!r}")

    def describe(self, tasks: TaskSet) -> dict[str, Any]:
        """What is written in the run folder; two runs of the same description give the same bytes."""
        return {
            "learner": self.learner,
            "seed": self.seed,
            "fingerprint": tasks.fingerprint,
            "settings": self.settings.model_dump(mode="json"),
        }

    def load_tasks(self) -> TaskSet:
        """The task set, on the host."""
        data = self.settings.data
        return load_tasks(data.name, seed=data.seed, rebuild=False, **data.settings)

    def loop(self, tasks: TaskSet) -> OnlineLoop:
        """The method in its protocol; what cannot be done is refused here, before any work."""
        check_fits(tasks, self.settings.protocol)
        recipe = recipe_for(self.settings, tasks)
        learner = make_learner(self.learner, recipe, tasks.example())
        return OnlineLoop(learner, self.settings.protocol, recipe.loss, recipe.classification)

    def keys(self) -> dict[str, Key[Array, ""]]:
        """Keys for the stream, the initial state and the draws of the run."""
        stream, start, run = jax.random.split(jax.random.key(self.seed, impl="threefry2x32"), 3)
        return {"stream": stream, "start": start, "run": run}

    def stream(self, tasks: TaskSet) -> Stream:
        """The stream, on the device."""
        return everywhere(make_stream(tasks.on_device(), self.settings.protocol, self.keys()["stream"]))


def recipe_for(settings: Settings, tasks: TaskSet) -> Recipe:
    """Network, loss and numbers for a task set."""
    x, y = tasks.example()
    classification = bool(jnp.issubdtype(y.dtype, jnp.integer))
    outputs = _classes(tasks) if classification else int(np.prod(y.shape))
    network = _MakeNetwork(settings.network, x.shape)
    _check_network(settings.network, tasks, x.shape)
    loss = cross_entropy if classification else squared_error
    numbers = {name: getattr(settings.numbers, name) for name in asdict(settings.numbers)}
    return Recipe(network, outputs, loss, classification, settings.protocol.max_shots, **numbers)


def _classes(tasks: TaskSet) -> int:
    return 2 if tasks.unit == 2 else int(np.max(tasks.y)) + 1


DIMENSIONS = {"mlp": 1, "pose": 2, "conv4": 3, "siamese": 4}


def _check_network(network: Network, tasks: TaskSet, shape: tuple[int, ...]) -> None:
    if DIMENSIONS[network.kind] != len(shape):
        suiting = next((kind for kind, dimensions in DIMENSIONS.items() if dimensions == len(shape)), "none")
        raise InputError(
            f"network.kind is {network.kind!r}, but an example of {tasks.name} has shape {shape}; {suiting!r} suits"
        )


@dataclass(frozen=True)
class _MakeNetwork:
    """Makes the model; equal for equal settings, so that compiled functions are found again."""

    network: Network
    shape: tuple[int, ...]

    def __call__(self, key: Key[Array, ""], outputs: int) -> Any:
        """A model with random weights."""
        network, shape = self.network, self.shape
        if network.kind == "mlp":
            return MLP((shape[0], *network.hidden, outputs), key=key)
        if network.kind == "pose":
            return PoseRegressor(shape[0], outputs, network.channels, key=key)
        if network.kind == "siamese":
            height, width, channels = shape[1:]
            return Siamese((height, width, channels), outputs, network.channels, key=key)
        height, width, channels = shape
        return Conv4((height, width, channels), outputs, network.channels, network.stride, key=key)
