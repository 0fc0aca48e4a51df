"""Omniglot, compared with the drawings in its archives."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anyshot.tasks import load_tasks


@pytest.mark.slow
def test_omniglot_is_ink_on_black_in_four_rotations(with_data: Path) -> None:
    classes = load_tasks("omniglot")
    assert (classes.num_tasks, classes.train_rows.shape, classes.x.shape[1:]) == (6492, (6492, 20), (28, 28, 1))
    assert [part.num_tasks for part in classes.offline_split()] == [4800, 4 * 423]
    upright, quarter = classes.look_up(classes.train_rows[0])[0], classes.look_up(classes.train_rows[1])[0]
    assert (np.rot90(upright, axes=(1, 2)) == quarter).all()
    alphabet, number, _ = classes.task_names[0].rsplit(" ", 2)
    compared = 0
    for archive in ("images_background", "images_evaluation"):
        with zipfile.ZipFile(with_data / f"omniglot/{archive}.zip") as opened:
            members = sorted(m for m in opened.namelist() if f"/{alphabet}/character{number}/" in m)
            for member, image in zip(members, upright, strict=False):
                with Image.open(io.BytesIO(opened.read(member))) as picture:
                    direct = 255 - np.asarray(picture.convert("L").resize((28, 28), Image.Resampling.LANCZOS))
                assert (direct == image[..., 0]).all()
                compared += 1
    assert compared == 20
    assert 0.02 < classes.x[:1000].mean() / 255 < 0.25, "strokes are thin"
