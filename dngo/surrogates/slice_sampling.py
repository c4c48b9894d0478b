"""Univariate slice sampling with stepping out and shrinkage, one coordinate after another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dngo.types import Array

MAX_STEPS_OUT = 16  # most widths of a slice, since a slice may have no end. Not measured.


def slice_sample(
    log_density: Callable[[Array], float],
    start: Array,
    *,
    width: float,
    samples: int,
    burn_in: int,
    thin: int,
    rng: np.random.Generator,
) -> Array:
    """Markov chain samples (samples, p) from an unnormalised log density on R^p (Neal 2003).

    start: (p,) where the density is positive. width: first guess of a slice's width.
    burn_in and thin count sweeps over all p coordinates.
    """
    x = np.array(start, dtype=float)
    current = log_density(x)
    if not np.isfinite(current):
        raise ValueError("the chain must start where the density is positive")
    kept = np.empty((samples, len(x)))
    for sweep in range(burn_in + samples * thin):
        for i in range(len(x)):
            x, current = _update(log_density, x, current, i, width, rng)
        done = sweep + 1 - burn_in
        if done > 0 and done % thin == 0:
            kept[done // thin - 1] = x
    return kept


def _update(
    log_density: Callable[[Array], float],
    x: Array,
    current: float,
    i: int,
    width: float,
    rng: np.random.Generator,
) -> tuple[Array, float]:
    level = current - rng.exponential()

    def at(value: float) -> tuple[Array, float]:
        moved = x.copy()
        moved[i] = value
        return moved, log_density(moved)

    # The steps are split at random between both sides, so that the update is reversible.
    left = x[i] - width * rng.random()
    right = left + width
    steps_left = int(rng.integers(0, MAX_STEPS_OUT))
    steps_right = MAX_STEPS_OUT - 1 - steps_left
    while steps_left > 0 and at(left)[1] > level:
        left, steps_left = left - width, steps_left - 1
    while steps_right > 0 and at(right)[1] > level:
        right, steps_right = right + width, steps_right - 1
    while True:
        moved, density = at(left + (right - left) * rng.random())
        if density >= level:
            return moved, density
        if moved[i] < x[i]:
            left = moved[i]
        else:
            right = moved[i]
        if right - left <= 1e-12 * max(1.0, abs(x[i])):
            return x, current  # the slice is thinner than floating point resolves
