"""What a point is worth, by what is believed of it: one function a measure (Snoek et al. 2012, 2.2).

Each takes the incumbent and a normal's mean and deviation, which broadcast, and gives what is worth
more the higher it is.
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


def lower_bound_improvement(kappa: float) -> Measure:
    """By how much the lower confidence bound, (3) of Snoek et al. 2012, is under the incumbent.

    It ranks as the bound does, over fantasies too: the incumbent is the same number for every
    candidate. Negative where even the bound promises nothing.
    """

    def measure(best: Array, mean: Array, deviation: Array) -> Array:
        return best - (mean - kappa * deviation)

    return measure
