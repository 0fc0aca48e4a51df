"""`anyshot presets`: the experiments by name."""

from __future__ import annotations

from anyshot.cli.listing import print_list
from anyshot.runs.presets import PRESETS


def main(words: list[str]) -> None:
    """Run the command."""
    print_list("presets", {name: told for name, (_, told) in PRESETS.items()}, words)
