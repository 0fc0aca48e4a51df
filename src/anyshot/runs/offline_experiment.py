"""An offline experiment, from settings to a loop that is ready to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import Array, Key

from anyshot.devices import everywhere
from anyshot.learners import make_learner
from anyshot.learners.names import learner_offline
from anyshot.offline.loop import OfflineLoop
from anyshot.offline.split import Split, split_for
from anyshot.runs.experiment import check_seed, described, recipe_for, tasks_of
from anyshot.runs.settings import OfflineSettings
from anyshot.tasks import TaskSet


@dataclass(frozen=True)
class OfflineExperiment:
    """A method meta-trained on some tasks and tested on others: all that the result depends on.

    Attributes:
        settings: but the method and the seed.
        learner: the method's name.
        seed: of the initial weights and every draw; methods with the same seed are tested on the same episodes.
    """

    settings: OfflineSettings
    learner: str
    seed: int

    def __post_init__(self) -> None:
        check_seed(self.seed)
        learner_offline(self.learner)

    def describe(self, tasks: TaskSet) -> dict[str, Any]:
        """What is written in the run folder; two runs of the same description give the same bytes."""
        return described(self, tasks)

    def load_tasks(self) -> TaskSet:
        """The task set, on the host."""
        return tasks_of(self.settings.data)

    def loop(self, tasks: TaskSet) -> OfflineLoop:
        """The method in its plan; what cannot be done is refused here, before any work."""
        split_for(tasks, self.settings.plan)
        recipe = recipe_for(self.settings, tasks)
        learner = make_learner(learner_offline(self.learner), recipe, tasks.example())
        return OfflineLoop(learner, self.settings.plan, recipe.loss, recipe.classification)

    def keys(self) -> dict[str, Key[Array, ""]]:
        """Keys for the initial state, the draws of training, and the test."""
        start, run, test = jax.random.split(jax.random.key(self.seed, impl="threefry2x32"), 3)
        return {"start": start, "run": run, "test": test}

    def split(self, tasks: TaskSet) -> Split:
        """The tasks to train, to validate and to test on, on the device, where they share the examples."""
        return split_for(everywhere(tasks.on_device()), self.settings.plan)
