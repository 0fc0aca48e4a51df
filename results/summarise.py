"""Small JSON summaries of finished runs, to be kept with the code: `python -m results.summarise RUN...`."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

from anyshot.errors import InputError
from anyshot.online import Ledger
from anyshot.report.naming import title
from anyshot.runs.files import unsealed
from anyshot.runs.folder import ENVIRONMENT
from anyshot.runs.reading import read_events, read_experiment, read_summary
from anyshot.runs.settings import settings_from


def summary(run: Path) -> dict[str, Any]:
    """What a reader of the tables needs of a run: what it was, where it ran, and its ledger task by task."""
    if read_summary(run) is None:
        raise InputError(f"{run} is not finished; go on with: anyshot run --resume {run}")
    experiment = read_experiment(run)
    settings = settings_from(experiment["settings"])
    ledger = Ledger.of(read_events(run), settings.protocol.test)
    environment = unsealed((run / ENVIRONMENT).read_bytes())[-1]
    columns = ("name", "labels", "labels_until_mastered", "steps", "zero_shot_accuracy", "last_accuracy", "mastered")
    return {
        "title": title(settings),
        **experiment,
        "environment": {name: value for name, value in environment.items() if name != "opened"},
        "totals": ledger.totals(),
        "tasks": {column: [getattr(task, column) for task in ledger.tasks] for column in columns},
        "cumulative_loss": [round(total, 4) for total in itertools.accumulate(task.loss for task in ledger.tasks)],
    }


def main() -> None:
    """Write each run's summary to results/PRESET/LEARNER-sSEED.json."""
    for word in sys.argv[1:]:
        found = summary(Path(word))
        out = Path(__file__).parent / found["title"] / f"{found['learner']}-s{found['seed']}.json"
        out.parent.mkdir(exist_ok=True)
        out.write_text(json.dumps(found) + "\n", encoding="utf-8")
        print(out)


if __name__ == "__main__":
    main()
