"""Thompson sampling among all candidates: each pick minimises a function drawn from the posterior."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dngo.acquisition.fantasies import weigh
from dngo.acquisition.feasibility import likely_enough, of_draws
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.acquisition.thompson import CHUNK, Draws


class ThompsonDraws:
    """The picks that are left: of a kind by itself, or where improvement has vanished."""

    name = "draws"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if not state.has_outcome:
            return
        pool = state.candidates
        rows = np.flatnonzero(state.spacing.free(pool.v)) if len(pool) else ()
        if not len(rows):
            return
        v, feasibility, rate = pool.v[rows], pool.feasibility[rows], pool.rate[rows]
        draws = Draws(state.model.objective, state.space.encode(v), state.streams["draws"])
        open_ = state.spacing.among(v)
        best = state.fantasies.incumbent
        while number > 0 and open_.free.any():
            for value in draws(min(CHUNK, number)):
                allowed = open_.allowed if open_.allowed.any() else open_.free
                allowed = likely_enough(state, allowed, feasibility, of_draws(state.settings))
                value = np.where(allowed, value, np.inf)
                ranked = value if state.settings.per is None else -weigh(best - value, rate)
                i = int(np.argmin(ranked))
                if not allowed[i]:
                    # A process is drawn at some points only, and these are used up.
                    i = int(np.argmax(allowed))
                if not allowed[i]:
                    return
                open_.take(i)
                number -= 1
                # What the function drawn gains there on the incumbent.
                gain = best - float(value[i]) if np.isfinite(value[i]) else 0.0
                yield Pick(v[i], max(gain, 0.0), "thompson")
