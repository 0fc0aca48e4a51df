"""Learners by name: the built-in ones, own ones, and those of other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import anyshot
from anyshot.learners import FTML, LEARNERS, Hyperparameters, Learner, NetworkLearner
from anyshot.learners.catalogue import hyperparameters_of
from anyshot.rates import Constant
from anyshot.rates.rule import at_most, log_array
from tests.support.learners import NAMES, RULED, build
from tests.support.refusals import assert_refused

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]

COMMON = {"meta_rate", "meta_clip"}
OF_FTML = COMMON | {"inner_steps", "inner_rate", "inner_clip", "second_order", "eta", "batching"}
OF_FTML |= {"kl_coefficient", "kl_layers", "fixed_layers"}
OWN = {
    "anyshot": {"learning_rate", "adaptation_steps", "first_rate", "features", "batching"},
    "toe": COMMON,
    "a-gem": COMMON,
    "mann": COMMON | {"memory", "head_hidden", "memory_kl_coefficient"},
    "protonet": COMMON | {"embedding", "remembered"},
    "ridge-head": COMMON | {"features"},
    "scratch": {"regularisation"},
    "scratch-kernel": {"regularisation"},
    "scratch-network": {"training_steps", "training_rate"},
    **dict.fromkeys(RULED, OF_FTML),
}
RULES = anyshot.OnlineProtocol(
    labels_per_arrival=2,
    steps_per_arrival=1,
    max_steps=2,
    measure="loss",
    threshold=1e-9,
    max_shots=2,
    tasks_per_update=2,
    batch_size=4,
    test_size=5,
    num_tasks=2,
)


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The catalogue; what is registered in a test is forgotten after it."""
    list(LEARNERS)  # so that entry points have been looked up
    monkeypatch.setattr(LEARNERS, "_entries", dict(LEARNERS._entries))
    return LEARNERS


@pytest.fixture(scope="module")
def tasks() -> anyshot.TaskSet:
    return anyshot.load_tasks("sinusoid", num_tasks=4)


@dataclass(frozen=True, kw_only=True)
class AverageHyperparameters(Hyperparameters):
    keep: float = 0.9


class Average(NetworkLearner):
    """The average target.

    It looks at no input.
    """

    hyperparameters: ClassVar[type[Hyperparameters]] = AverageHyperparameters

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return {"mean": jnp.zeros(self.spec.problem.outputs)}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        keep = self.hyper.keep
        mean = keep * state["mean"] + (1 - keep) * jnp.mean(drawn.batch.y, axis=0)
        return {"mean": mean}, {"loss": jnp.mean((mean - state["mean"]) ** 2)}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jnp.broadcast_to(state["mean"], (query.shape[0], *state["mean"].shape))


class Root(anyshot.Rate):
    """Grows with the square root of the shots."""

    log_beta: Any
    max_shots: int = eqx.field(static=True)

    @classmethod
    def initial(cls, model: Any, *, inner_rate: float, eta: float, max_shots: int) -> Root:
        return cls(log_array("beta", inner_rate), max_shots)

    def __call__(self, shots: Any) -> Any:
        return jnp.exp(self.log_beta) * jnp.sqrt(at_most(shots, self.max_shots) / self.max_shots)

    def named(self) -> Any:
        return {"beta": jnp.exp(self.log_beta)}


# Own entries


@pytest.mark.medium
def test_an_own_learner_can_be_made_run_and_loaded_by_its_name(catalogue: Any, tasks: Any, tmp_path: Path) -> None:
    anyshot.learners.register("average", Average)
    assert catalogue["average"].summary == "The average target."
    learner = anyshot.make_learner("average", tasks, RULES, keep=0.5)
    assert (learner.name, learner.hyper.keep, learner.hyper.meta_rate) == ("average", 0.5, 1e-4)
    run = anyshot.run(anyshot.Experiment(tasks, learner, RULES), tmp_path / "run", progress=False)
    assert run.experiment.learner.hyperparameters["keep"] == 0.5
    assert list(run.state) == ["mean"]
    assert abs(run.state["mean"]) > 0
    again = anyshot.load_run(tmp_path / "run")
    assert isinstance(again.learner, Average)
    np.testing.assert_array_equal(again.state["mean"], run.state["mean"])
    by_name = anyshot.Experiment(tasks, "average", RULES)
    assert by_name.record.learner.hyperparameters["keep"] == 0.9


def make_equinox_mlp(key: Any, outputs: int) -> Any:
    return eqx.nn.MLP(1, outputs, 4, 1, key=key)


