"""`anyshot presets` and `anyshot learners`: every setting with its value and meaning, as --set takes it."""

from __future__ import annotations

import dataclasses

import pytest

from anyshot.learners.catalogue import LEARNERS, hyperparameters_of
from anyshot.runs.presets import PRESETS, preset
from anyshot.runs.settings import change, list_settings, parse_settings
from tests.support.command_line import Anyshot


def test_the_lists_have_every_name_and_its_summary(anyshot_here: Anyshot) -> None:
    for name, registry in (("presets", PRESETS), ("learners", LEARNERS)):
        code, printed, _ = anyshot_here(name)
        assert code == 0
        lines = [line.split(maxsplit=1) for line in printed.splitlines()[1:]]
        assert dict(lines) == registry.summaries()


@pytest.mark.parametrize("name", list(PRESETS))
def test_what_is_listed_of_a_preset_can_be_set(name: str, anyshot_here: Anyshot) -> None:
    code, printed, _ = anyshot_here("presets", name)
    assert code == 0
    rows = [line.split(maxsplit=1) for line in printed.splitlines() if line.startswith("  ")]
    found, learner = preset(name), preset(name).default_learner
    assert [row[0].partition("=")[0] for row in rows] == list(list_settings(found, learner))
    assert all(len(row) == 2 for row in rows), "each has a meaning"
    words = [row[0] for row in rows if not row[0].startswith("data.name=")]
    again = change(found, learner, parse_settings(words))
    assert list_settings(again, learner) == list_settings(found, learner)


def test_the_learner_decides_which_hyperparameters_there_are(anyshot_here: Anyshot) -> None:
    _, toe, _ = anyshot_here("presets", "sinusoid", "--learner", "toe")
    _, mann, _ = anyshot_here("presets", "sinusoid", "--learner", "mann")
    assert "learner.meta_rate=0.001 " in toe
    assert "learner.inner_rate" not in toe
    assert "learner.memory=256 " in mann


@pytest.mark.parametrize("name", list(LEARNERS))
def test_the_hyperparameters_of_a_learner_are_explained(name: str, anyshot_here: Anyshot) -> None:
    code, printed, _ = anyshot_here("learners", name)
    assert code == 0
    assert LEARNERS.find(name).summary in printed.splitlines()[0]
    rows = [line.split(maxsplit=1) for line in printed.splitlines() if line.startswith("  ")]
    fields = dataclasses.fields(hyperparameters_of(name))
    assert [row[0].partition("=")[0] for row in rows] == [f"learner.{field.name}" for field in fields]
    assert all(len(row) == 2 for row in rows), "each has a meaning"
