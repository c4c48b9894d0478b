"""The candidates of functions that search the whole space: where a search starts, and what a
function gets if its minima are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from dngo.acquisition.candidates import is_listed
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.types import Array, Rows


def shared_rows(state: BatchState, number: int, rng: np.random.Generator) -> Rows:
    """Rows of free candidates that `number` functions share: all of a listed space, some of another."""
    pool, most = state.candidates, max(current().descent.shared_wide, 2 * number)
    rows = np.flatnonzero(state.spacing.free(pool.v)) if len(pool) else np.empty(0, dtype=np.intp)
    return rows if is_listed(state.space) else np.sort(rng.permutation(rows)[:most])


def lowest_left(state: BatchState, v: Array, values: Iterable[Array]) -> Iterator[int]:
    """For functions whose minima are all taken: the row of the lowest candidate of v (n, k).

    values: (n,) of each function. If all candidates are too close to others, the distance is ignored.
    """
    open_ = state.spacing.among(v)
    for value in values:
        allowed = open_.allowed if open_.allowed.any() else open_.free
        if not allowed.any():
            return
        i = int(np.argmin(np.where(allowed, value, np.inf)))
        open_.take(i)
        yield i
