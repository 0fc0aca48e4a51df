"""Records of format 1, which anyshot 0.1 wrote, brought up to date. Nothing else knows the old names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PROTOCOL = {
    "arrive": "labels_per_arrival",
    "every": "steps_per_arrival",
    "updates": "updates_per_step",
    "validation": "validation_size",
    "batch": "batch_size",
    "test": "test_size",
    "tasks": "num_tasks",
}
PLAN = {"every": "steps_per_trial", "least_shots": "min_shots", "most_episodes": "max_episodes"}
DATA = {"given": "train_rows", "held": "test_rows", "tasks": "num_tasks"}
NETWORKS = {
    "conv4": ("channels", "stride"),
    "siamese": ("channels",),
    "pose": ("channels", "stride"),
    "mlp": ("hidden",),
}
REGRESSIONS = ("sinusoid", "pose")
ADAM = ("meta_rate", "meta_clip")
LEARNERS = {  # class, and the hyperparameters it had; all others were FTML
    "toe": ("anyshot.learners.toe.TOE", ADAM),
    "a-gem": ("anyshot.learners.agem.AGEM", ADAM),
    "mann": ("anyshot.learners.mann.MANN", (*ADAM, "memory")),
    "protonet": ("anyshot.learners.protonet.ProtoNet", (*ADAM, "embedding")),
}
FTML = ("inner_steps", "inner_rate", "inner_clip", "second_order", "eta", "kl_coefficient", "batching")


def upgrade_experiment(old: Mapping[str, Any]) -> dict[str, Any]:
    """The `experiment.json` of format 1 as one of format 2."""
    settings = old["settings"]
    data, network, numbers = settings["data"], settings["network"], dict(settings["numbers"])
    numbers["batching"] = numbers.pop("tasks")
    offline = "plan" in settings
    protocol = _renamed(settings["plan"], PLAN) if offline else _renamed(settings["protocol"], PROTOCOL)
    if not offline:
        protocol["shuffle_tasks"] = True
    kind, names = LEARNERS.get(old["learner"], ("anyshot.learners.ftml.FTML", (*ADAM, *FTML)))
    loss = "squared_error" if data["name"] in REGRESSIONS else "cross_entropy"
    return {
        "format": 2,
        "kind": "offline" if offline else "online",
        "seed": old["seed"],
        "tasks": {
            "name": data["name"],
            "fingerprint": old["fingerprint"],
            "origin": {"name": data["name"], "seed": data["seed"], "settings": _renamed(data["settings"], DATA)},
        },
        "learner": {
            "name": old["learner"],
            "type": {"name": kind},
            "hyperparameters": {name: numbers[name] for name in names},
            "network": {"kind": network["kind"], **{name: network[name] for name in NETWORKS[network["kind"]]}},
            "loss": {"name": f"anyshot.adaptation.losses.{loss}"},
        },
        "protocol": protocol,
    }


def upgrade_event(old: Mapping[str, Any]) -> dict[str, Any]:
    """A line of `events.jsonl` of format 1 as one of format 2."""
    train = {name.removeprefix("train_"): old[name] for name in old if name.startswith("train_")}
    rates = {name: old[name] for name in ("alpha", "beta", "eta") if name in old}
    rest = {name: old[name] for name in old if not name.startswith("train_") and name not in rates}
    if "pretraining" in rest:
        return {"kind": "pretraining", "train": train}
    if rest.pop("test", False):
        return {"kind": "test", **rest}
    if "position" in rest:
        return {"kind": "evaluation", **rest, "train": train, "rates": rates}
    new = {name.removeprefix("validation_"): value for name, value in rest.items()}
    return {"kind": "trial", **new, "train": train, "rates": rates}


def upgrade_summary(
    old: Mapping[str, Any], experiment_sha256: str, events: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The `summary.json` of format 1 as one of format 2; `events` are upgraded already."""
    hashes = {"format": 2, "experiment_sha256": experiment_sha256, "events_sha256": old["events_sha256"]}
    summary = old["summary"]
    if "test" in summary:
        tests = [upgrade_event(line) for line in summary["test"]]
        return {
            **hashes,
            "kind": "offline",
            "steps": summary["steps"],
            "best_step": summary["best_step"],
            "tests": tests,
        }
    mastered = {event["position"] for event in events if event.get("mastered")}
    return {**hashes, "kind": "online", **summary, "mastered": len(mastered)}


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}
