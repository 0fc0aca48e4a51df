"""The tasks that runs were of, as a contact sheet."""

from __future__ import annotations

from typing import Any

import matplotlib.style

from anyshot.errors import DataError
from anyshot.report.style import Picture
from anyshot.runs.records import TasksRecord
from anyshot.tasks.load import is_built, load_tasks

ROWS, COLUMNS, SEED = 6, 10, 2  # this seed's six rows show five of the rainbow's colours


def draw_tasks(tasks: TasksRecord) -> Picture:
    """Some tasks of a set.

    Raises:
        DataError: the set is not here, as a page is no reason to fetch it, or it is another one.
        InputError: this version has no such task set.
    """
    origin = tasks.origin
    if origin is None:
        raise DataError("they were made in Python, and a run folder does not hold them")
    settings: dict[str, Any] = dict(origin.settings)
    if not is_built(origin.name, origin.seed, settings):
        raise DataError(f"{origin.name} is not built here; `anyshot data fetch {origin.name}` builds it")
    loaded = load_tasks(origin.name, seed=origin.seed, **settings)
    if loaded.fingerprint != tasks.fingerprint:
        here, there = loaded.fingerprint[:16], tasks.fingerprint[:16]
        raise DataError(f"the {origin.name} here has fingerprint {here}, that of the runs {there}")
    from anyshot.tasks.sheet import contact_sheet  # imports JAX

    with matplotlib.style.context("default"):  # pictures need no grid lines
        figure = contact_sheet(loaded, rows=ROWS, columns=COLUMNS, seed=SEED)
    return Picture("tasks", figure, f"Contact sheet: some tasks of {origin.name}, some examples of each.", "png")
