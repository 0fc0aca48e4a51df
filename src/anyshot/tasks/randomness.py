"""Random numbers that are the same on every machine, with every version of NumPy, for building task sets.

NumPy promises the raw output of its bit generators for ever, but not what `Generator` makes of it.
"""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import Float, Int


def raw(count: int, seed: int, *purpose: str | int) -> np.ndarray:
    """`count` random 64-bit words; each purpose (words that say what they are for) has a stream of its own."""
    digest = hashlib.sha256("/".join(map(str, purpose)).encode()).digest()
    return np.random.PCG64(np.random.SeedSequence([seed, *digest])).random_raw(count)


def uniforms(count: int, seed: int, *purpose: str | int) -> Float[np.ndarray, " count"]:
    """Numbers uniform in [0, 1); the first ones stay the same when more are asked for.

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
