"""Of a forgotten task no category is left on disk, and what other tasks have in common with it stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anyshot.lifelong import Lifelong
from anyshot.tasks import FrameEncoder
from tests.support.lives import make_life
from tests.support.stores import all_bytes

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
FIRST = pd.DataFrame({"town": ["Zanzibar", "Bari", "Oslo", None], "age": [1, 2, 3, 4], "code": [17041, 5, 6, 5]})
SECOND = pd.DataFrame({"town": ["Bari", "Tromsoe"], "age": [7, 8], "code": [6, 6]})
KINDS = {"code": "category"}


@pytest.mark.parametrize("given", [True, False], ids=["an encoder that was given", "an encoder of the first frame"])
def test_categories_of_a_forgotten_task_are_erased(tmp_path: Path, given: bool) -> None:
    encoder = FrameEncoder.fit(pd.concat([FIRST, SECOND]), kinds=KINDS) if given else None
    changes = {"encoder": encoder} if given else {}
    with make_life(tmp_path / "life", **changes) as life:
        if not given:
            life.task("a", classes=["no", "yes"]).predict(pd.concat([FIRST, SECOND]).astype({"code": "category"}))
        first = FIRST if given else FIRST.astype({"code": "category"})
        second = SECOND if given else SECOND.astype({"code": "category"})
        life.task("a", classes=["no", "yes"]).observe(first, ["no", "yes", "no", "yes"])
        kept = life.task("b", classes=["no", "yes"])
        kept.observe(second[:1], ["no"])
        life.learn(updates=2)
        life.save("before")
        assert b"Zanzibar" in all_bytes(tmp_path / "life")
        before = life._home.store.read(kept._record.ids)
        assert list((tmp_path / "life" / "looks").iterdir())
        life.forget("a")
        assert not (tmp_path / "life" / "looks").exists()  # what was learned from it is there, too
        path = life.export(tmp_path / "export.safetensors")
        for held in (all_bytes(tmp_path / "life"), path.read_bytes()):
            assert [word for word in (b"Zanzibar", b"Oslo", b"17041") if word in held] == []
            assert [word for word in (b"Bari", b"Tromsoe") if word not in held] == []  # of b, and of no label
        rows = life._home.encode(second)
        np.testing.assert_array_equal(rows[:1], before)
        assert not np.array_equal(rows[0], rows[1])
        np.testing.assert_array_equal(life._home.encode(first.assign(town="Zanzibar"))[:, :4], 0)
        found = kept.predict_proba(second)
    with Lifelong(tmp_path / "life", **changes) as again:
        np.testing.assert_array_equal(again.task("b").predict_proba(second), found)
        again.task("b").close()
