"""The workload every implementation is timed on: one FTML-VS meta-gradient, as plain NumPy arrays.

T tasks, each with K_t of at most S shots to adapt on and V points to validate on; a network of four 3x3
convolutions (32 channels, stride 2, padding 1, leaky ReLU) and a linear head; N inner gradient steps of size
beta * (1 - 1 / (1 + eta * K_t)) on the mean cross entropy of the K_t shots, gradients clipped to a norm; second order.
The quantity computed is the mean over tasks of the validation loss after adaptation, and its gradient with respect to
the weights, beta and eta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SLOPE = 0.01  # of the leaky ReLU, as in PyTorch and JAX
CLASSES = 10
CHANNELS = 32
IMAGE = (28, 28, 3)


@dataclass(frozen=True)
class Problem:
    """Arrays in the layouts anyshot uses: images NHWC, kernels (height, width, in, out), head (in, out)."""

    weights: dict[
        str, np.ndarray
    ]  # conv{0..3}.weight (3,3,in,32), conv{0..3}.bias (32,), head.weight (128,10), head.bias
    beta: float
    eta: float
    train_x: np.ndarray  # (T, S, 28, 28, 3) float32; rows from K_t on are padding
    train_y: np.ndarray  # (T, S) int32
    shots: np.ndarray  # (T,) int32, K_t in 0..S
    val_x: np.ndarray  # (T, V, 28, 28, 3) float32
    val_y: np.ndarray  # (T, V) int32
    inner_steps: int
    clip: float

    @property
    def num_tasks(self) -> int:
        """The number of tasks T."""
        return int(self.train_x.shape[0])


def make_problem(
    tasks: int = 25, shots: int = 20, inner_steps: int = 5, validation: int = 20, seed: int = 1
) -> Problem:
    """Random images with class structure; K_t spread evenly over 0..shots.

    A leaky ReLU has a kink, and now and then a rounding error puts an activation on its other side, which moves the
    gradient by more than rounding; the default seed is one where that does not happen.
    """
    draw = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}
    fan = IMAGE[-1]
    for layer in range(4):
        scale = np.sqrt(2.0 / (9 * fan))
        weights[f"conv{layer}.weight"] = (scale * draw.standard_normal((3, 3, fan, CHANNELS))).astype(np.float32)
        weights[f"conv{layer}.bias"] = (0.1 * draw.standard_normal(CHANNELS)).astype(np.float32)
        fan = CHANNELS
    weights["head.weight"] = (draw.standard_normal((4 * CHANNELS, CLASSES)) / np.sqrt(4 * CHANNELS)).astype(np.float32)
    weights["head.bias"] = np.zeros(CLASSES, np.float32)

    patterns = 0.5 * draw.random((tasks, CLASSES, *IMAGE), dtype=np.float32)

    def examples(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = draw.integers(0, CLASSES, (tasks, count)).astype(np.int32)
        x = patterns[np.arange(tasks)[:, None], y] + 0.15 * draw.standard_normal((tasks, count, *IMAGE)).astype(
            np.float32
        )
        return x.astype(np.float32), y

    train_x, train_y = examples(shots)
    val_x, val_y = examples(validation)
    # A permutation of an even spread rather than independent draws: the work is then the same for every seed.
    held = draw.permutation(np.round(np.linspace(0, shots, tasks)).astype(np.int32))
    return Problem(weights, 0.1, 1.0, train_x, train_y, held, val_x, val_y, inner_steps, 10.0)


def arithmetic(problem: Problem) -> int:
    """Floating-point operations the meta-gradient cannot do without, multiply-adds counted as two; no padding.

    A layer of cost f in the forward pass costs 3f in a gradient (output, input gradient, weight gradient) and 6f more
    in the Hessian-vector product that goes backwards through an inner step (each of the three has two terms). The first
    convolution needs no input gradient, and its input no derivative: 2f and 2f.
    """
    first, others = _forward_costs()
    inner_images = int(problem.shots.sum()) * problem.inner_steps
    validation_images = int(np.prod(problem.val_y.shape))
    return inner_images * (4 * first + 9 * others) + validation_images * (2 * first + 3 * others)


def _forward_costs() -> tuple[int, int]:
    """Operations per image: of the first convolution, and of all other layers together."""
    costs, side, fan = [], IMAGE[0], IMAGE[-1]
    for _ in range(4):
        side = (side + 1) // 2
        costs.append(2 * side * side * 9 * fan * CHANNELS)
        fan = CHANNELS
    return costs[0], sum(costs[1:]) + 2 * side * side * CHANNELS * CLASSES
