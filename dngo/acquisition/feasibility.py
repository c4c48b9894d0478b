"""How likely to hold all constraints a pick must be.

Weighting the improvement by this probability is not enough. If the optimum lies on the edge of the
feasible region, the improvement promised beyond the edge outweighs any probability.
"""

from __future__ import annotations

import numpy as np

from dngo.acquisition.keys import Keys
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.types import Array, Mask

# Penalty where feasibility is too low, in deviations of the targets: above any drawn function.
OUT_OF_BOUNDS = 1e6


def heed(allowed: Mask, feasibility: Array, least: float) -> Mask:
    """Those of `allowed` (n,) whose feasibility (n,) is at least `least`; never empty.

    If none reaches it: the points that are nearly as likely as the likeliest one.
    """
    if not allowed.any():
        return allowed
    highest = float(feasibility[allowed].max())
    return allowed & (feasibility >= min(least, current().feasibility.nearly * highest))


def likely_enough(state: BatchState, allowed: Mask, feasibility: Array, least: float) -> Mask:
    """`heed` for the next pick. One pick in every `boundary_every` needs less."""
    if not state.model.heeds_constraints:
        return allowed
    return heed(allowed, feasibility, float(_on_turns(state, least, 1)[0]))


def least_of_draws(state: BatchState, number: int) -> Array:
    """The least feasibility of each of the next draws; it is lower for one in `boundary_every`:
    (number,)."""
    least = _on_turns(state, of_draws(state.shared), number)
    return np.where(state.model.heeds_constraints, least, 0.0)


def _on_turns(state: BatchState, least: float, number: int) -> Array:
    """What the next picks need: `least`, or a share of `min_feasibility` on the boundary's turns."""
    every, turns = state.shared.boundary_every, state.turn + np.arange(number)
    on_boundary = state.shared.min_feasibility * current().feasibility.on_boundary
    is_turn = turns % every == every - 1 if every > 0 else np.zeros(number, dtype=bool)
    return np.where(is_turn, on_boundary, least)


def penalty(feasibility: Array, least: float | Array) -> Array:
    """Added to a function to be minimised, in units of its targets; arguments broadcast.

    Where the feasibility is too low, this term lies above any drawn function, and grows with what
    is missing.
    """
    return np.where(feasibility < least, OUT_OF_BOUNDS * (1.0 + least - feasibility), 0.0)


def of_draws(shared: Keys) -> float:
    """The least feasibility of a pick that minimises a drawn function.

    A pick by improvement needs less, because feasibility is already a weight of the improvement.
    Minima lie on the boundary wherever the objective falls towards it. If a probability of one half
    were enough, half of the minima would lie on the wrong side.
    """
    return float(np.sqrt(shared.min_feasibility))
