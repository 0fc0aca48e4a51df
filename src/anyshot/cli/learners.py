"""`anyshot learners`: the methods by name, and where in the paper they are."""

from __future__ import annotations

from anyshot.cli.listing import print_list
from anyshot.learners.names import LEARNERS, OFFLINE_LEARNERS


def main(words: list[str]) -> None:
    """Run the command."""
    print_list(
        "learners", {"learners of anyshot run": LEARNERS, "learners of anyshot offline": OFFLINE_LEARNERS}, words
    )
