"""Whether a run folder holds the experiment that is to be run in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anyshot.errors import InputError


def check_same(path: Path, theirs: Any, ours: Any, setting: str = "") -> None:
    """Refuse another experiment, naming the first setting that differs."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in [*theirs, *(name for name in ours if name not in theirs)]:
            inner = f"{setting}.{name}" if setting else name
            for one, other, where in ((theirs, ours, "there"), (ours, theirs, "here")):
                if name not in other:
                    raise InputError(_another(path, f"{inner} is {json.dumps(one[name])} {where} only"))
            check_same(path, theirs[name], ours[name], inner)
    elif json.dumps(theirs) != json.dumps(ours):  # as JSON, since True == 1 == 1.0
        raise InputError(_another(path, f"{setting} is {json.dumps(theirs)} there and {json.dumps(ours)} here"))


def _another(path: Path, how: str) -> str:
    return f"{path} holds another experiment: {how}; choose another folder, or the same settings"
