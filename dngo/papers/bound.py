"""The lower confidence bound as a measure of a point's worth (Snoek et al. 2012, section 2.2)."""

from __future__ import annotations

from dngo.acquisition.measures import Measure
from dngo.types import Array


def lower_bound_improvement(kappa: float) -> Measure:
    """How far the lower confidence bound, (3) of Snoek et al. 2012, lies under the incumbent.

    This ranks candidates like the bound itself, also with fantasies, because every candidate has
    the same incumbent. It is negative where even the bound promises no gain.
    """

    def measure(best: Array, mean: Array, deviation: Array) -> Array:
        return best - (mean - kappa * deviation)

    return measure
