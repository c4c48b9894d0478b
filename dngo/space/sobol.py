"""Scrambled Sobol sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.stats import qmc


def sobol(k: int, rng: np.random.Generator) -> qmc.Sobol:
    """A sequence of points of the unit cube in k dimensions, scrambled by a random stream."""
    # The import takes 0.4 CPU seconds: a report and the end of a run do without it.
    from scipy.stats import qmc

    return qmc.Sobol(k, scramble=True, rng=rng)
