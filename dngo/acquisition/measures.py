"""The worth of a point by the model's prediction: one function for each measure (Snoek et al. 2012, 2.2).

Each takes the incumbent, and the mean and the deviation of a normal distribution; arguments
broadcast. Higher is better.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from dngo.types import Array

Measure = Callable[[Array, Array, Array], Array]


def expected_improvement(best: Array, mean: Array, deviation: Array) -> Array:
    """Equation (3), for minimisation; arguments broadcast. A zero deviation is allowed."""
    improvement = best - mean
    gamma = improvement / np.maximum(deviation, 1e-150)
    density = np.exp(-0.5 * np.minimum(gamma * gamma, 1500.0)) * 0.3989422804014327
    return np.maximum(improvement * ndtr(gamma) + deviation * density, 0.0)


def probability_of_improvement(best: Array, mean: Array, deviation: Array) -> Array:
    """Equation (1) of Snoek et al. 2012, for minimisation; a zero deviation is allowed."""
    return ndtr((best - mean) / np.maximum(deviation, 1e-150))