@pytest.mark.medium
def test_an_own_rate_is_ftml_with_that_rule(catalogue: Any, tasks: Any) -> None:
    anyshot.learners.register("ftml-root", Root, "by the square root")
    assert catalogue["ftml-root"].summary == "by the square root"
    numbers = {"inner_steps": 1, "inner_rate": 0.04, "meta_rate": 0.01}
    learner = anyshot.make_learner("ftml-root", tasks, RULES, network=make_equinox_mlp, **numbers)
    assert isinstance(learner, FTML)
    run = anyshot.run(anyshot.Experiment(tasks, learner, RULES), progress=False)
    rates = learner.rates(run.state)
    np.testing.assert_allclose(rates["alpha"], rates["beta"] * np.sqrt(np.arange(3) / 2), rtol=1e-12)
    assert rates["beta"] != pytest.approx(0.04, rel=1e-6), "the rule is learned"
    x = np.linspace(-1, 1, 3, dtype=np.float32)[:, None]
    none, two = run.predict(None, x), run.predict((x[:2], x[:2]), x)
    np.testing.assert_allclose(none[:, 0], [run.state.weights(one)[0] for one in x], rtol=1e-6)
    assert abs(two - none).max() > 1e-4, "it has adapted to the shots"


class PlainLearner(Learner):
    """Not made by a spec, so no name can stand for it."""


REFUSED = [
    ("taken name", ("ftml", Root), ["'ftml'", "already"]),
    ("taken offline name", ("maml-vs", Average), ["'maml-vs'", "already"]),
    ("underscore first", ("_x", Average), ["learner", "'_x'"]),
    ("space", ("a b", Average), ["'a b'"]),
    ("escape code", ("\x1b[31m", Average), [repr("\x1b[31m")]),
    ("no letters", ("", Average), ["''"]),
    ("no text", (5, Average), ["5"]),
    ("learner without a spec", ("own", PlainLearner), ["'own'", "NetworkLearner", "Rate", "PlainLearner"]),
    ("function", ("own", Average.init), ["'own'", "NetworkLearner"]),
    ("rule instead of its class", ("own", Constant()), ["'own'", "NetworkLearner", "Constant"]),
]


@pytest.mark.parametrize(("arguments", "words"), [pytest.param(*rest, id=name) for name, *rest in REFUSED])
def test_a_taken_name_a_bad_name_and_a_wrong_class_are_refused(
    catalogue: Any, arguments: tuple[Any, Any], words: list[str]
) -> None:
    before = list(catalogue)
    assert_refused(lambda: anyshot.learners.register(*arguments), words)
    assert list(catalogue) == before


def test_an_unknown_name_is_refused_with_the_nearest(tasks: Any) -> None:
    assert_refused(lambda: anyshot.make_learner("ftlm-vs", tasks, RULES), ["'ftlm-vs'", "'ftml-vs'", "a-gem"])


def test_a_target_to_import_is_checked_when_it_is_used(catalogue: Any, tasks: Any) -> None:
    anyshot.learners.register("pi", "math:pi")
    anyshot.learners.register("later", "anyshot.learners.toe:TOE")
    assert_refused(lambda: anyshot.make_learner("pi", tasks, RULES), ["'pi'", "NetworkLearner", "3.14"])
    assert type(anyshot.make_learner("later", tasks, RULES)).__name__ == "TOE"


# Entry points of other packages

OTHER_PACKAGE = """
from anyshot.learners import TOE

class Elsewhere(TOE):
    pass
"""
LOOK = """
import json, sys
from anyshot.learners import LEARNERS
names = list(LEARNERS)
untouched = [name for name in ("jax", "other_package") if name in sys.modules]
from anyshot.learners.catalogue import hyperparameters_of
from anyshot.learners.toe import TOE
found = LEARNERS.find("elsewhere").load()
print(json.dumps({
    "names": names,
    "imported by listing": untouched,
    "summary": LEARNERS["elsewhere"].summary,
    "is TOE": issubclass(found, TOE),
    "toe is ours": LEARNERS.find("toe").load() is TOE,
    "hyperparameters": list(hyperparameters_of("elsewhere").__dataclass_fields__),
}))
"""


@pytest.mark.medium
def test_other_packages_offer_learners_as_entry_points(tmp_path: Path) -> None:
    (tmp_path / "other_package.py").write_text(OTHER_PACKAGE)
    info = tmp_path / "other_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    points = "elsewhere = other_package:Elsewhere\ntoe = other_package:Elsewhere\n"  # a built-in name stays ours
    (info / "entry_points.txt").write_text(f"[anyshot.learners]\n{points}")
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["names"].count("elsewhere") == 1
    assert set(NAMES) < set(found["names"])
    assert found["imported by listing"] == []
    assert "other_package" in found["summary"]
    assert found["is TOE"]
    assert found["toe is ours"]
    assert set(found["hyperparameters"]) == COMMON


# Hyperparameters belong to the learner


@pytest.mark.parametrize("name", NAMES)
def test_a_learner_has_its_own_hyperparameters_and_no_others(name: str, tasks: Any) -> None:
    assert set(hyperparameters_of(name).__dataclass_fields__) == OWN[name]
    for other in set().union(*OWN.values()) - OWN[name]:
        assert_refused(lambda other=other: anyshot.make_learner(name, tasks, RULES, **{other: 1}), [name, repr(other)])


def test_offline_names_stand_for_the_same_learners() -> None:
    for name in LEARNERS:
        if name.startswith("maml"):
            other = name.replace("maml", "ftml", 1)
            assert LEARNERS[name].target == LEARNERS[other].target
            assert type(build(name)) is type(build(other))
            assert build(name).rule is build(other).rule
            assert build(name).name == name
