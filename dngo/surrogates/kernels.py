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


def correlation(kernel: str, squares: Array) -> Array:
    """Correlation at squared scaled distances, elementwise; 1 at 0."""
    if kernel == "squared_exponential":
        return np.exp(-0.5 * squares)
    if kernel == "matern32":
        r = np.sqrt(3.0 * squares)
        return (1.0 + r) * np.exp(-r)
    return matern52(squares)[0]


def slope(kernel: str, squares: Array) -> Array:
    """-2 times the derivative of `correlation` by the squared distance."""
    if kernel == "squared_exponential":
        return np.exp(-0.5 * squares)
    if kernel == "matern32":
        return 3.0 * np.exp(-np.sqrt(3.0 * squares))
    return matern52(squares)[1]


def matern52(squares: Array) -> tuple[Array, Array]:
    """`correlation` and `slope` of the Matern 5/2 kernel, which share their exponential."""
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
