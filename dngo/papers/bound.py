"""The lower confidence bound as a measure of a point's worth (Snoek et al. 2012, section 2.2)."""

from __future__ import annotations

from dngo.acquisition.measures import Measure
from dngo.types import Array


def lower_bound_improvement(kappa: float) -> Measure:
    """How far the lower confidence bound, (3) of Snoek et al. 2012, lies under the incumbent.

    It ranks like the bound, over fantasies as well: the incumbent is the same for every candidate.
    Negative where even the bound promises no gain.
    """

    def measure(best: Array, mean: Array, deviation: Array) -> Array:
        return best - (mean - kappa * deviation)

    return measure
