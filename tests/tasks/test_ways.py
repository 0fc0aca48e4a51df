"""N-way K-shot episodes of classes."""

from __future__ import annotations

import jax
import numpy as np

from anyshot.tasks import ClassTasks
from tests.support.task_sets import make_toy


def test_episodes_of_classes() -> None:
    classes = make_toy(ClassTasks, num_tasks=9, train=7)
    draw = jax.jit(lambda key: classes.episode(key, ways=4, shots=2, queries=3, size=4))
    for seed in range(50):
        episode = draw(jax.random.key(seed))
        train, val = (np.asarray(part.x) for part in (episode.train, episode.val))
        assert (episode.train.count, episode.val.count, len(train)) == (8, 12, 16)
        assert len(set(train.tolist() + val.tolist())) == 16 + 12, "no example twice"
        real_class = np.asarray(classes.y)[np.concatenate([train, val])]
        label = np.concatenate([episode.train.y, episode.val.y])
        assert len(set(zip(real_class.tolist(), label.tolist(), strict=True))) == 4, "one label a class"
        assert len(set(real_class.tolist())) == 4
        assert (np.asarray(episode.train.y).reshape(4, 4) == np.arange(4)).all(), "shot by shot"
