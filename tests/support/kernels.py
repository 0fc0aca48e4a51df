"""Gaussian kernels by scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF


def gaussian(x: np.ndarray) -> RBF:
    """The kernel exp(-d² / m), with m the mean squared distance of two datapoints, or 1 if all are the same."""
    distances = [np.sum((a - b) ** 2) for i, a in enumerate(x) for j, b in enumerate(x) if i != j]
    m = np.mean(distances) if distances else 0
    return RBF(length_scale=np.sqrt((m or 1) / 2), length_scale_bounds="fixed")


def centred(kernel: np.ndarray, own: np.ndarray) -> np.ndarray:
    """A kernel of inputs with datapoints less its means over datapoints, of which `own` is the kernel."""
    return kernel - kernel.mean(axis=1, keepdims=True) - own.mean(axis=0) + own.mean()
