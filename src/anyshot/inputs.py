"""Checks of what the numerical core is given. Each raises `InputError` with one sentence.

Shapes and dtypes are known even inside `jax.jit` and are always checked. Values (negative counts, labels out of range,
NaN) are checked where they are known, which is not the case inside a traced function.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from anyshot.errors import InputError


def is_known(array: Any) -> bool:
    """Whether the values of an array can be read now, that is, it is not a tracer."""
    return not isinstance(array, jax.core.Tracer)


def check_count(name: str, count: Any, maximum: int | None = None) -> None:
    """Refuse numbers of shots that are not integers from 0 to `maximum`."""
    dtype = np.asarray(count).dtype if is_known(count) else count.dtype
    if not jnp.issubdtype(dtype, jnp.integer):
        raise InputError(f"{name} must be a whole number of shots, got dtype {dtype}; convert it to int")
    if not is_known(count):
        return
    counts = np.asarray(count)
    if counts.size and counts.min() < 0:
        raise InputError(f"{name} must not be negative, got {int(counts.min())}; zero shots is 0")
    if maximum is not None and counts.size and counts.max() > maximum:
        raise InputError(
            f"{name} is {int(counts.max())} but only {maximum} examples are there; lower it or add examples"
        )


def check_positive(name: str, value: float) -> None:
    """Refuse anything but a finite number above zero."""
    if is_known(value) and not (_is_finite_number(value) and np.asarray(value) > 0):
        raise InputError(f"{name} must be a positive, finite number, got {value}")


def check_not_negative(name: str, value: float | Array) -> None:
    """Refuse anything but a finite number of at least zero."""
    if is_known(value) and not (_is_finite_number(value) and np.asarray(value) >= 0):
        raise InputError(f"{name} must be a finite number of at least 0, got {value}")


def _is_finite_number(value: Any) -> bool:
    number = np.asarray(value)
    real = jnp.issubdtype(number.dtype, jnp.floating) or jnp.issubdtype(number.dtype, jnp.integer)
    return number.ndim == 0 and real and bool(np.isfinite(number))


def check_numeric(name: str, array: Any) -> None:
    """Refuse arrays of objects, strings, dates or complex numbers, which networks cannot compute with."""
    dtype = array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype
    real = jnp.issubdtype(dtype, jnp.number) and not jnp.issubdtype(dtype, jnp.complexfloating)
    if not real and not jnp.issubdtype(dtype, jnp.bool_):
        raise InputError(f"{name} has dtype {dtype}; give an array of numbers (uint8 images, float or integer)")


def check_finite(name: str, array: Any) -> None:
    """Refuse NaN and infinity, where values are known."""
    if not is_known(array) or not jnp.issubdtype(array.dtype, jnp.inexact):
        return
    finite = np.isfinite(np.asarray(array))
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise InputError(f"{name} holds a non-finite value at index {where}; remove or replace NaN and infinity")


def check_labels(name: str, labels: Any, classes: int) -> None:
    """Refuse labels that are not integers from 0 to classes-1."""
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise InputError(f"{name} has dtype {labels.dtype}; cross entropy needs integer class labels 0..{classes - 1}")
    if not is_known(labels) or not labels.size:
        return
    low, high = int(np.asarray(labels).min()), int(np.asarray(labels).max())
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise InputError(
            f"{name} holds label {wrong}, but the model has outputs for 0..{classes - 1}; check the labels"
        )
