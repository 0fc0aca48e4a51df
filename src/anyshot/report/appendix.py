"""What every part of the page ends with: the tasks, settings and environment, and the commands to repeat it all."""

from __future__ import annotations

import shlex
from html import escape

from anyshot.errors import DataError, InputError
from anyshot.report.comparison import AnyComparison
from anyshot.report.folders import Opened
from anyshot.report.markup import Inline, joined, paragraph, table
from anyshot.report.naming import command
from anyshot.report.offline_runs import OfflineGroup
from anyshot.report.online_runs import Group
from anyshot.report.tasks_sheet import tasks_sheet


def appendix(comparison: AnyComparison, inline: Inline) -> str:
    """The end of a comparison's part."""
    return joined(
        [
            "<h3>The tasks</h3>",
            _tasks(comparison.group, inline),
            "<h3>Settings and environment</h3>",
            _settings(comparison.group),
            "<h3>How to reproduce it</h3>",
            _commands(comparison),
        ]
    )


def _tasks(group: Group | OfflineGroup, inline: Inline) -> str:
    try:
        picture = tasks_sheet(group)
    except (DataError, InputError) as why:
        return paragraph(f"They cannot be shown: {why}.")
    told = paragraph("Some tasks of the set, which need not be those of these runs, each with some of its examples.")
    return f'{told}\n<div class="scroll sheet" tabindex="0">{inline(picture)}</div>'


def _settings(group: Group | OfflineGroup) -> str:
    rows = [["learner", "seed", "device", "opened", "versions", "folder"]]
    for run in (*group.runs, *group.left_out):
        rows.append([run.learner, str(run.seed), *_environment(run), str(run.folder)])
    values = group.settings.model_dump(mode="json").items()
    settings = [[f"{part}.{name}", str(value)] for part, names in values for name, value in names.items()]
    settings.append(["task set's fingerprint", group.runs[0].fingerprint])
    inner = table([["setting", "value"], *settings], "All settings")
    return f"{table(rows, 'Runs')}\n<details>\n<summary>All settings</summary>\n{inner}\n</details>"


def _environment(run: Opened) -> list[str]:
    def told(*names: str) -> str:
        values = [
            ", ".join(f"{n} {one[n]}" if len(names) > 1 else f"{one[n]}" for n in names if n in one)
            for one in run.environment
        ]
        return "; ".join(dict.fromkeys(filter(None, values))) or "not known"

    return [told("device"), told("opened"), told("anyshot", "jax", "numpy", "python")]


def _commands(comparison: AnyComparison) -> str:
    group = comparison.group
    runs = (*group.runs, *group.left_out)
    lines = [command(group.settings, run.learner, run.seed, str(run.folder)) for run in runs]
    folders = shlex.join(str(run.folder) for run in runs)
    lines.append(f"anyshot report {folders} --against {shlex.quote(comparison.against)} --out report.html")
    return f"<pre>{escape(chr(10).join(lines))}</pre>"
