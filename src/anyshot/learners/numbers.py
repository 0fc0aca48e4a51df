"""The numbers of a method, without importing JAX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from anyshot.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """How a method learns; the defaults are the paper's for Rainbow MNIST (appendix E).

    Attributes:
        inner_steps: N_grad, gradient steps of an adaptation.
        inner_rate: the inner step size, or where a learned one (beta) starts.
        inner_clip: largest norm of the inner gradient; None: no limit.
        second_order: whether the meta-gradient sees through the inner gradient.
        eta: where the learned scaling factor starts.
        meta_rate: Adam's step size.
        meta_clip: largest norm of the (meta-)gradient.
        kl_coefficient: of meta-regularisation, times the KL summed over all weights; 0: point weights.
        embedding: size of a prototype (ProtoNet).
        memory: size of the features, the label's embedding and the summary (MANN).
        tasks: how the tasks of a meta-batch are computed: together, in turn, or as suits the device.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    inner_steps: int = 5
    inner_rate: float = 0.1
    inner_clip: float | None = 10.0
    second_order: bool = True
    eta: float = 1.0
    meta_rate: float = 1e-4
    meta_clip: float = 10.0
    kl_coefficient: float = 0.0
    embedding: int = 64
    memory: int = 256
    tasks: Literal["auto", "together", "in turn"] = "auto"

    def __post_init__(self) -> None:
        for name in ("inner_rate", "inner_clip", "eta", "meta_rate", "meta_clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"{name} must be a positive, finite number, got {value}")
        for name in ("inner_steps", "embedding", "memory"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.kl_coefficient < math.inf:
            raise InputError(f"kl_coefficient must be a finite number of at least 0, got {self.kl_coefficient}")
