"""What the step-size rules and their catalogue refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import rates
from anyshot.errors import InputError
from anyshot.networks import MLP
from anyshot.rates import (
    RATES,
    ClosedForm,
    Constant,
    LearnedConstant,
    PerParameter,
    PerShot,
    Rate,
    Scaled,
    ScaledPerParameter,
)
from tests.support.refusals import Case, assert_refused, parametrized

MODEL = MLP((2, 3), key=jax.random.key(0))
RULES: dict[str, Any] = {
    "Constant": Constant(),
    "LearnedConstant": LearnedConstant(),
    "PerShot": PerShot(),
    "Scaled": Scaled(),
    "PerParameter": PerParameter(MODEL),
    "ScaledPerParameter": ScaledPerParameter(MODEL),
    "ClosedForm": ClosedForm(),
}

NUMBERS_OF_SHOTS: list[Case] = [
    (f"{name}({value!r})", lambda rule=rule, value=value: rule(value), words)
    for name, rule in RULES.items()
    for value, words in [
        (-1, ["shots", "-1", "negative", "zero shots is 0"]),
        (np.int32(-2), ["shots", "-2", "negative"]),
        (1.5, ["shots", "whole number", "float64", "convert it to int"]),
        (True, ["shots", "whole number", "bool"]),
        ("3", ["shots", "whole number"]),
        (None, ["shots", "whole number"]),
        (jnp.array([2, -3]), ["shots", "-3", "negative"]),
    ]
]

POSITIVE: list[Case] = [
    (f"{name}({value!r})", lambda make=make, value=value: make(value), [name.split()[-1], "positive", f"got {value}"])
    for name, make in [
        ("Constant alpha", lambda value: Constant(value)),
        ("LearnedConstant alpha", lambda value: LearnedConstant(value)),
        ("PerShot alpha", lambda value: PerShot(value)),
        ("PerParameter alpha", lambda value: PerParameter(MODEL, value)),
        ("Scaled beta", lambda value: Scaled(beta=value)),
        ("Scaled eta", lambda value: Scaled(eta=value)),
        ("ScaledPerParameter beta", lambda value: ScaledPerParameter(MODEL, value)),
        ("ClosedForm beta", lambda value: ClosedForm(value)),
    ]
    for value in (0, -1.0, np.nan, np.inf, "0.1", [0.1, 0.2])
]

SETTINGS: list[Case] = [
    *(
        (
            f"{name} max_shots={value!r}",
            lambda make=make, value=value: make(max_shots=value),
            ["max_shots", repr(value)],
        )
        for name, make in [
            ("PerShot", PerShot),
            ("Scaled", Scaled),
            ("ClosedForm", ClosedForm),
            ("ScaledPerParameter", lambda max_shots: ScaledPerParameter(MODEL, max_shots=max_shots)),
        ]
        for value in (0, 2.5, True, "3")
    ),
    ("C1", lambda: ClosedForm(gradient_variance=-2.0), ["gradient_variance", "at least 0", "-2.0"]),
    ("C2", lambda: ClosedForm(squared_mean_gradient=np.nan), ["squared_mean_gradient", "at least 0", "nan"]),
    ("counts per parameter", lambda: RULES["PerParameter"](jnp.array([1, 2])), ["shots", "(2,)", "vmap"]),
    ("unknown name", lambda: RATES.find("scalled"), ["rate", "scalled", "scaled"]),
    ("taken name", lambda: rates.register("scaled", Constant), ["rate", "'scaled'", "already"]),
    ("no rule", lambda: rates.register("own", 0.1), ["target", "Rate", "0.1"]),
    ("a rule instead of its class", lambda: rates.register("own", Constant()), ["target", "Rate", "Constant"]),
]


@parametrized([*NUMBERS_OF_SHOTS, *POSITIVE, *SETTINGS])
def test_bad_input_is_refused(call: Callable[[], Any], words: list[str]) -> None:
    assert_refused(call, words)


def test_known_numbers_may_be_constants_of_a_compiled_function() -> None:
    """Known values are checked with NumPy: any JAX operation inside `jax.jit` would make them unknown."""
    for rule in RULES.values():
        jax.eval_shape(lambda rule=rule: rule(3))
        with pytest.raises(InputError, match="negative"):
            jax.eval_shape(lambda rule=rule: rule(-3))


def test_a_registered_rule_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RATES, "_entries", dict(RATES._entries))

    class Halved(Rate):
        """Half the inner rate."""

        alpha: Any

        @classmethod
        def initial(cls, model: Any, *, inner_rate: float, eta: float, max_shots: int) -> Rate:
            return cls(jnp.asarray(inner_rate / 2))

        def __call__(self, shots: Any) -> Any:
            return self.alpha

    rates.register("test-halved", Halved)
    assert RATES["test-halved"].summary == "Half the inner rate."
    rule = RATES.find("test-halved").load().initial(MODEL, inner_rate=0.2, eta=1.0, max_shots=3)
    assert rule(5) == 0.1


def test_listing_rates_and_networks_does_not_import_jax() -> None:
    program = (
        "import sys; from anyshot import networks, rates; "
        "print(*rates.RATES.summaries(), *networks.NETWORKS.summaries(), *dir(rates), *dir(networks)); "
        "assert 'jax' not in sys.modules"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert {"learned-constant", "conv4", "LearnedConstant", "make_network"} <= set(found)
