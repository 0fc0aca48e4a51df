"""The meta-gradient of `problem` as users of PyTorch compute it today, for comparison.

Four approaches: a Python loop over tasks on unpadded shots (written out, with `higher`, and with TorchOpt), and
`torch.func.vmap` over tasks on padded and masked shots, on CUDA also replayed from a CUDA graph.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .networks import SLOPE
from .problem import Problem

_PACKAGE_NEEDED = {"torch loop": "torch", "torch.func vmap": "torch", "higher": "higher", "torchopt": "torchopt"}
_CUDA_GRAPH = "torch.func vmap + CUDA graph"

Result = tuple[float, dict[str, np.ndarray]]
MetaGradient = Callable[[], tuple[Tensor, Sequence[Tensor]]]  # mean loss; gradients in the order of MetaParameters.all
Adapt = Callable[[list[Tensor], Tensor, Tensor, Tensor], list[Tensor]]  # weights, images, labels, step size -> weights


@dataclass(frozen=True)
class Peer:
    """`run` is what to time: it computes one meta-gradient and waits for the device. `result` also copies it out."""

    run: Callable[[], None]
    result: Callable[[], Result]


@dataclass(frozen=True)
class MetaParameters:
    """The leaves the meta-gradient is taken of: kernels as (out, in, height, width), the head as (in, out)."""

    weights: list[Tensor]
    beta: Tensor
    eta: Tensor

    @property
    def all(self) -> list[Tensor]:
        """In the order in which a `MetaGradient` returns their gradients."""
        return [*self.weights, self.beta, self.eta]


def available() -> list[str]:
    """Names of the peers that can be imported here."""
    names = [name for name, package in _PACKAGE_NEEDED.items() if _imports(package)]
    return [*names, _CUDA_GRAPH] if torch.cuda.is_available() else names


def prepare(name: str, problem: Problem, device: str, tf32: bool = False) -> Peer:
    """Move the problem to `device` ("cpu" or "cuda") once; `tf32` is a setting of the whole process."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    meta_gradient = _MAKERS[name](problem, device)

    def run() -> None:
        meta_gradient()
        if device == "cuda":
            torch.cuda.synchronize()

    def result() -> Result:
        loss, gradients = meta_gradient()
        arrays = [gradient.detach().cpu().numpy() for gradient in gradients]
        names = [*problem.weights, "beta", "eta"]
        return loss.item(), {key: _kernel_to_numpy(array) for key, array in zip(names, arrays, strict=True)}

    return Peer(run, result)


def _imports(package: str) -> bool:
    try:
        importlib.import_module(package)
    except Exception:  # an old package can fail in any way at all on a new torch
        return False
    return True


def _kernel_to_numpy(array: np.ndarray) -> np.ndarray:
    # A copy, because the next run may write over the memory this array shares.
    return np.array(array.transpose(2, 3, 1, 0) if array.ndim == 4 else array, order="C")


def _kernel_to_torch(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(3, 2, 0, 1)) if array.ndim == 4 else array


def _images(problem: Problem, array: np.ndarray, device: str) -> Tensor:
    grey = problem.network.kind == "pose"
    return torch.from_numpy(np.ascontiguousarray(array if grey else np.moveaxis(array, -1, -3))).to(device)


def _labels(array: np.ndarray, device: str) -> Tensor:
    return torch.from_numpy(array.astype(np.int64)).to(device)


def _meta_parameters(problem: Problem, device: str) -> MetaParameters:
    weights = [torch.tensor(_kernel_to_torch(array), device=device) for array in problem.weights.values()]
    beta, eta = (torch.tensor(value, dtype=weights[0].dtype, device=device) for value in (problem.beta, problem.eta))
    parameters = MetaParameters(weights, beta, eta)
    for leaf in parameters.all:
        leaf.requires_grad_()
    return parameters


def _logits(kind: str, weights: Sequence[Tensor], images: Tensor) -> Tensor:
    *layers, (head, head_bias) = zip(weights[::2], weights[1::2], strict=True)
    if kind == "siamese":  # the images of all pairs as one batch
        hidden = images.flatten(0, 1)
        for place, (kernel, bias) in enumerate(layers):
            hidden = F.leaky_relu(F.conv2d(hidden, kernel, bias, padding=1), SLOPE)
            hidden = F.max_pool2d(hidden, 2) if place % 2 else hidden
    elif kind == "mlp":
        hidden = images.permute(0, 2, 3, 1).flatten(1)
        for weight, bias in layers:
            hidden = F.leaky_relu(torch.addmm(bias, hidden, weight), SLOPE)
        return torch.addmm(head_bias, hidden, head)
    else:
        hidden = F.avg_pool2d(images[:, None], 2) if kind == "pose" else images
        for kernel, bias in layers:
            hidden = F.leaky_relu(F.conv2d(hidden, kernel, bias, stride=2, padding=1), SLOPE)
    # The rows of the head count height, width, channel.
    return torch.addmm(head_bias, hidden.permute(0, 2, 3, 1).reshape(images.shape[0], -1), head)


