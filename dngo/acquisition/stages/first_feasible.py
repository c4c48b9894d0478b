"""The first stage, before any outcome is ok: it looks for a first feasible point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dngo.acquisition.candidates import Candidates, around
from dngo.acquisition.picks import Pick
from dngo.acquisition.shortlist import best_of
from dngo.acquisition.spacing import distances, gaps
from dngo.acquisition.state import BatchState
from dngo.rules import current


class FirstFeasible:
    """A point's value: its probability of being feasible, times its distance from all points tried
    so far.

    As long as the classifiers know nothing, this fills the space evenly. If a number is far from
    its bound, a point only has to come nearer than the least infeasible point. The tiny odds of
    reaching the bound itself would outweigh everything that the other constraints have taught.
    """

    name = "first_feasible"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if state.has_outcome:
            return
        pool = _candidates(state)
        if not len(pool):
            return
        space, history = state.space, state.history
        # The logarithm: the probabilities are zero in floating point if nothing comes near a
        # threshold.
        log_weight = state.model.log_progress(pool.x) + np.log(pool.rate)
        open_ = state.spacing.among(pool.v)
        tried = space.place(np.concatenate([history.v, history.pending]), apart=1.0)
        gap = np.minimum(gaps(open_.u, tried), 1.0)
        for _ in range(min(number, len(pool))):
            log_gap = np.log(np.maximum(gap, 1e-300))
            scores = np.where(open_.free, log_weight + log_gap, -np.inf)
            best = int(np.argmax(scores))
            value, scores[best] = float(np.exp(scores[best])), -np.inf
            open_.take(best)
            other = float(np.exp(scores.max())) if len(scores) > 1 else -np.inf
            yield Pick(pool.v[best], value, f"candidate:{pool.source[best]}", other)
            gap = np.minimum(gap, distances(open_.u, open_.u[[best]])[:, 0])


def _candidates(state: BatchState) -> Candidates:
    pool, space = state.candidates, state.space
    if state.model.heeds_constraints and len(pool):
        parents = pool.v[best_of(state.model.log_progress(pool.x), current().improvement.parents)]
        number, rng = current().improvement.children, state.streams["refinements"]
        pool.add(around(space, parents, number, rng), "local")
        pool.judge()
    return pool
