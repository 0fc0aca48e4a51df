"""The workload every implementation is timed on: one FTML-VS meta-gradient, as plain NumPy arrays.

T tasks, each with K_t of at most S shots to adapt on and V points to validate on; one of the networks of `networks`;
N inner gradient steps of size beta * (1 - 1 / (1 + eta * K_t)) on the mean cross entropy of the K_t shots, gradients
clipped to a norm; second order. The quantity computed is the mean over tasks of the validation loss after adaptation,
and its gradient with respect to the weights, beta and eta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .networks import Network


@dataclass(frozen=True)
class Problem:
    """Arrays in the layouts anyshot uses: images NHWC, kernels (height, width, in, out), linear layers (in, out)."""

    network: Network
    weights: dict[str, np.ndarray]  # of each layer of the network in turn, {name}.weight and {name}.bias
    beta: float
    eta: float
    train_x: np.ndarray  # (T, S, *network.shape) float32; rows from K_t on are padding
    train_y: np.ndarray  # (T, S) int32
    shots: np.ndarray  # (T,) int32, K_t in 0..S
    val_x: np.ndarray  # (T, V, *network.shape) float32
    val_y: np.ndarray  # (T, V) int32
    inner_steps: int
    clip: float

    @property
    def num_tasks(self) -> int:
        """The number of tasks T."""
        return int(self.train_x.shape[0])


def make_problem(
    network: Network, tasks: int = 25, shots: int = 20, inner_steps: int = 5, validation: int = 20, seed: int = 1
) -> Problem:
    """Random images with class structure; K_t spread evenly over 0..shots.

    A leaky ReLU has a kink, and now and then a rounding error puts an activation on its other side, which moves the
    gradient by more than rounding; the default seed is one where that does not happen with conv4.
    """
    draw = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}
    for name, layer in network.layers.items():
        last = name == "head"
        scale = np.sqrt((1.0 if last else 2.0) / np.prod(layer.shape[:-1]))
        weights[f"{name}.weight"] = (scale * draw.standard_normal(layer.shape)).astype(np.float32)
        bias = np.zeros(layer.shape[-1]) if last else 0.1 * draw.standard_normal(layer.shape[-1])
        weights[f"{name}.bias"] = bias.astype(np.float32)

    patterns = 0.5 * draw.random((tasks, network.classes, *network.shape), dtype=np.float32)

    def examples(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = draw.integers(0, network.classes, (tasks, count)).astype(np.int32)
        noise = draw.standard_normal((tasks, count, *network.shape)).astype(np.float32)
        return (patterns[np.arange(tasks)[:, None], y] + 0.15 * noise).astype(np.float32), y

    train_x, train_y = examples(shots)
    val_x, val_y = examples(validation)
    # A permutation of an even spread rather than independent draws: the work is then the same for every seed.
    held = draw.permutation(np.round(np.linspace(0, shots, tasks)).astype(np.int32))
    return Problem(network, weights, network.inner_rate, 1.0, train_x, train_y, held, val_x, val_y, inner_steps, 10.0)


def arithmetic(problem: Problem) -> int:
    """Floating-point operations the meta-gradient cannot do without, multiply-adds counted as two; no padding.

    A layer of cost f in the forward pass costs 3f in a gradient (output, input gradient, weight gradient) and 6f more
    in the Hessian-vector product that goes backwards through an inner step (each of the three has two terms). The first
    layer needs no input gradient, and its input no derivative: 2f and 2f.
    """
    first, *others = (2 * int(np.prod(layer.shape)) * layer.places for layer in problem.network.layers.values())
    inner = int(problem.shots.sum()) * problem.inner_steps
    validation = int(np.prod(problem.val_y.shape))
    return inner * (4 * first + 9 * sum(others)) + validation * (2 * first + 3 * sum(others))
