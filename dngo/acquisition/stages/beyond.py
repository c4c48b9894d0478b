"""Beyond the edge of what is known to be feasible, once little more is to be gained inside it.

Picks that are likely to hold all constraints never cross to another feasible part. So a share of
the batch looks for one, if three things hold: the last evaluations gained little, likely points
promise little, and others promise far more although they are unlikely.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dngo.acquisition.allocation import beyond, gained
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.feasibility import heed
from dngo.acquisition.measures import probability_of_improvement
from dngo.acquisition.picks import Pick
from dngo.acquisition.spacing import distances, gaps
from dngo.acquisition.state import BatchState
from dngo.rules import current


class Beyond:
    """The likeliest feasible improvement that is far from all that has been tried.

    Like a first feasible point (`FirstFeasible`), a candidate counts by the unexplored volume around it.
    The size of the improvement does not count. It would lead every pick back to the most promising
    corner, where earlier ones failed.
    """

    name = "beyond"
    draws_numbers = False

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        count = beyond(state, number)
        if count == 0 or not self._promises_more(state):
            return
        pool = state.candidates
        least = (
            float(np.nanmin(state.model.scale.to_model(state.history.y)))
            - current().regions.improved
        )
        better = Fantasies(
            state.model.objective,
            least,
            1,
            # as long as nothing is pending, no random number is drawn from it
            state.streams["fantasies"],
            noisy=False,
            measure=probability_of_improvement,
        )
        log_chance = np.log(np.maximum(better.at(pool.x, pool.feasibility * pool.rate), 1e-300))
        open_ = state.spacing.among(pool.v)
        known = np.concatenate([state.history.v, state.history.pending])
        tried = state.space.place(known, apart=1.0)
        gap = gaps(open_.u, tried)
        for _ in range(count):
            score = log_chance + state.space.k * np.log(np.maximum(gap, 1e-300))
            best = int(np.argmax(np.where(open_.allowed, score, -np.inf)))
            if not open_.allowed[best]:
                return
            open_.take(best)
            gap = np.minimum(gap, distances(open_.u, open_.u[[best]])[:, 0])
            # The acquisition is recorded, although it did not decide this pick.
            (value,) = state.make_pending(pool.v[[best]])
            yield Pick(pool.v[best], value, f"beyond:{pool.source[best]}")

    def _promises_more(self, state: BatchState) -> bool:
        """Whether points beyond the edge promise far more than points inside."""
        shared = state.shared
        if not (state.has_outcome and state.model.heeds_constraints and shared.boundary_every):
            return False
        pool = state.candidates
        if not len(pool):
            return False
        value = state.fantasies.at(pool.x, pool.feasibility * pool.rate)
        everywhere = np.ones(len(value), dtype=bool)
        inside = value[heed(everywhere, pool.feasibility, shared.min_feasibility)].max()
        highest = float(value.max())
        little = current().beyond.little * highest
        return highest > current().beyond.worth and max(inside, gained(state)) < little
