"""Writes docs/settings.md from the settings' own definitions: `python docs/reference.py`, or `make docs`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyshot.learners.catalogue import LEARNERS, hyperparameters_of
from anyshot.networks import NETWORKS
from anyshot.offline import OfflineProtocol
from anyshot.online import OnlineProtocol
from anyshot.registry import keyword_defaults
from anyshot.runs.meanings import explain
from anyshot.runs.presets import PRESETS, preset
from anyshot.runs.settings import list_settings

PAGE = Path(__file__).parent / "settings.md"
HEAD = """# Settings

Generated from the code by `make docs`; do not edit. A setting has one dotted name everywhere: in `--set
protocol.max_shots=10` on the command line, as a key in `anyshot.make_experiment(..., settings={...})`,
as a column of `anyshot.read_runs`, in `experiment.json` of the run folder. A name or a value that cannot be is refused
before any work. `anyshot presets NAME` prints all settings of a preset.
"""
PRECISION = (
    "is that of the convolutions' products: `float32`, or `half`, which rounds what is multiplied to 11 bits. That is "
    "faster on a GPU ([how much, and what it costs](performance.md#float32-means-float32))."
)


def settings_page() -> str:
    """All of docs/settings.md."""
    kinds = {hyperparameters_of(name): [] for name in LEARNERS}  # type: dict[type, list[str]]
    for name in LEARNERS:
        kinds[hyperparameters_of(name)].append(name)
    parts = [
        HEAD,
        "## protocol, online\n",
        _fields("protocol", OnlineProtocol),
        "## protocol, offline\n",
        _fields("protocol", OfflineProtocol),
        "## learner\n\nEach learner has hyperparameters of its own.\n",
    ]
    for kind, names in kinds.items():
        parts += [f"### {', '.join(f'`{name}`' for name in names)}\n", _fields("learner", kind)]
    parts += [
        "## network\n",
        _networks(),
        "## Presets\n\nWhat each changes of the defaults above, with the learner `ftml-vs` (offline `maml-vs`). "
        "Online, the default learner is `anyshot`, which takes nothing after `learner.` from a preset but "
        "`learner.batching`.\n",
    ]
    parts += [_preset(name) for name in PRESETS]
    return "\n".join(parts)


def _fields(part: str, kind: type[Any]) -> str:
    """A table of a dataclass's fields, those that it inherits included."""
    meanings = explain(*reversed(kind.__mro__))
    rows = [
        (f"`{part}.{field.name}`", _text(field.default), meanings[field.name]) for field in dataclasses.fields(kind)
    ]
    return _table(("setting", "default", "meaning"), rows)


def _networks() -> str:
    rows = []
    for name, entry in NETWORKS.items():
        settings = ", ".join(f"`network.{key}` {_text(value)}" for key, value in keyword_defaults(entry.load()).items())
        rows.append((f"`{name}`", entry.summary, settings))
    table = _table(("network.kind", "for", "settings and defaults"), rows)
    return f"{table}\n`network.precision` {PRECISION}\n"


def _preset(name: str) -> str:
    found = preset(name)
    learner = "ftml-vs" if found.protocol.kind == "online" else "maml-vs"
    usual = dataclasses.replace(
        found, hyperparameters={}, network={"kind": found.network["kind"]}, protocol=type(found.protocol)()
    )
    ours, default = list_settings(found, learner), list_settings(usual, learner)
    changed = [f"`{key}` {_text(value)}" for key, value in ours.items() if value != default.get(key)]
    first = [f"`data.name` {found.data}", f"`network.kind` {found.network['kind']}"]
    return f"**`{name}`** ({PRESETS[name].summary}): {', '.join([*first, *changed])}.\n"


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


if __name__ == "__main__":
    PAGE.write_text(settings_page(), "utf-8")
