"""The first stage, before any outcome is ok: looking for a first feasible point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dngo.acquisition.candidates import Candidates, around, uniform
from dngo.acquisition.picks import Pick
from dngo.acquisition.shortlist import best_of
from dngo.acquisition.spacing import distances
from dngo.acquisition.state import BatchState

BLOCK = 2048  # tried points compared at once: what is in memory is this times the candidates
# The likeliest candidates, and how many new ones near them: not measured.
PARENTS, CHILDREN = 16, 512


class FirstFeasible:
    """Likely feasible, and far from all that has been tried: their product is the value.

    With classifiers that know nothing yet that is a space-filling design.
    """

    name = "first_feasible"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if state.has_outcome:
            return
        pool = _candidates(state)
        if not len(pool):
            return
        space, history = state.space, state.history
        weight = pool.feasibility * state.model.inverse_cost(pool.x)
        open_ = state.spacing.among(pool.v)
        tried = space.unit(np.concatenate([history.v, history.pending]))
        gap = np.ones(len(pool))
        for rows in range(0, len(tried), BLOCK):
            gap = np.minimum(gap, distances(open_.u, tried[rows : rows + BLOCK]).min(axis=1))
        for _ in range(min(number, len(pool))):
            scores = np.where(open_.free, weight * gap, -np.inf)
            best = int(np.argmax(scores))
            value, scores[best] = float(scores[best]), -np.inf
            open_.take(best)
            yield Pick(pool.v[best], value, f"candidate:{pool.source[best]}", scores.max())
            gap = np.minimum(gap, distances(open_.u, open_.u[[best]])[:, 0])


def _candidates(state: BatchState) -> Candidates:
    space, streams = state.space, state.streams
    pool = Candidates(space, state.spacing.taken, state.model)
    many = uniform(space, state.settings.uniform_candidates, streams["candidates"])
    pool.add(many, "uniform")
    pool.judge()
    if state.model.heeds_constraints and len(pool):
        parents = pool.v[best_of(pool.feasibility, PARENTS)]
        pool.add(around(space, parents, CHILDREN, streams["refinements"]), "local")
        pool.judge()
    return pool
