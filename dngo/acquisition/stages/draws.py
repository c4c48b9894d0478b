"""Thompson sampling over the whole space: each pick minimises a function drawn from the posterior."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dngo.acquisition.fantasies import weigh
from dngo.acquisition.feasibility import least_of_draws, penalty
from dngo.acquisition.minima import AT_ONCE_WIDE, Box, descent_of, minima
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.surrogates.draws import draw, spread_evenly
from dngo.types import Array


class ThompsonDraws:
    """The remaining picks: all of a kind's own, or those after improvement has vanished."""

    name = "draws"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if not state.has_outcome:
            return
        pool, rng, search = state.candidates, state.streams["draws"], current().descent
        rows = state.shared_rows(number, rng)
        if not len(rows):
            return
        boldness = spread_evenly(search.boldest, number, rng)
        for start in range(0, number, AT_ONCE_WIDE):
            functions = _Functions(state, boldness[start : start + AT_ONCE_WIDE], rng)
            values = functions.among(pool.x[rows], pool.feasibility[rows], pool.rate[rows])
            points, found = minima(
                pool.v[rows],
                values,
                functions.own,
                rng,
                box=Box.whole(state.space),
                largest=search.step_wide,
                rules=descent_of(state.space),
            )
            unserved = []
            for i, (lowest, value) in enumerate(zip(points, found, strict=True)):
                j = state.spacing.first(lowest)
                if j is None:
                    unserved.append(i)
                else:
                    yield Pick(lowest[j], max(-float(value[j]), 0.0), "thompson")
            left = values[unserved]
            places = state.spacing.lowest_left(pool.v[rows], left)
            for i, own in zip(places, left, strict=False):
                yield Pick(pool.v[rows[i]], max(-float(own[i]), 0.0), "thompson")


class _Functions:
    """Drawn functions minus the incumbent, times rates: below zero is a gain.

    Where feasibility is too low for a function's turn they lie far above all others.
    """

    def __init__(self, state: BatchState, boldness: Array, rng: np.random.Generator) -> None:
        self.state = state
        self.draws = draw(state.model.objective, boldness, rng)
        self.best = state.fantasies.incumbent
        self.least = least_of_draws(state, len(boldness))

    def among(self, x: Array, feasibility: Array, rate: Array) -> Array:
        """All functions at candidates x (n, d): (count, n)."""
        gain = weigh(self.best - self.draws(x), rate)
        return penalty(feasibility, self.least[:, None]) - gain

    def own(self, v: Array) -> Array:
        """Each function at its own points: v (count, m, k) -> (count, m)."""
        shape = v.shape[:2]
        x = self.state.space.encode(v.reshape(-1, v.shape[2]))
        values = self.draws.own(x.reshape(*shape, -1))
        rate = self.state.rate(v.reshape(-1, v.shape[2]), x).reshape(shape)
        values = -weigh(self.best - values, rate)
        if not self.state.model.heeds_constraints:
            return values
        feasibility = self.state.model.feasibility(x).reshape(shape)
        return values + penalty(feasibility, self.least[:, None])
