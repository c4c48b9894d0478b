"""Greedy picks: each has the highest Monte Carlo acquisition, given everything pending.

The settings name the measure: expected improvement or another (`Modelled.measure`). It is weighted by the
probability of holding all constraints, (11) and (12), and by the expected inverse cost (Snoek et al. 2012,
section 3.2). Each pick is pending for later ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dngo.acquisition.ascent import climb
from dngo.acquisition.candidates import Candidates, around
from dngo.acquisition.feasibility import heed, likely_enough
from dngo.acquisition.picks import Pick
from dngo.acquisition.shortlist import Shortlist, best_of
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.types import Array, Rows

LAST = -1e300  # a score below all others


@dataclass(frozen=True)
class Improvement:
    """Picks of the highest acquisition, until it has vanished.

    refinements, ascents, shortlist: as in the settings (`Greedy`). vanished_below: largest predictive
    deviation -> the value under which nothing is left to gain. explores: whether the next stage takes over
    even if nothing is pending yet. most: larger batches are left to other stages.
    """

    refinements: int
    ascents: int
    shortlist: int
    vanished_below: Callable[[float], float]
    explores: bool
    most: float = math.inf
    name = "improvement"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if state.size > self.most or not state.has_outcome or not len(state.candidates):
            return
        least, count = state.shared.min_feasibility, min(number, current().improvement.most_picks)
        scores = self._scores(state)
        size = max(self.shortlist, current().improvement.listed_for_each * count)
        rows = _best(state.candidates, scores, size, least)
        pool, fantasies = state.candidates, state.fantasies
        open_ = state.spacing.among(pool.v[rows])
        shortlist = state.shortlist = Shortlist(fantasies, pool, rows, scores[rows], open_)
        some = shortlist.features[:, : current().improvement.measured_on]
        vanished = self.vanished_below(float(fantasies.deviation(some).max()))
        for _ in range(min(count, len(rows))):
            allowed = shortlist.open.allowed
            if not allowed.any():
                return
            allowed = likely_enough(state, allowed, shortlist.feasibility, least)
            known = fantasies.pending > 0 or self.explores
            if known and shortlist.highest(allowed) < vanished:
                return
            yield shortlist.pick(allowed)

    def _scores(self, state: BatchState) -> Array:
        """The acquisition at every candidate, with those added near the best: (n,)."""
        search, least = current().improvement, state.shared.min_feasibility
        space, pool = state.space, state.candidates

        def value(v: Array) -> Array:
            x = space.encode(v)
            return state.fantasies.at(x, state.model.feasibility(x) * state.rate(v, x))

        scores = state.fantasies.at(pool.x, pool.feasibility * pool.rate)
        for round_ in range(self.refinements + 1):
            gated = _gate(scores, pool.feasibility, least)
            if round_ < self.refinements:
                parents = pool.v[best_of(gated, search.parents)]
                step = search.first_step * search.shrinking**round_
                rng = state.streams["refinements"]
                pool.add(around(space, parents, search.children, rng, largest=step), "refined")
            else:
                pool.add(climb(space, pool.v, gated, self.ascents, value), "ascent")
            rows = pool.judge()
            weight = pool.feasibility[rows] * pool.rate[rows]
            scores = np.concatenate([scores, state.fantasies.at(pool.x[rows], weight)])
        return scores


class Exploration:
    """The stage that may follow: it picks the largest deviation (Brofos, Shu and Jin 2015, section
    3.1). Each is then
    pending."""

    name = "exploration"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        shortlist = state.shortlist
        if shortlist is None:
            return
        for _ in range(number):
            allowed = shortlist.open.allowed
            if not allowed.any():
                return
            least = state.shared.min_feasibility
            yield shortlist.explore(likely_enough(state, allowed, shortlist.feasibility, least))


def _gate(scores: Array, feasibility: Array, least: float) -> Array:
    """Scores with the candidates that `min_feasibility` rules out last."""
    heeded = heed(np.ones(len(scores), dtype=bool), feasibility, least)
    return np.where(heeded, scores, LAST)


def _best(pool: Candidates, scores: Array, size: int, least: float) -> Rows:
    """The candidates for the picks of a batch, at most `size`.

    Half of them are the best ones that `min_feasibility` allows. A quarter are the best uniform
    ones that it allows. Without these, a batch that has used up one hill would find nothing else on
    its list. The last quarter are the best of all, allowed or not, for picks on the boundary.
    """
    gated = _gate(scores, pool.feasibility, least)
    everywhere = np.array([source == "uniform" for source in pool.source])
    parts = [
        best_of(gated, size // 2),
        best_of(np.where(everywhere, gated, 2.0 * LAST), size // 4),
        best_of(scores, size // 4),
    ]
    return np.unique(np.concatenate(parts))
