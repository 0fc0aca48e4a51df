"""Random numbers for building task sets, the same on every machine and with every version of NumPy.

NumPy guarantees the raw output of its bit generators, but not what `Generator` computes from it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from anyshot.errors import InputError


def check_seed(name: str, seed: Any) -> None:
    """Raise `InputError` unless the seed fits into 32 bits, as the keys of JAX require."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"{name} must be a whole number of at least 0 and below 2**32, got {seed!r}")


def raw(count: int, seed: int, *purpose: str | int) -> np.ndarray:
    """`count` random 64-bit words. Each purpose, given as words or numbers, has its own stream."""
    digest = hashlib.sha256("/".join(map(str, purpose)).encode()).digest()
    return np.random.PCG64(np.random.SeedSequence([seed, *digest])).random_raw(count)


def uniforms(count: int, seed: int, *purpose: str | int) -> Float[np.ndarray, " count"]:
    """Numbers uniform in [0, 1). A larger `count` adds numbers and leaves the first ones as they are.

    >>> print(uniforms(2, 0, "example"), uniforms(3, 0, "example"))
    [0.24359411 0.47203037] [0.24359411 0.47203037 0.8724334 ]
    """
    return (raw(count, seed, *purpose) >> np.uint64(11)) * 2.0**-53


def permutation(count: int, seed: int, *purpose: str | int) -> Int[np.ndarray, " count"]:
    """The numbers below `count` in a random order.

    >>> print(permutation(5, 0, "example"))
    [4 0 1 3 2]
    """
    return np.argsort(raw(count, seed, *purpose), kind="stable")
