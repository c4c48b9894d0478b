"""Greedy picks: each has the highest Monte Carlo acquisition, given everything pending.

What that is, expected improvement or another measure, the settings say (`Greedy.measure`); it is
weighted by the probability of holding all constraints, (11) and (12), and by the expected inverse
cost (Snoek et al. 2012, section 3.2). Each pick is pending for those after it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dngo.acquisition.ascent import climb
from dngo.acquisition.candidates import Candidates, around
from dngo.acquisition.feasibility import heed, likely_enough
from dngo.acquisition.picks import Pick
from dngo.acquisition.settings import Greedy
from dngo.acquisition.shortlist import Shortlist, best_of
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.types import Array, Rows

LAST = -1e300  # a score below all others


class Improvement:
    """Picks of the highest acquisition, until it has vanished."""

    name = "improvement"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if not state.has_outcome or not len(state.candidates):
            return
        settings, count = state.settings, min(number, current().improvement.most_picks)
        scores = _scores(state)
        size = max(settings.shortlist, current().improvement.listed_for_each * count)
        rows = _best(state.candidates, scores, size, settings)
        pool, fantasies = state.candidates, state.fantasies
        open_ = state.spacing.among(pool.v[rows])
        shortlist = state.shortlist = Shortlist(fantasies, pool, rows, scores[rows], open_)
        some = shortlist.features[:, : current().improvement.measured_on]
        vanished = settings.vanished_below(float(fantasies.deviation(some).max()))
        for _ in range(min(count, len(rows))):
            allowed = shortlist.open.allowed
            if not allowed.any():
                return
            least = settings.min_feasibility
            allowed = likely_enough(state, allowed, shortlist.feasibility, least)
            known = fantasies.pending > 0 or settings.explores
            if known and shortlist.highest(allowed) < vanished:
                return
            yield shortlist.pick(allowed)


def _scores(state: BatchState) -> Array:
    """The acquisition at every candidate, those included that are added near the best: (n,)."""
    search = current().improvement
    settings, space, pool = state.settings, state.space, state.candidates

    def value(v: Array) -> Array:
        x = space.encode(v)
        return state.fantasies.at(x, state.model.feasibility(x) * state.rate(v, x))

    scores = state.fantasies.at(pool.x, pool.feasibility * pool.rate)
    for round_ in range(settings.refinements + 1):
        gated = _gate(scores, pool.feasibility, settings)
        if round_ < settings.refinements:
            parents = pool.v[best_of(gated, search.parents)]
            step = search.first_step * search.shrinking**round_
            rng = state.streams["refinements"]
            pool.add(around(space, parents, search.children, rng, largest=step), "refined")
        else:
            pool.add(climb(space, pool.v, gated, settings.ascents, value), "ascent")
        rows = pool.judge()
        weight = pool.feasibility[rows] * pool.rate[rows]
        scores = np.concatenate([scores, state.fantasies.at(pool.x[rows], weight)])
    return scores


def _gate(scores: Array, feasibility: Array, settings: Greedy) -> Array:
    """Scores with the candidates that `min_feasibility` rules out last."""
    heeded = heed(np.ones(len(scores), dtype=bool), feasibility, settings.min_feasibility)
    return np.where(heeded, scores, LAST)


def _best(pool: Candidates, scores: Array, size: int, settings: Greedy) -> Rows:
    """The candidates that the picks of a batch choose among, at most `size`.

    A half are the best of all that `min_feasibility` allows. A quarter are the best of the uniform
    ones of those: without them a batch that has used up one hill finds nothing else on its list.
    The last quarter are the best of all, for the picks on the boundary.
    """
    gated = _gate(scores, pool.feasibility, settings)
    everywhere = np.array([source == "uniform" for source in pool.source])
    parts = [
        best_of(gated, size // 2),
        best_of(np.where(everywhere, gated, 2.0 * LAST), size // 4),
        best_of(scores, size // 4),
    ]
    return np.unique(np.concatenate(parts))
