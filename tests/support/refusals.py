"""Bad input is answered with one sentence that names the argument, the value and, where there is one, the remedy."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import jaxtyping
import pytest

from anyshot.errors import InputError

Case = tuple[str, Callable[[], Any], list[str]]  # a name, a call that must be refused, words of the sentence


def parametrized(cases: list[Case]) -> Any:
    """A decorator that gives a test the call and the words of each case."""
    return pytest.mark.parametrize(
        ("call", "words"), [pytest.param(call, words, id=name) for name, call, words in cases]
    )


@contextlib.contextmanager
def as_a_user_runs_it() -> Iterator[None]:
    """Without the type checking of the test run, which would answer first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def assert_refused(call: Callable[[], Any], words: list[str]) -> None:
    """The call raises `InputError` with a single sentence that holds all these words."""
    with as_a_user_runs_it(), pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message
    assert "\n" not in message
    assert not re.search("nput should|Field required|Extra inputs|function-after|after validation", message), (
        "pydantic's words"
    )
    assert len(message) < 400
