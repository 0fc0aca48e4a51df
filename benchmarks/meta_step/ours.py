"""The meta-gradient of `problem` in anyshot, and in plain JAX with `lax.conv` as most JAX users would write it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from anyshot import Episodes, MetaObjective, Shots, Update, compiler_options
from anyshot.networks import MLP, Conv4, PoseRegressor, Siamese
from anyshot.rates import Scaled

from .networks import SLOPE, Network
from .problem import Problem

Gradients = dict[str, np.ndarray]


@dataclass(frozen=True)
class Compiled:
    """`run` computes one meta-gradient and waits; `result` also copies it out."""

    run: Callable[[], None]
    result: Callable[[], tuple[float, Gradients]]
    run_in_loop: Callable[
        [int], None
    ]  # that many meta-gradients, each of the weights the last one gave, in one program
    compile_seconds: float
    memory_mb: float


def anyshot(problem: Problem, precision: str = "float32") -> Compiled:
    """The public way: `MetaObjective.value_and_grad`, compiled."""
    objective = MetaObjective(Update(steps=problem.inner_steps, clip=problem.clip))
    model = _with_weights(problem, precision)
    rate = Scaled(problem.beta, problem.eta, max_shots=problem.train_y.shape[1])
    arrays, static = eqx.partition(model, eqx.is_array)

    def meta_gradient(arrays: Any, rate: Scaled, episodes: Episodes) -> Any:
        loss, (d_model, d_rate) = objective.value_and_grad(eqx.combine(arrays, static), rate, episodes)
        return loss, (eqx.filter(d_model, eqx.is_array), d_rate)

    def named(gradients: Any) -> Gradients:
        d_model, d_rate = gradients
        out = {}
        for (name, layer), found in zip(problem.network.layers.items(), _layers(d_model), strict=True):
            out[f"{name}.weight"] = np.asarray(found.weight.T).reshape(layer.shape)
            out[f"{name}.bias"] = np.asarray(found.bias)
        # The rule learns logarithms; the peers differentiate in beta and eta themselves.
        return out | {
            "beta": np.asarray(d_rate.log_beta) / problem.beta,
            "eta": np.asarray(d_rate.log_eta) / problem.eta,
        }

    return _compiled(meta_gradient, (arrays, rate, _episodes(problem)), named)


def lax_conv_vmap(problem: Problem) -> Compiled:
    """`jax.vmap` over tasks of `lax.conv`: a grouped convolution (a minute a step on a CPU)."""

    def logits(weights: Any, x: Any) -> Any:
        for layer in range(4):
            x = lax.conv_general_dilated(
                x, weights[f"conv{layer}.weight"], (2, 2), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.leaky_relu(x + weights[f"conv{layer}.bias"], SLOPE)
        return x.reshape(x.shape[0], -1) @ weights["head.weight"] + weights["head.bias"]

    def loss(weights: Any, x: Any, y: Any, weight: Any) -> Any:
        return -jnp.sum(weight * jnp.take_along_axis(jax.nn.log_softmax(logits(weights, x)), y[:, None], 1)[:, 0])

    def task_loss(weights: Any, rates: Any, x: Any, y: Any, shots: Any, val_x: Any, val_y: Any) -> Any:
        alpha = rates["beta"] * (1 - 1 / (1 + rates["eta"] * shots))
        weight = (jnp.arange(y.shape[0]) < shots) / jnp.maximum(shots, 1)
        for _ in range(problem.inner_steps):
            g = jax.grad(loss)(weights, x, y, weight)
            squared = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(g))
            factor = jnp.minimum(1.0, problem.clip / jnp.sqrt(jnp.maximum(squared, 1e-30)))
            weights = jax.tree.map(lambda w, d, f=factor: w - alpha * f * d, weights, g)
        return loss(weights, val_x, val_y, jnp.full(val_y.shape, 1 / val_y.shape[0]))

    def meta_gradient(weights: Any, rates: Any, data: Any) -> Any:
        def mean(weights: Any, rates: Any) -> Any:
            return jnp.mean(jax.vmap(lambda *task: task_loss(weights, rates, *task))(*data))

        return jax.value_and_grad(mean, argnums=(0, 1))(weights, rates)

    data = (problem.train_x, problem.train_y, problem.shots, problem.val_x, problem.val_y)
    rates = {"beta": jnp.float32(problem.beta), "eta": jnp.float32(problem.eta)}
    with jax.default_matmul_precision("float32"):
        return _compiled(
            meta_gradient,
            jax.tree.map(jnp.asarray, (problem.weights, rates, data)),
            lambda gradients: {name: np.asarray(g) for part in gradients for name, g in part.items()},
        )


def matmul_gflops() -> float:
    """The rate of a large float32 matrix product here: the most any implementation could use on a CPU."""
    return _product_gflops(jax.random.normal(jax.random.key(0), (2048, 2048)))


def float16_gflops() -> float:
    """The rate of a large float16 matrix product with float32 sums on a GPU."""
    return _product_gflops(jax.random.normal(jax.random.key(0), (8192, 8192), jnp.float16))


def _product_gflops(a: Any, repeats: int = 8) -> float:
    multiply = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST, preferred_element_type=jnp.float32)
    product = jax.jit(lambda a: multiply(a, a))
    product(a).block_until_ready()
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        product(a).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return float(2 * a.shape[0] ** 3 / best / 1e9)


def _compiled(
    meta_gradient: Callable[..., Any], arguments: tuple[Any, ...], named: Callable[[Any], Gradients]
) -> Compiled:
    start = time.perf_counter()
    program = jax.jit(meta_gradient, compiler_options=compiler_options()).lower(*arguments).compile()
    compile_seconds = time.perf_counter() - start
    memory = program.memory_analysis()
    assert memory is not None
    megabytes = (memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes) / 1e6

    @functools.partial(jax.jit, compiler_options=compiler_options())
    def loop(repeats: Any, parameters: Any, rate: Any, data: Any) -> Any:
        def step(_: Any, both: Any) -> Any:
            _, gradients = meta_gradient(*both, data)
            return jax.tree.map(lambda p, g: p - 1e-6 * g, both, gradients)

        return lax.fori_loop(0, repeats, step, (parameters, rate))

    def run() -> None:
        jax.block_until_ready(program(*arguments))

    def result() -> tuple[float, Gradients]:
        loss, gradients = program(*arguments)
        return float(loss), named(gradients)

    def run_in_loop(repeats: int) -> None:
        jax.block_until_ready(loop(repeats, *arguments))

    return Compiled(run, result, run_in_loop, compile_seconds, megabytes)


def _with_weights(problem: Problem, precision: str) -> Any:
    weights = problem.weights
    given = [
        jnp.asarray(array)
        for name in problem.network.layers
        for array in (weights[f"{name}.weight"].reshape(-1, weights[f"{name}.bias"].size).T, weights[f"{name}.bias"])
    ]
    model = _model(problem.network, precision)
    return eqx.tree_at(lambda m: [leaf for layer in _layers(m) for leaf in (layer.weight, layer.bias)], model, given)


def _model(network: Network, precision: str) -> Any:
    how: dict[str, Any] = {"precision": precision, "key": jax.random.key(0)}
    match network.kind:
        case "conv4":
            return Conv4(network.shape, network.classes, network.channels, **how)  # type: ignore[arg-type]
        case "pose":
            return PoseRegressor(network.shape, network.classes, network.channels, **how)  # type: ignore[arg-type]
        case "siamese":
            return Siamese(network.shape[1:], network.classes, network.channels, **how)  # type: ignore[arg-type]
    sizes = [layer.shape[0] for layer in network.layers.values()]
    return MLP((*sizes, network.classes), key=how["key"])


def _layers(model: Any) -> list[Any]:
    match model:
        case Conv4():
            return [*model.convolutions, model.head]
        case PoseRegressor():
            return _layers(model.halved)
        case Siamese():
            return [*(convolution for block in model.trunk for convolution in block), model.head]
    return list(model.layers)


def _episodes(problem: Problem) -> Episodes:
    held = jnp.full(problem.num_tasks, problem.val_y.shape[1], jnp.int32)
    return Episodes(
        Shots(jnp.asarray(problem.train_x), jnp.asarray(problem.train_y), jnp.asarray(problem.shots)),
        Shots(jnp.asarray(problem.val_x), jnp.asarray(problem.val_y), held),
    )
