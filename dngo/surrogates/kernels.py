"""Stationary kernels as functions of squared scaled distances, for exact, sparse and local processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dngo.types import Array

# Numbers handled at once. More would not fit a processor's cache, and allocating their memory took
# three times as long as the arithmetic.
BLOCK = 16_384
# Each kernel, and its factor on squared distances.
KERNELS = {"matern52": 5.0, "matern32": 3.0, "squared_exponential": 0.5}


@dataclass(frozen=True)
class Covariance:
    """Which kernel a process has, and whether each input has a lengthscale of its own."""

    kernel: str = "matern52"
    ard: bool = True


def squared_distances(a: Array, b: Array) -> Array:
    """Between scaled points a (..., n, d) and b (..., m, d): (..., n, m)."""
    left, right = _factors(a, b)
    squares = left @ right
    return np.maximum(squares, 0.0, out=squares)


def _factors(
    a: Array, b: Array, factor: float = 1.0, further: Array | float = 0.0
) -> tuple[Array, Array]:
    """Two matrices whose product is the squared distances times a factor, apart from rounding.

    further: (..., n, 1) a squared distance that is added between each of a and all of b."""
    own, others = (np.sum(z * z, axis=-1, keepdims=True) for z in (a, b))
    own = own + further
    left = np.concatenate([-2.0 * a, own, np.ones_like(own)], axis=-1)
    right = np.concatenate([b, np.ones_like(others), others], axis=-1)
    return factor * left, np.swapaxes(right, -1, -2)


def by_lengthscale(scaled: Array, weight: Array) -> Array:
    """Squared distances in each input, in a weighted sum over pairs: (n, d), (n, n) -> (d,).

    weight: symmetric. Let it be the derivative of a function by the covariance, times the slope.
    Then the result is the function's derivative by the logarithm of each input's lengthscale.
    """
    own = np.sum(scaled * scaled * weight.sum(axis=1)[:, None], axis=0)
    return 2.0 * (own - np.sum(scaled * (weight @ scaled), axis=0))


def _factor(kernel: str) -> float:
    if kernel not in KERNELS:
        raise ValueError(f"there is no kernel {kernel!r}; they are {', '.join(KERNELS)}")
    return KERNELS[kernel]


def correlation(kernel: str, a: Array, b: Array, further: Array | float = 0.0) -> Array:
    """Between scaled points a (..., n, d) and b (..., m, d): (..., n, m), 1 at a distance of 0.

    further: (..., n, 1) squared distance of each of a from all of b in inputs that were left out.

    Raises ValueError for a kernel that is not in `KERNELS`.
    """
    found = np.empty((*a.shape[:-1], b.shape[-2]))
    left, right = _factors(a, b, _factor(kernel), further)
    rows = max(1, BLOCK * a.shape[-2] // max(found.size, 1))
    for start in range(0, a.shape[-2], rows):
        some = (..., slice(start, start + rows), slice(None))
        squares = left[some] @ right
        np.maximum(squares, 0.0, out=squares)
        if kernel == "squared_exponential":
            np.exp(-squares, out=found[some])
            continue
        s = np.sqrt(squares)
        if kernel == "matern32":
            factor = s + 1.0
        else:
            factor = squares
            factor /= 3.0
            factor += s
            factor += 1.0
        np.negative(s, out=s)
        np.exp(s, out=s)
        np.multiply(factor, s, out=found[some])
    return found


def with_slope(kernel: str, squares: Array) -> tuple[Array, Array]:
    """The correlation at squared scaled distances, elementwise (1 at 0), and its slope: -2 times
    the derivative by the squared distance. Raises as `correlation` does."""
    _factor(kernel)
    if kernel == "squared_exponential":
        decay = np.exp(-0.5 * squares)
        return decay, decay
    if kernel == "matern32":
        s = np.sqrt(3.0 * squares)
        decay = np.exp(-s)
        return (1.0 + s) * decay, 3.0 * decay
    s = np.sqrt(5.0 * squares)
    decay = np.exp(-s)
    linear = s + 1.0
    linear *= decay
    s *= s
    s *= decay
    s /= 3.0
    s += linear
    linear *= 5.0 / 3.0
    return s, linear
