"""How likely to hold all constraints a pick must be.

Weighting improvement by that probability is not enough: near an optimum on the edge of the feasible
region the improvement promised beyond the edge outweighs any probability.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dngo.acquisition.state import BatchState, Shared
from dngo.rules import current
from dngo.types import Array

# Penalty, in deviations of the targets, where feasibility is too low: above any function drawn.
OUT_OF_BOUNDS = 1e6


def heed(allowed: NDArray[np.bool_], feasibility: Array, least: float) -> NDArray[np.bool_]:
    """Those of `allowed` (n,) whose feasibility (n,) is at least `least`; never none of them.

    Where none reaches it, those that come close to the likeliest.
    """
    if not allowed.any():
        return allowed
    highest = float(feasibility[allowed].max())
    return allowed & (feasibility >= min(least, current().feasibility.nearly * highest))


def likely_enough(
    state: BatchState, allowed: NDArray[np.bool_], feasibility: Array, least: float
) -> NDArray[np.bool_]:
    """`heed` for the pick whose turn it is: one in every `boundary_every` needs less."""
    if not state.model.heeds_constraints:
        return allowed
    every = state.shared.boundary_every
    if every > 0 and state.turn % every == every - 1:
        least = state.shared.min_feasibility * current().feasibility.on_boundary
    return heed(allowed, feasibility, least)


def least_of_draws(state: BatchState, number: int) -> Array:
    """What `of_draws` asks of each of the next picks, less of one in every `boundary_every`: (number,)."""
    least = np.full(number, of_draws(state.shared))
    every = state.shared.boundary_every
    if every > 0:
        turns = state.turn + np.arange(number)
        least[turns % every == every - 1] = (
            state.shared.min_feasibility * current().feasibility.on_boundary
        )
    return np.where(state.model.heeds_constraints, least, 0.0)


def penalty(feasibility: Array, least: float | Array) -> Array:
    """What is added to a function to be minimised, in units of its targets: arguments broadcast.

    Above any function drawn where feasibility is less than asked, and the more the less it is.
    """
    return np.where(feasibility < least, OUT_OF_BOUNDS * (1.0 + least - feasibility), 0.0)


def of_draws(shared: Shared) -> float:
    """The least feasibility of a pick that minimises a function drawn.

    More than of one by improvement, which is weighted by it: minima lie on the boundary wherever the
    objective falls towards it, and half of them on its wrong side if any probability over a half
    would do.
    """
    return float(np.sqrt(shared.min_feasibility))
