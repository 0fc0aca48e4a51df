"""The tasks that runs were of, as a contact sheet; JAX is imported only if there is one to draw."""

from __future__ import annotations

import matplotlib.style

from anyshot.errors import DataError
from anyshot.report.offline_runs import OfflineGroup
from anyshot.report.online_runs import Group
from anyshot.report.style import Picture
from anyshot.tasks.catalogue import entry
from anyshot.tasks.load import built_tasks, load_tasks, place
from anyshot.tasks.own_files import stand_in
from anyshot.tasks.store import there

ROWS, COLUMNS, SEED = 6, 10, 2  # this seed's six rows show five of the rainbow's colours


def tasks_sheet(group: Group | OfflineGroup) -> Picture:
    """Some tasks of the group's set; raises `DataError` if it is not built here, as a page is no reason to fetch it."""
    data, one = group.settings.data, entry(group.settings.data.name)
    if one.files and not there(place(data.name, one, data.seed, data.settings, stand_in(one))):
        raise DataError(f"{data.name} is not built here; `anyshot data fetch {data.name}` does it, or says what to do")
    _, fingerprint = built_tasks(data.name, one, data.seed, data.settings)
    theirs = group.runs[0].fingerprint
    if fingerprint != theirs:
        raise DataError(f"the {data.name} here has fingerprint {fingerprint[:16]}, that of the runs {theirs[:16]}")
    tasks = load_tasks(data.name, seed=data.seed, rebuild=False, **data.settings)
    from anyshot.tasks.sheet import contact_sheet

    with matplotlib.style.context("default"):  # pictures need no grid lines
        figure = contact_sheet(tasks, rows=ROWS, columns=COLUMNS, seed=SEED)
    alt = f"Contact sheet: some tasks of {data.name}, some examples of each."
    return Picture("tasks", figure, alt, embedded="png")
