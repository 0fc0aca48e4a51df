"""Runs that can be compared: those of the same settings on the same task set, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from anyshot.errors import InputError
from anyshot.learners.names import LEARNERS, OFFLINE_LEARNERS
from anyshot.report.folders import Opened
from anyshot.report.naming import differences
from anyshot.report.wording import listed
from anyshot.runs.settings import OfflineSettings

R = TypeVar("R", bound=Opened)


def alike(runs: Iterable[R]) -> list[list[R]]:
    """The runs, those of the same settings and task set together, each such group by learner and seed."""
    groups: dict[str, list[R]] = {}
    for run in runs:
        groups.setdefault(f"{run.settings.model_dump_json()} {run.fingerprint}", []).append(run)
    return [sorted(group, key=order) for group in groups.values()]


def order(run: Opened) -> tuple[int, str, int]:
    """Where a run comes: methods as the help lists them, then others by name."""
    names = list(OFFLINE_LEARNERS if isinstance(run.settings, OfflineSettings) else LEARNERS)
    return names.index(run.learner) if run.learner in names else len(names), run.learner, run.seed


def unlike(run: Opened, other: Opened) -> str:
    """Why a run is not in the group of another."""
    how = [f"{name} {ours} instead of {theirs}" for name, theirs, ours in differences(other.settings, run.settings)]
    if run.settings.data.name != other.settings.data.name:  # with other data most numbers differ
        how = [next(one for one in how if one.startswith("data.name")) + " and what goes with it"]
    return f"Apart from the above, because these runs have {', '.join(how or ['another task set of that name'])}."


def check_twins(runs: Iterable[Opened]) -> None:
    """Refuse the same experiment twice."""
    seen: dict[tuple[str, int], Opened] = {}
    for run in runs:
        twin = seen.setdefault((run.learner, run.seed), run)
        if twin is not run:
            raise InputError(f"{twin.folder} and {run.folder} are the same experiment; give one of them only")


def on_seeds(runs: Sequence[Opened], differ_in: str) -> list[str]:
    """A sentence if not all learners have the same seeds, by which `differ_in` differ."""
    seeds = {learner: [run.seed for run in runs if run.learner == learner] for learner in (r.learner for r in runs)}
    if len(set(map(tuple, seeds.values()))) <= 1:
        return []
    told = "; ".join(f"{learner} {listed(has)}" for learner, has in seeds.items())
    return [
        f"Not all learners have the same seeds ({told}), so their means are over different {differ_in}; the paired "
        "differences are not: they use the seeds that both have."
    ]
