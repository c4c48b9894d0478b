"""Points of a noisy front that are evaluated once more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dngo.acquisition.allocation import of_share
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.fronts import extent, on_front
from dngo.rules import current


class Again:
    """A share of the picks looks again at the points of a noisy front that are least certain.

    The front is the one of the models' means. A point that only a lucky outcome put there leaves it.
    """

    name = "again"
    draws_numbers = False

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        history, values = state.history, state.history.outcomes
        rows = np.flatnonzero(state.repeatable & np.isfinite(values).all(axis=1))
        count = of_share(state.turn, number, current().front.again)
        if not (history.means and count and len(rows)):
            return
        rows = rows[on_front(values[rows])]
        x, unknown = state.space.encode(history.v[rows]), np.full(len(rows), np.nan)
        each = [state.model.objectives[name].function(x, unknown)[1] for name in history.means]
        doubt = np.sum(np.transpose(each) / extent(values[rows])[1], axis=1)
        for row in rows[np.argsort(-doubt, kind="stable")]:
            if count and state.spacing.first(history.v[[row]]) is not None:
                count -= 1
                yield Pick(history.v[row], np.nan, "replicate")
