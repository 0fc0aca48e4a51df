"""Our convolution and networks against XLA's own convolution, in float64 and at every order of derivative."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from anyshot.networks import MLP, Conv4, Convolution, PoseRegressor, Siamese, StackedPairs, convolution_gpu, convolve
from anyshot.networks import convolution as operations
from anyshot.networks.bias_gpu import sum_pixels
from anyshot.networks.patches import fold, fold_by_class, out_size, unfold, unfold_by_sides
from tests.support.gpu_arithmetic import evaluated

# Compiling is most of the time here, and half of that goes into making fast what runs once.
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def normal(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng([seed, *shape]).normal(size=shape))


def xla_convolve(x: Any, weight: Any, stride: int) -> Any:
    """What `convolve` promises: rows of weight are (3, 3, channels), taps row by row."""
    kernel = jnp.transpose(weight.reshape(weight.shape[0], 3, 3, x.shape[-1]), (1, 2, 3, 0))
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )


def agree(ours: Any, theirs: Any, tolerance: float = 1e-11) -> None:
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, float(np.abs(b).max(initial=0))))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(1, 3, 2), (2, 2, 1), (7, 6, 2)])
def test_values_and_derivatives(shape: tuple[int, int, int], stride: int) -> None:
    """Value, gradients and Hessians in images and weights, forward over reverse and reverse over reverse."""
    x, weight, both = normal(2, *shape), normal(3, 9 * shape[2]), (0, 1)

    def curved(convolution: Any, x: Any, weight: Any) -> Any:
        y = convolution(x, weight, stride)
        return jnp.sum(jnp.sin(y) * jnp.arange(1.0, y.size + 1).reshape(y.shape) / y.size)

    @quick_jit
    def ours(x: Any, weight: Any) -> Any:
        f = functools.partial(curved, convolve)
        reverse_twice = jax.jacrev(jax.jacrev(f, both), both)
        return (
            convolve(x, weight, stride),
            jax.grad(f, both)(x, weight),
            jax.hessian(f, both)(x, weight),
            reverse_twice(x, weight),
        )

    @quick_jit
    def theirs(x: Any, weight: Any) -> Any:
        f = functools.partial(curved, xla_convolve)
        return xla_convolve(x, weight, stride), jax.grad(f, both)(x, weight), jax.hessian(f, both)(x, weight)

    value, gradient, *hessians = ours(x, weight)
    expected_value, expected_gradient, expected_hessian = theirs(x, weight)
    agree(value, expected_value)
    agree(gradient, expected_gradient)
    for hessian in hessians:
        agree(hessian, expected_hessian)
    assert np.abs(expected_hessian[0][1]).max() > 1e-3, "a Hessian of zeros would prove nothing"


@pytest.mark.parametrize("stride", [1, 2])
def test_hessian_vector_products(stride: int) -> None:
    """Images and weights move together: their Hessian times a direction, its transpose, and its own gradient."""
    at, along = (normal(2, 7, 6, 2), normal(3, 18)), (normal(2, 7, 6, 2, seed=1), normal(3, 18, seed=2))

    def products(convolution: Any) -> Any:
        def hessian_times(at: Any, along: Any) -> Any:
            def curved(x: Any, weight: Any) -> Any:
                return jnp.sum(jnp.sin(convolution(x, weight, stride)))

            return jax.jvp(jax.grad(curved, (0, 1)), at, along)[1]

        forwards = functools.partial(hessian_times, at)
        backwards = jax.linear_transpose(forwards, along)(along)[0]
        third = jax.grad(lambda both: sum(jnp.sum(jnp.sin(one)) for one in hessian_times(*both)))((at, along))
        return forwards(along), backwards, third

    forwards, backwards, third = quick_jit(functools.partial(products, convolve))()
    expected_forwards, _, expected_third = quick_jit(functools.partial(products, xla_convolve))()
    agree(forwards, expected_forwards)
    agree(backwards, expected_forwards)  # a Hessian is symmetric
    agree(third, expected_third)


@pytest.mark.parametrize(
    ("axes", "stride"),
    [
        ((0, None, None), 1),  # images
        ((None, 0, 0), 2),  # weights and biases
        ((0, 0, 0), 1),
        ((0, 0, 0), 2),
        ((1, 2, 1), 2),  # other places for the batch
        ((0, None, 0), 1),
        ((None, 0, None), 1),
    ],
)
def test_batches_of_images_of_weights_and_of_both(axes: tuple[int | None, int | None, int | None], stride: int) -> None:
    """Under `vmap`, the output of a layer and the gradient through an inner gradient step on it."""
    own: dict[str, dict[Any, tuple[int, ...]]] = {
        "x": {None: (2, 5, 4, 2), 0: (3, 2, 5, 4, 2), 1: (2, 3, 5, 4, 2)},
        "weight": {None: (4, 18), 0: (3, 4, 18), 2: (4, 18, 3)},
        "bias": {None: (4,), 0: (3, 4), 1: (4, 3)},
    }
    arrays = [normal(*shapes[axis]) for shapes, axis in zip(own.values(), axes, strict=True)]
    empty = Convolution(2, 4, stride, key=jax.random.key(0))

    def our_layer(x: Any, weight: Any, bias: Any) -> Any:
        return jax.vmap(eqx.tree_at(lambda layer: (layer.weight, layer.bias), empty, (weight, bias)))(x)

    def xla_layer(x: Any, weight: Any, bias: Any) -> Any:
        return xla_convolve(x, weight, stride) + bias

    def everything(layer: Any) -> Any:
        def loss(x: Any, weight: Any, bias: Any) -> Any:
            return jnp.mean(jnp.sin(layer(x, weight, bias)))

        def adapted_loss(x: Any, weight: Any, bias: Any) -> Any:
            d_weight, d_bias = jax.grad(loss, (1, 2))(x, weight, bias)
            return loss(x, weight - d_weight, bias - d_bias)

        value_and_grads = jax.value_and_grad(adapted_loss, (0, 1, 2))
        return quick_jit(lambda *arrays: (jax.vmap(layer, axes)(*arrays), jax.vmap(value_and_grads, axes)(*arrays)))(
            *arrays
        )

    agree(everything(our_layer), everything(xla_layer))


def test_own_weights_become_matrix_products() -> None:
    """`lax.conv` under `vmap` over weights is a slow grouped convolution; ours has none, at any order."""
    x, weight = normal(3, 2, 6, 6, 2), normal(3, 4, 18)

    def meta_gradient(convolution: Any) -> str:
        def loss(weight: Any, x: Any) -> Any:
            return jnp.mean(jnp.tanh(convolution(x, weight, 1)))

        def adapted_loss(weight: Any, x: Any) -> Any:
            return loss(weight - jax.grad(loss)(weight, x), x)

        return str(jax.jit(jax.vmap(jax.grad(adapted_loss))).lower(weight, x).as_text())

    ours, theirs = meta_gradient(convolve), meta_gradient(xla_convolve)
    assert "stablehlo.dot_general" in ours
    assert "stablehlo.convolution" not in ours
    assert "stablehlo.convolution" in theirs, "the word looked for must be the one XLA uses"


def patches_by_indexing(x: np.ndarray, stride: int) -> np.ndarray:
    n, height, width, channels = x.shape
    down, across = -(-height // stride), -(-width // stride)
    patches = np.zeros((n, down, across, 3, 3, channels))
    for i, j, di, dj in np.ndindex(down, across, 3, 3):
        row, column = stride * i + di - 1, stride * j + dj - 1
        if 0 <= row < height and 0 <= column < width:
            patches[:, i, j, di, dj] = x[:, row, column]
    return patches.reshape(n, down, across, 9 * channels)


@settings(max_examples=10)
@given(
    n=st.integers(1, 2),
    height=st.integers(1, 8),
    width=st.integers(1, 8),
    channels=st.integers(1, 3),
    stride=st.sampled_from([1, 2]),
)
def test_patches(n: int, height: int, width: int, channels: int, stride: int) -> None:
    """Both ways to unfold are plain indexing, both ways to fold its adjoint."""
    x = normal(n, height, width, channels)
    p = normal(n, out_size(height, stride), out_size(width, stride), 9 * channels, seed=1)

    @quick_jit
    def all_four(x: Any, p: Any) -> Any:
        folds = [f(p, stride, height, width) for f in (fold, fold_by_class)]
        return [unfold(x, stride), unfold_by_sides(x, stride)], folds

    unfolded, folded = all_four(x, p)
    for ours in unfolded:
        np.testing.assert_array_equal(ours, patches_by_indexing(np.asarray(x), stride))
    agree(folded[1], folded[0], 1e-13)
    np.testing.assert_allclose(np.vdot(unfolded[0], p), np.vdot(x, folded[0]), rtol=1e-11, atol=1e-11)


# The networks, written down again with XLA's operations.


def leaky(h: Any) -> Any:
    return jnp.maximum(h, 0) + 0.01 * jnp.minimum(h, 0)


def xla_layer(layer: Any, h: Any, stride: int) -> Any:
    return leaky(xla_convolve(h, layer.weight, stride) + layer.bias)


def xla_head(layer: Any, h: Any) -> Any:
    return h.reshape(h.shape[0], -1) @ layer.weight.T + layer.bias


def xla_chain(net: Any, images: Any, stride: int) -> Any:
    h = images
    for layer in net.convolutions:
        h = xla_layer(layer, h, stride)
    return xla_head(net.head, h)


def xla_trunk(net: Siamese | StackedPairs, h: Any) -> Any:
    for block in net.trunk:
        for layer in block:
            h = xla_layer(layer, h, 1)
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return h.reshape(h.shape[0], -1)


def xla_siamese(net: Siamese, pairs: Any) -> Any:
    return xla_head(net.head, jnp.concatenate([xla_trunk(net, pairs[:, 0]), xla_trunk(net, pairs[:, 1])], axis=1))


def xla_stacked(net: StackedPairs, pairs: Any) -> Any:
    return xla_head(net.head, xla_trunk(net, jnp.concatenate([pairs[:, 0], pairs[:, 1]], axis=3)))


def xla_halved(images: Any) -> Any:
    even = jnp.concatenate([images, images[:, -1:]], axis=1)
    even = jnp.concatenate([even, even[:, :, -1:]], axis=2)
    return lax.reduce_window(even, 0.0, lax.add, (1, 2, 2), (1, 2, 2), "VALID") / 4


def xla_mlp(net: MLP, x: Any) -> Any:
    h = x.reshape(x.shape[0], -1)
    for layer in net.layers[:-1]:
        h = leaky(h @ layer.weight.T + layer.bias)
    return xla_head(net.layers[-1], h)


NEEDS_GPU = pytest.mark.skipif(jax.default_backend() != "gpu", reason="there is no GPU")
CONVOLUTIONS = (operations.convolve_p, operations.input_gradient_p, operations.weight_gradient_p)
KEY = jax.random.key(3)
NETWORKS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "Conv4, stride 2": (
        Conv4((7, 10, 2), 3, channels=4, key=KEY),
        functools.partial(xla_chain, stride=2),
        (7, 10, 2),
    ),
    "Conv4, stride 1": (
        Conv4((5, 4, 1), 3, channels=2, stride=1, key=KEY),
        functools.partial(xla_chain, stride=1),
        (5, 4, 1),
    ),
    "Siamese": (Siamese((11, 8, 2), channels=3, key=KEY), xla_siamese, (2, 11, 8, 2)),
    "StackedPairs": (StackedPairs((9, 8, 2), channels=3, key=KEY), xla_stacked, (2, 9, 8, 2)),
    "PoseRegressor": (
        PoseRegressor((33, 27), 2, channels=3, key=KEY),
        lambda net, images: xla_chain(net.halved, xla_halved(images)[..., None], 2),
        (33, 27),
    ),
    "MLP": (MLP((6, 5, 4, 2), key=KEY), xla_mlp, (3, 2)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    """Outputs and gradients, with biases that are not zero; and bytes are read as fractions of 255."""
    net, again, shape = NETWORKS[name]
    net = jax.tree.map(lambda leaf: leaf + 0.1 * normal(*leaf.shape), net)
    images = np.random.default_rng(0).integers(0, 256, (3, *shape))
    fractions = jnp.asarray(images / 255)

    @functools.partial(quick_jit, static_argnums=0)
    def output_and_gradient(outputs: Any, net: Any, images: Any) -> Any:
        def curved(net: Any) -> tuple[Any, Any]:
            y = outputs(net, images)
            return jnp.sum(jnp.sin(y)), y

        return jax.grad(curved, has_aux=True)(net)

    def one_by_one(net: Any, images: Any) -> Any:
        return jax.vmap(net)(images)

    expected = output_and_gradient(again, net, fractions)
    agree(output_and_gradient(one_by_one, net, fractions), expected, 1e-10)
    agree(quick_jit(one_by_one)(net, jnp.asarray(images, jnp.uint8)), expected[1], 1e-10)


def test_only_stacked_pairs_are_compared() -> None:
    """What another query changes depends on the reference; in two joined embeddings it does not."""
    draw = np.random.default_rng(1)
    a, b = (jnp.asarray(draw.normal(size=(2, 11, 8, 2))) for _ in range(2))  # two references and two queries
    for kind in (Siamese, StackedPairs):
        net = kind((11, 8, 2), channels=3, key=KEY)
        changes = [net(jnp.stack([one, b[0]])) - net(jnp.stack([one, b[1]])) for one in a]
        assert np.allclose(*changes, atol=1e-12) == (kind is Siamese)


def as_a_gpu(program: Any, *arguments: Any) -> Any:
    """Evaluate a program with convolutions that leave out what is behind each task's count, as our GPU kernels do."""

    def behind(array: Any, count: Any, value: float) -> Any:
        there = jnp.arange(array.shape[1]) < count[:, None]
        return jnp.where(there.reshape(*there.shape, *[1] * (array.ndim - 2)), array, value)

    def without(equation: Any, given: list[Any]) -> list[Any] | None:
        primitive, parameters = equation.primitive, equation.params
        if primitive in CONVOLUTIONS[:2]:  # an image behind the count must not be looked at
            return [behind(primitive.bind(*given, **parameters), given[2], 0.0)]
        if primitive is CONVOLUTIONS[2]:
            return [primitive.bind(*(behind(one, given[2], 0.0) for one in given[:2]), given[2], **parameters)]
        return None

    closed, shape = jax.make_jaxpr(program, return_shape=True)(*arguments)
    found = evaluated(closed, jax.tree.leaves(arguments), without)
    return jax.tree.unflatten(jax.tree.structure(shape), found)


