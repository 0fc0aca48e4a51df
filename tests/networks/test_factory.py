"""Networks by name: settings are checked and filled in, and what is described makes the same models again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import networks
from anyshot.networks import MLP, NETWORKS, Conv4, PoseRegressor, Siamese, StackedPairs, convolve, make_network
from tests.support.refusals import Case, assert_refused, parametrized

KEY = jax.random.key(0)
IMAGE = (8, 8, 3)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("shape", "kind", "network", "settings"),
    [
        ((5,), "mlp", MLP, {"hidden": [40, 40]}),
        ((), "mlp", MLP, {"hidden": [40, 40]}),
        ((12, 9), "pose", PoseRegressor, {"channels": 32, "stride": 2, "precision": "float32"}),
        ((8, 8, 3), "conv4", Conv4, {"channels": 32, "stride": 2, "precision": "float32"}),
        ((2, 8, 8, 1), "siamese", Siamese, {"channels": 64, "precision": "float32"}),
        ((4, 8, 8, 1), "mlp", MLP, {"hidden": [40, 40]}),
    ],
)
def test_auto_goes_by_the_shape_and_fills_in_defaults(shape: Any, kind: str, network: Any, settings: Any) -> None:
    factory = make_network("auto", shape)
    assert factory.describe() == {"kind": kind, **settings}
    model = factory(KEY, outputs=3)
    assert type(model) is network
    assert model(jnp.zeros(shape, jnp.uint8)).shape == (3,)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("settings", "shape", "by_hand"),
    [
        ({"kind": "conv4", "channels": 5, "stride": 1}, IMAGE, lambda: Conv4(IMAGE, 3, 5, 1, key=KEY)),
        ({"kind": "siamese", "channels": 2}, (2, *IMAGE), lambda: Siamese(IMAGE, 3, 2, key=KEY)),
        ({"kind": "stacked", "channels": 2}, (2, *IMAGE), lambda: StackedPairs(IMAGE, 3, 2, key=KEY)),
        ({"kind": "pose", "stride": 1, "channels": 4}, (7, 6), lambda: PoseRegressor((7, 6), 3, 4, 1, key=KEY)),
        ({"kind": "mlp", "hidden": (6, 2)}, (3, 2), lambda: MLP((6, 6, 2, 3), key=KEY)),
        ({"kind": "mlp", "hidden": []}, (3,), lambda: MLP((3, 3), key=KEY)),
        ({"channels": np.int64(5)}, IMAGE, lambda: Conv4(IMAGE, 3, 5, 2, key=KEY)),
    ],
)
def test_settings_reach_the_network(settings: Any, shape: Any, by_hand: Callable[[], Any]) -> None:
    assert eqx.tree_equal(make_network(settings, shape)(KEY, 3), by_hand())


def test_a_description_makes_an_equal_factory() -> None:
    factory = make_network({"kind": "mlp", "hidden": [3, 4]}, (2,))
    again = make_network(json.loads(json.dumps(factory.describe())), [2])
    assert (again, hash(again)) == (factory, hash(factory))
    assert make_network({"stride": 1, "channels": 2}, IMAGE) == make_network({"channels": 2, "stride": 1}, IMAGE)
    assert make_network({"kind": "mlp", "hidden": [3]}, (2,)) != factory


def test_networks_of_the_users_own() -> None:
    def make_linear(shape: Any, outputs: int, *, key: Any, bias: bool = True, scale: float = 1.0) -> Any:
        """One linear layer."""
        layer = eqx.nn.Linear(shape[0], outputs, use_bias=bias, key=key)
        return eqx.tree_at(lambda layer: layer.weight, layer, scale * layer.weight)

    networks.register("test-linear", make_linear)
    assert NETWORKS["test-linear"].summary == "One linear layer."
    factory = make_network({"kind": "test-linear", "bias": False}, (4,))
    assert factory.describe() == {"kind": "test-linear", "bias": False, "scale": 1.0}
    assert eqx.tree_equal(factory(KEY, 3), eqx.nn.Linear(4, 3, use_bias=False, key=KEY))
    with_functions = {"kind": "test-mlp", "width": 7}
    networks.register(
        "test-mlp", lambda shape, outputs, *, key, width=8: eqx.nn.MLP(shape[0], outputs, width, 1, key=key)
    )
    assert make_network(with_functions, (4,))(KEY, 3)(jnp.ones(4)).shape == (3,)


def test_checking_starts_no_device() -> None:
    """`use_cpu_cores` must still be possible after settings have been checked."""
    program = (
        "from anyshot.devices import use_cpu_cores; from anyshot.networks import make_network; "
        "[make_network('auto', shape) for shape in ((3,), (8, 8), (8, 8, 3), (2, 8, 8, 3))]; print(use_cpu_cores(2))"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout == "2\n"


def make_none(shape: Any, outputs: int, *, key: Any) -> None:
    return None


def make_broken(shape: Any, outputs: int, *, key: Any, width: int = 1) -> Any:
    return MLP((shape[7], width, outputs), key=key)


def make_with_function(shape: Any, outputs: int, *, key: Any, activation: Any = jnp.tanh) -> Any:
    return MLP((shape[0], outputs), key=key)


@pytest.fixture(autouse=True)
def _own_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are registered for the time of a test only."""
    monkeypatch.setattr(NETWORKS, "_entries", dict(NETWORKS._entries))
    for function in (make_none, make_broken, make_with_function):
        networks.register(f"test-{function.__name__}", function)


