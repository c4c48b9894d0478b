"""Stationary kernels as functions of squared scaled distances: of every process, exact, sparse or local."""

from __future__ import annotations

import numpy as np

from dngo.types import Array


def squared_distances(a: Array, b: Array) -> Array:
    """Between scaled points a (..., n, d) and b (..., m, d): (..., n, m)."""
    squares = a @ np.swapaxes(b, -1, -2)
    squares *= -2.0
    squares += np.sum(a * a, axis=-1)[..., :, None]
    squares += np.sum(b * b, axis=-1)[..., None, :]
    return np.maximum(squares, 0.0, out=squares)


def by_lengthscale(scaled: Array, weight: Array) -> Array:
    """Squared distances in each input, in a weighted sum over pairs: (n, d), (n, n) -> (d,).

    weight: symmetric. With the derivative of something by the covariance, times the slope, that of it
    by the logarithm of each input's lengthscale.
    """
    own = np.sum(scaled * scaled * weight.sum(axis=1)[:, None], axis=0)
    return 2.0 * (own - np.sum(scaled * (weight @ scaled), axis=0))


def correlation(kernel: str, squares: Array) -> tuple[Array, Array]:
    """At squared scaled distances, elementwise: the correlation, 1 at 0, and its slope, -2 times the
    derivative by the squared distance, which shares the exponential."""
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