@pytest.mark.parametrize(
    ("name", "own_weights"),
    [("Conv4, stride 2", False), ("Siamese", True), ("StackedPairs", True), ("PoseRegressor", True)],
)
def test_networks_hand_the_count_of_shots_to_their_convolutions(name: str, own_weights: bool) -> None:
    """Where padding is left out, what is in front of it has the same outputs and gradients, of tasks with own weights
    and of those that share them; and a row too few would be seen."""
    net, _, shape = NETWORKS[name]
    arrays, static = eqx.partition(net, eqx.is_array)
    counts, x = jnp.array([0, 2, 3], jnp.int32), normal(3, 4, *shape)
    weights = jax.tree.map(lambda leaf: leaf + 0.1 * normal(3, *leaf.shape) if own_weights else leaf, arrays)
    there = jnp.arange(4) < counts[:, None]

    def loss(weights: Any, counts: Any) -> Any:
        def of_task(weights: Any, x: Any, count: Any) -> Any:
            return eqx.combine(weights, static).for_shots(x, count)

        y = jax.vmap(of_task, in_axes=(0 if own_weights else None, 0, 0))(weights, x, counts)
        return jnp.sum(jnp.sin(y) * there[..., None]), y * there[..., None]

    program = jax.grad(loss, has_aux=True)
    expected, ours = quick_jit(program)(weights, counts), quick_jit(functools.partial(as_a_gpu, program))
    agree(ours(weights, counts), expected, 1e-10)
    fewer = ours(weights, counts - (counts == 3).astype(jnp.int32))
    assert not np.allclose(fewer[1][2, 2], expected[1][2, 2])