REFUSED: list[Case] = [
    *(
        (
            f"{kind} for {shape}",
            lambda kind=kind, shape=shape: make_network(kind, shape),
            [kind, str(shape), f"use {instead}"],
        )
        for kind, shape, instead in [
            ("conv4", (5,), "mlp"),
            ("conv4", (8, 8), "pose"),
            ("conv4", (2, 8, 8, 3), "siamese"),
            ("siamese", (8, 8, 3), "conv4"),
            ("siamese", (3, 8, 8, 3), "mlp"),
            ("pose", (8, 8, 1), "conv4"),
        ]
    ),
    *(
        (f"{kind} with {settings}", lambda kind=kind, s=settings, x=x: make_network({"kind": kind, **s}, x), words)
        for kind, x, settings, words in [
            ("mlp", (5,), {"channels": 3}, ["mlp", "'channels'", "hidden"]),
            ("mlp", (5,), {"stride": 1}, ["mlp", "'stride'", "hidden"]),
            ("siamese", (2, *IMAGE), {"stride": 1}, ["siamese", "'stride'", "channels"]),
            ("conv4", IMAGE, {"chanels": 3}, ["conv4", "'chanels'", "channels, stride"]),
            ("test-make_none", (5,), {"width": 3}, ["'width'", "none"]),
            *(
                ("conv4", IMAGE, {name: value}, [name, "whole number", repr(value)])
                for name in ("channels", "stride")
                for value in (0, -1, 1_000_000, 2.5, "2", True, None, (2,))
            ),
            ("conv4", IMAGE, {"stride": 3}, ["stride", "1 to 2", "3"]),
            ("conv4", IMAGE, {"channels": 4097}, ["channels", "4,096", "4097"]),
            ("pose", (8, 8), {"channels": 0}, ["channels", "0"]),
            ("siamese", (2, *IMAGE), {"channels": 0}, ["channels", "0"]),
            ("siamese", (2, 3, 9, 1), {}, ["siamese", "4x4", "3x9"]),
            ("stacked", (2, 3, 9, 1), {}, ["stacked", "4x4", "3x9"]),
            ("mlp", (5,), {"hidden": 40}, ["hidden", "list", "40"]),
            ("mlp", (5,), {"hidden": "40"}, ["hidden", "list", "'40'"]),
            ("mlp", (5,), {"hidden": [3, 0]}, ["hidden[1]", "whole number", "0"]),
            ("mlp", (5,), {"hidden": [65537]}, ["hidden[0]", "65,536", "65537"]),
            ("mlp", (5,), {"hidden": [2.0]}, ["hidden[0]", "whole number", "2.0"]),
            ("mlp", (5,), {"hidden": [1] * 101}, ["hidden", "100", "101"]),
            ("mlp", (5,), {"hidden": [65536, 65536]}, ["mlp", "parameters", "1,000,000,000"]),
            ("mlp", (5,), {"hidden": np.nan}, ["hidden", "nan"]),
            ("mlp", (5,), {"hidden": {"a": 1}}, ["hidden", "{'a': 1}"]),
            ("test-make_broken", (5,), {}, ["test-make_broken", "(5,)", "width", "index out of range"]),
            ("test-make_none", (5,), {}, ["test-make_none", "callable", "NoneType"]),
            ("test-make_with_function", (5,), {}, ["activation", "number"]),
            ("conv5", IMAGE, {}, ["network", "'conv5'", "'conv4'"]),
            ([], IMAGE, {}, ["kind", "[]", "conv4"]),
        ]
    ),
    ("a number as network", lambda: make_network(5, (5,)), ["network", "name", "5"]),
    ("a dict as shape", lambda: make_network("auto", {"a": (5,)}), ["shape", "'a'", "function"]),
    ("an empty shape", lambda: make_network("auto", (0, 3)), ["shape", "at least 1", "(0, 3)"]),
    ("a taken name", lambda: networks.register("mlp", MLP), ["network", "'mlp'", "already"]),
    ("no function", lambda: networks.register("own", 3), ["target", "function", "3"]),
    ("channels of the class", lambda: Conv4(IMAGE, 3, 0, key=KEY), ["channels", "0"]),
    ("stride of the class", lambda: Conv4(IMAGE, 3, 2, 3, key=KEY), ["stride", "3"]),
    ("one size", lambda: MLP((3,), key=KEY), ["sizes", "(3,)", "input's and the output's"]),
    ("size 0", lambda: MLP((3, 0, 1), key=KEY), ["sizes", "(3, 0, 1)", "from 1 on"]),
    ("a size that is no number", lambda: MLP((3, "4", 1), key=KEY), ["sizes", "'4'"]),
    ("weight columns", lambda: convolve(jnp.ones((1, 4, 4, 1)), jnp.ones((1, 18))), ["weight", "18 columns", "need 9"]),
    ("stride", lambda: convolve(jnp.ones((1, 4, 4, 1)), jnp.ones((1, 9)), 3), ["stride", "1 or 2", "got 3"]),
]


@parametrized(REFUSED)
def test_bad_settings_are_refused(call: Callable[[], Any], words: list[str]) -> None:
    assert_refused(call, words)
