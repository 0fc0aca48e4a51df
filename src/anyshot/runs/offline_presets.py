"""The offline experiments by name: the paper's where it says what they are, else as DESIGN and docs/offline.md say."""

from __future__ import annotations

from anyshot.errors import InputError
from anyshot.learners.numbers import Numbers
from anyshot.offline.plan import Plan
from anyshot.runs.presets import KL
from anyshot.runs.settings import Data, Network, OfflineSettings

RAINBOW = OfflineSettings(
    data=Data("rainbow-mnist"),
    network=Network("conv4", channels=32),
    # With the online 1e-4 MAML's validation score still rose after 20,000 steps (docs/reproduction-notes.md).
    numbers=Numbers(inner_steps=5, inner_rate=0.1, meta_rate=1e-3, kl_coefficient=KL),
    plan=Plan(steps=20_000, every=200, order=0),
)
MINIIMAGENET = OfflineSettings(
    data=Data("contextual-miniimagenet"),
    network=Network("siamese", channels=64),
    numbers=Numbers(inner_steps=5, inner_rate=0.03, meta_rate=1e-3, kl_coefficient=KL),
    plan=Plan(steps=20_000, every=200, tasks_per_update=16, validation_tasks=10),
)
# 5 of the 20 drawings of a character adapt in training, as in MAML's 5-shot runs; 15 are left to test on.
OMNIGLOT = OfflineSettings(
    data=Data("omniglot"),
    network=Network("conv4", channels=32),
    numbers=Numbers(inner_steps=5, inner_rate=0.4, meta_rate=1e-3),
    plan=Plan(
        steps=20_000,
        every=500,
        tasks_per_update=16,
        least_shots=1,
        max_shots=5,
        queries=5,
        ways=50,
        validation_tasks=400,
        validation_episodes=64,
        test_shots=(1, 2, 5),
        test_queries=5,
    ),
)
OMNIGLOT_5WAY = OfflineSettings(
    data=Data("omniglot"),
    network=Network("conv4", channels=64),
    numbers=Numbers(inner_steps=1, inner_rate=0.4, meta_rate=1e-3),
    plan=Plan(
        steps=20_000,
        every=500,
        tasks_per_update=32,
        least_shots=1,
        max_shots=1,
        queries=5,
        ways=5,
        validation_tasks=400,
        validation_episodes=320,
        test_shots=(1,),
        test_queries=15,
    ),
)
DIGITS = OfflineSettings(
    data=Data("rainbow-digits"),
    network=Network("conv4", channels=16),
    numbers=Numbers(inner_steps=2, inner_rate=0.1, meta_rate=3e-3, kl_coefficient=KL, memory=64, tasks="together"),
    plan=Plan(
        steps=1000,
        order=0,
        every=50,
        tasks_per_update=8,
        max_shots=10,
        queries=10,
        validation_episodes=40,
        test_shots=(0, 1, 5, 10),
    ),
)
SINUSOID = OfflineSettings(
    data=Data("sinusoid"),
    network=Network("mlp", hidden=(40, 40)),
    numbers=Numbers(inner_steps=5, inner_rate=0.03, meta_rate=1e-3, memory=40, tasks="together"),
    plan=Plan(
        steps=5000,
        every=250,
        max_shots=10,
        queries=10,
        validation_tasks=10,
        test_shots=(0, 1, 5, 10),
        test_queries=100,
    ),
)

OFFLINE_PRESETS = {
    "rainbow-digits-offline": (DIGITS, "20 looks of bundled digits to train, 36 to test; about a minute; embedded"),
    "sinusoid-offline": (SINUSOID, "80 sine waves to train, 20 to test, seconds on 2 cores; embedded"),
    "rainbow-mnist-offline": (RAINBOW, "table 1: 20 looks to train, 36 to test with 0, 1, 10, 20 shots"),
    "contextual-miniimagenet-offline": (MINIIMAGENET, "table 1: 90 classes to train, 10 to test, 0, 1, 10, 20 shots"),
    "omniglot-50way": (OMNIGLOT, "appendix F: 50 characters at a time, 1, 2 and 5 shots of each"),
    "omniglot-5way": (OMNIGLOT_5WAY, "MAML's 5-way 1-shot, a check of the whole against a published figure (98.7)"),
}


def offline_preset(name: str) -> OfflineSettings:
    """The settings of this name.

    >>> print(offline_preset("omniglot-50way").plan.ways)
    50
    """
    if name not in OFFLINE_PRESETS:
        raise InputError(f"there is no offline preset {name!r}; there are {', '.join(OFFLINE_PRESETS)}")
    return OFFLINE_PRESETS[name][0]
