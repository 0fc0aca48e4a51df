"""`anyshot presets`: the experiments by name."""

from __future__ import annotations

from anyshot.cli.listing import print_list
from anyshot.runs.offline_presets import OFFLINE_PRESETS
from anyshot.runs.presets import PRESETS


def main(words: list[str]) -> None:
    """Run the command."""
    online = {name: told for name, (_, told) in PRESETS.items()}
    offline = {name: told for name, (_, told) in OFFLINE_PRESETS.items()}
    print_list("presets", {"presets of anyshot run": online, "presets of anyshot offline": offline}, words)