def _step_size(beta: Tensor, eta: Tensor, shots: Tensor | float) -> Tensor:
    return beta * (1 - 1 / (1 + eta * shots))


def _clip_factor(gradients: Sequence[Tensor], clip: float) -> Tensor:
    together = torch.cat([gradient.flatten() for gradient in gradients])  # three kernels for the norm, not twenty
    # Clamped before the root, so that neither the factor nor its gradient is infinite where the norm is zero.
    return clip / together.square().sum().clamp(min=clip**2).sqrt()


# --- a loop over tasks -----------------------------------------------------------------------------------------------


def _loop_layout(tensor: Tensor, device: str) -> Tensor:
    # Channels last took a sixth less time on the CPU and a fifth more on an H200 in full precision.
    last = device == "cpu" and tensor.ndim == 4
    return tensor.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def _loop_parameters(problem: Problem, device: str) -> MetaParameters:
    parameters = _meta_parameters(problem, device)
    weights = [_loop_layout(weight.detach(), device).requires_grad_() for weight in parameters.weights]
    return MetaParameters(weights, parameters.beta, parameters.eta)


def _loop_over_tasks(
    problem: Problem, device: str, parameters: MetaParameters, adapted_loss: Callable[..., Tensor]
) -> MetaGradient:
    """Backward task by task: one task's graph is alive at a time, and its memory is reused by the next.

    `adapted_loss` takes images and labels to adapt on and to validate on, and the step size (None: do not adapt).
    """
    train_x, val_x = _images(problem, problem.train_x, device), _images(problem, problem.val_x, device)
    train_y, val_y = _labels(problem.train_y, device), _labels(problem.val_y, device)
    shots = problem.shots.tolist()
    tasks = [
        (_loop_layout(train_x[t, :k], device), train_y[t, :k], _loop_layout(val_x[t], device), val_y[t])
        for t, k in enumerate(shots)
    ]
    for leaf in parameters.all:
        leaf.grad = torch.zeros_like(leaf)
    gradients = [leaf.grad for leaf in parameters.all if leaf.grad is not None]

    def meta_gradient() -> tuple[Tensor, Sequence[Tensor]]:
        torch._foreach_zero_(gradients)
        total = torch.zeros((), device=device, dtype=train_x.dtype)
        for task, held in zip(tasks, shots, strict=True):
            alpha = _step_size(parameters.beta, parameters.eta, held) if held else None
            loss = adapted_loss(*task, alpha) / problem.num_tasks
            torch.autograd.backward(loss)
            total += loss.detach()
        return total, gradients

    return meta_gradient


def _functional_loop(problem: Problem, device: str, adapt: Adapt) -> MetaGradient:
    parameters = _loop_parameters(problem, device)

    def adapted_loss(images: Tensor, labels: Tensor, val_x: Tensor, val_y: Tensor, alpha: Tensor | None) -> Tensor:
        weights = parameters.weights if alpha is None else adapt(parameters.weights, images, labels, alpha)
        return F.cross_entropy(_logits(problem.network.kind, weights, val_x), val_y)

    return _loop_over_tasks(problem, device, parameters, adapted_loss)


def _torch_loop(problem: Problem, device: str) -> MetaGradient:
    def adapt(weights: list[Tensor], images: Tensor, labels: Tensor, alpha: Tensor) -> list[Tensor]:
        for _ in range(problem.inner_steps):
            loss = F.cross_entropy(_logits(problem.network.kind, weights, images), labels)
            gradients = torch.autograd.grad(loss, weights, create_graph=True)
            step = alpha * _clip_factor(gradients, problem.clip)
            weights = [weight - step * gradient for weight, gradient in zip(weights, gradients, strict=True)]
        return weights

    return _functional_loop(problem, device, adapt)


def _torchopt(problem: Problem, device: str) -> MetaGradient:
    torchopt: Any = importlib.import_module("torchopt")
    # TorchOpt checks `lr >= 0` on the host, a wait for the device per task if it were the tensor alpha, and its own
    # clipping is not differentiated; so both scale the gradient and the learning rate is one.
    optimiser = torchopt.sgd(lr=1.0, moment_requires_grad=True)

    def adapt(weights: list[Tensor], images: Tensor, labels: Tensor, alpha: Tensor) -> list[Tensor]:
        state = optimiser.init(weights)
        for _ in range(problem.inner_steps):
            loss = F.cross_entropy(_logits(problem.network.kind, weights, images), labels)
            gradients = torch.autograd.grad(loss, weights, create_graph=True)
            step = alpha * _clip_factor(gradients, problem.clip)
            updates, state = optimiser.update([step * gradient for gradient in gradients], state, inplace=False)
            weights = torchopt.apply_updates(weights, updates, inplace=False)
        return weights

    return _functional_loop(problem, device, adapt)


