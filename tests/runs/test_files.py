"""Files that are whole or not there, and JSON that carries its own hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.runs.files import Damaged, replace_file, sealed, sha256, unsealed
from tests.support.faults import damages

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(content=JSON)
def test_what_is_sealed_comes_back(content: Any) -> None:
    assert unsealed(sealed(content)) == content


@given(content=JSON)
def test_every_change_of_a_sealed_file_is_noticed(content: Any) -> None:
    data = sealed(content)
    for wrong in damages(data, 20):
        if wrong is not None:
            with pytest.raises(Damaged):
                unsealed(wrong)


@pytest.mark.parametrize("content", ["[" * 5000 + "]" * 5000, "NaN", "[1e999]"])
def test_what_no_run_writes_is_damage_even_with_the_right_hash(content: str) -> None:
    data = json.dumps({"content": 0, "sha256": sha256(content.encode())}, indent=1).replace("0,", f"{content},")
    with pytest.raises(Damaged):
        unsealed(data.encode())


def test_a_file_is_replaced_at_once_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    for data in (b"one", b"two"):
        replace_file(tmp_path / "file", data)
        assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", data)]
