"""Levels of categories that were never tried, once little else is promised.

If the levels that were tried make no difference, a model learns that no level does, and would never
try the others. But levels are exchangeable: with T of them tried, the next one is the best so far
with a probability of 1 / (T + 1). So an untried level promises that share of the outcomes'
deviation. Once this is more than the model promises and the last picks gained, most picks try such
levels at the best point.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dngo.acquisition.allocation import gained, of_share
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.types import Array


class Untried:
    """One pick for each untried level: the best point with that level."""

    name = "untried"
    draws_numbers = False

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        space, history = state.space, state.history
        count = of_share(state.turn, number, current().candidates.untried)
        if not count or not state.has_outcome or space.is_ordered.all():
            return
        known = np.concatenate([history.v, history.pending])
        untried = [_untried(known[:, j], c.levels or 0) for j, c in enumerate(space.columns)]
        columns = [j for j in np.flatnonzero(~space.is_ordered) if len(untried[j])]
        if not columns:
            return
        promised = max(_promised(state), gained(state))
        best = history.v[[int(np.nanargmin(history.y))]]
        (rng,) = state.rng.spawn(1)  # `_promised` has spawned those of the other stages
        for j in columns:
            tried = (space.columns[j].levels or 0) - len(untried[j])
            for level in rng.permutation(untried[j]):
                v = best.copy()
                v[0, j] = level
                v = space.round(v)
                chance = 1.0 / (tried + 1)
                if count == 0 or chance <= promised:
                    break
                if v[0, j] == level and space.holds(v)[0] and state.spacing.free(v)[0]:
                    state.make_pending(v)
                    yield Pick(v[0], chance, "untried")
                    tried, count = tried + 1, count - 1


def _untried(values: Array, levels: int) -> Array:
    """The levels of a category that none of the values (n,) has."""
    return np.setdiff1d(np.arange(levels), values[np.isfinite(values)])


def _promised(state: BatchState) -> float:
    """The highest acquisition among the candidates, in deviations of the targets."""
    pool = state.candidates
    if not len(pool):
        return 0.0
    return float(state.fantasies.at(pool.x, pool.feasibility * pool.rate).max())