@pytest.mark.parametrize(
    ("counts", "examples", "height", "width", "channels", "outputs", "stride"),
    [
        ((2, 2), 2, 5, 4, 3, 5, 2),
        ((2,), 2, 3, 6, 16, 17, 1),
        pytest.param((0, 1, 5), 8, 5, 4, 2, 3, 2, marks=pytest.mark.slow),
        pytest.param((1, 7), 8, 3, 6, 16, 2, 1, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("interpret", [True, pytest.param(False, marks=[pytest.mark.gpu, NEEDS_GPU])])
def test_gpu_kernels(
    counts: tuple[int, ...],
    examples: int,
    height: int,
    width: int,
    channels: int,
    outputs: int,
    stride: int,
    interpret: bool,
) -> None:
    """The kernels, or on a CPU their Python, in float32: the three partial gradients of one trilinear form.

    Of each task only the first images are there: NaN in the others reaches neither these nor any sum.
    """
    tasks, count = len(counts), jnp.array(counts, jnp.int32)
    x = normal(tasks, examples, height, width, channels).astype(jnp.float32)
    weight = normal(tasks, outputs, 9 * channels).astype(jnp.float32)
    g = normal(tasks, examples, out_size(height, stride), out_size(width, stride), outputs).astype(jnp.float32)
    there = (jnp.arange(examples) < count[:, None])[..., None, None, None]

    def form(x: Any, weight: Any) -> Any:
        y = jax.vmap(functools.partial(xla_convolve, stride=stride))(x.astype(float), weight.astype(float))
        return jnp.sum(y * g * there), y * there

    (d_x, d_weight), y = quick_jit(jax.grad(form, (0, 1), has_aux=True))(x, weight)

    @quick_jit
    def interpreted(x: Any, weight: Any, g: Any) -> Any:
        y = convolution_gpu.convolve([(x, weight)], count, stride, interpret=interpret)
        d_x = convolution_gpu.convolve_input_gradient([(g, weight)], count, stride, height, width, interpret=interpret)
        return y, d_x, convolution_gpu.convolve_weight_gradient([(x, g)], count, stride, interpret=interpret)

    agree(interpreted(x, weight, g), (y, d_x, d_weight), 1e-5)
    agree(sum_pixels(g, interpret=interpret), g.astype(float).sum((1, 2, 3)), 1e-5)
    without = interpreted(jnp.where(there, x, jnp.nan), weight, jnp.where(there, g, jnp.nan))
    agree(without, (y, d_x, d_weight), 1e-5)