class _Network(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """The network as a module, which is what `higher` patches."""

    def __init__(self, kind: str, weights: Sequence[Tensor]) -> None:
        super().__init__()
        self.kind = kind
        for index, weight in enumerate(weights):
            self.register_parameter(f"weight{index}", torch.nn.Parameter(weight.detach()))
        self.count = len(weights)

    def forward(self, images: Tensor) -> Tensor:
        return _logits(self.kind, [getattr(self, f"weight{index}") for index in range(self.count)], images)


def _higher(problem: Problem, device: str) -> MetaGradient:
    higher: Any = importlib.import_module("higher")
    leaves = _loop_parameters(problem, device)
    network = _Network(problem.network.kind, leaves.weights)
    parameters = MetaParameters(list(network.parameters()), leaves.beta, leaves.eta)
    optimiser = torch.optim.SGD(network.parameters(), lr=1.0)

    def clipped(gradients: Sequence[Tensor]) -> list[Tensor]:
        factor = _clip_factor(gradients, problem.clip)
        return [factor * gradient for gradient in gradients]

    def adapted_loss(images: Tensor, labels: Tensor, val_x: Tensor, val_y: Tensor, alpha: Tensor | None) -> Tensor:
        if alpha is None:
            return F.cross_entropy(network(val_x), val_y)
        override = {"lr": [alpha]}
        with higher.innerloop_ctx(network, optimiser, copy_initial_weights=False, override=override) as (fast, inner):
            for _ in range(problem.inner_steps):
                inner.step(F.cross_entropy(fast(images), labels), grad_callback=clipped)
            return F.cross_entropy(fast(val_x), val_y)

    return _loop_over_tasks(problem, device, parameters, adapted_loss)


# --- vmap over tasks -------------------------------------------------------------------------------------------------


def _vmap(problem: Problem, device: str) -> MetaGradient:
    parameters = _meta_parameters(problem, device)
    train_x, val_x = _images(problem, problem.train_x, device), _images(problem, problem.val_x, device)
    train_y, val_y = _labels(problem.train_y, device), _labels(problem.val_y, device)
    shots = torch.tensor(problem.shots, dtype=train_x.dtype, device=device)
    present = torch.arange(train_x.shape[1], device=device) < shots[:, None]
    shares = present / shots.clamp(min=1)[:, None]  # of each shot in the mean; a row of zeros where there are none

    def train_loss(weights: Sequence[Tensor], images: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        return (F.cross_entropy(_logits(problem.network.kind, weights, images), labels, reduction="none") * share).sum()

    inner_gradient = torch.func.grad(train_loss)

    def task_loss(
        weights: tuple[Tensor, ...], alpha: Tensor, x: Tensor, y: Tensor, share: Tensor, vx: Tensor, vy: Tensor
    ) -> Tensor:
        for _ in range(problem.inner_steps):
            gradients = inner_gradient(weights, x, y, share)
            step = alpha * _clip_factor(gradients, problem.clip)
            weights = tuple(weight - step * gradient for weight, gradient in zip(weights, gradients, strict=True))
        return F.cross_entropy(_logits(problem.network.kind, weights, vx), vy)

    over_tasks = torch.func.vmap(task_loss, in_dims=(None, 0, 0, 0, 0, 0, 0))

    def meta_gradient() -> tuple[Tensor, Sequence[Tensor]]:
        alpha = _step_size(parameters.beta, parameters.eta, shots)
        loss = over_tasks(tuple(parameters.weights), alpha, train_x, train_y, shares, val_x, val_y).mean()
        return loss.detach(), torch.autograd.grad(loss, parameters.all)

    return meta_gradient


def _vmap_cuda_graph(problem: Problem, device: str) -> MetaGradient:
    if device != "cuda":
        raise ValueError(f"a CUDA graph needs the device cuda, not {device}")
    meta_gradient = _vmap(problem, device)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call, unused-ignore]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # cuDNN and cuBLAS choose algorithms and allocate on first use, which a capture may not
            meta_gradient()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = meta_gradient()

    def replay() -> tuple[Tensor, Sequence[Tensor]]:
        graph.replay()
        return captured

    return replay


_MAKERS: dict[str, Callable[[Problem, str], MetaGradient]] = {
    "torch loop": _torch_loop,
    "torch.func vmap": _vmap,
    "higher": _higher,
    "torchopt": _torchopt,
    _CUDA_GRAPH: _vmap_cuda_graph,
}
