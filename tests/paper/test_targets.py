"""The paper's tables as data: presets, learners and settings that there are, and the jobs that come of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshot.learners.catalogue import LEARNERS
from anyshot.runs.presets import PRESETS, preset
from anyshot.runs.settings import change
from paper.cost import FROM_SCRATCH
from paper.jobs import Job, find_job, list_jobs
from paper.targets import CLAIMS, LABELS, MINUTES, TABLES, TARGETS, describe_targets, find_tables, specs_of
from tests.paper.made import make_experiment


@pytest.mark.parametrize("name", TABLES)
def test_tables_name_presets_and_learners_there_are(name: str) -> None:
    table = TABLES[name]
    assert table.preset in PRESETS
    for label in table.paper:
        for spec in specs_of(label):
            assert spec.learner in LEARNERS
            change(preset(table.preset), spec.learner, spec.settings)  # refuses settings that there are not
    assert {len(table.paper[label]) for label in table.numbered} <= {len(table.columns)}
    # Only models from scratch stand beside the paper's methods without a number of the paper.
    assert not table.numbered or set(table.paper) - set(table.numbered) <= set(FROM_SCRATCH)
    assert {label for pair in table.better for label in pair} <= set(table.paper)
    assert list(find_tables(name)) == [table]
    assert name in describe_targets()


def test_every_claim_label_and_time_is_used() -> None:
    methods = {label for table in TABLES.values() for label in table.paper}
    assert {label for claim in CLAIMS for label in claim} <= methods
    assert set(LABELS) <= methods
    assert set(MINUTES) <= {table.preset for table in TABLES.values()}


def test_a_run_that_two_tables_share_is_run_once() -> None:
    jobs = list_jobs(TABLES.values())
    assert len(jobs) == len(set(jobs))
    assert Job("rainbow-mnist", "ftml-vs", 2) in jobs
    assert [job.seed for job in list_jobs(find_tables("first-step-0.03")) if job.label == "ftml-0.03"] == [*range(8)]
    assert {job.seed for job in list_jobs(TARGETS["table-2"].tables, seeds=2)} == {0, 1}


def test_every_job_is_found_again_from_its_experiment() -> None:
    """So no two labels of a preset mean the same run."""
    for job in list_jobs(TABLES.values(), 1):
        for spec in specs_of(job.label):
            assert find_job(make_experiment(job, spec)) == job


def test_a_run_has_the_settings_of_its_label_and_a_folder_of_its_own() -> None:
    trial = Job("rainbow-mnist", "learned-constant-0.03", 4).trial
    assert (trial.candidate.learner, trial.seed) == ("ftml-learned-constant", 4)
    assert trial.candidate.settings == {"learner.inner_rate": 0.03}
    settings = {"protocol.max_steps": 100, "protocol.updates_per_step": 5, "learner.inner_rate": 0.03}
    assert Job("rainbow-mnist", "ftml-short", 4).trial.candidate.settings == settings
    jobs = list_jobs(TABLES.values())
    assert len({job.trial for job in jobs}) == len({job.folder(Path("runs")) for job in jobs}) == len(jobs)
    assert {job.seed for job in list_jobs(find_tables("short-tasks"))} == {*range(5)}
