"""Points that speak for the whole space."""

from __future__ import annotations

import numpy as np

from dngo.rules import current
from dngo.types import Array, Rows


def apart(x: Array, most: int, rng: np.random.Generator) -> Rows:
    """Rows of x (n, d), unit cube, no two of which are close together: at most `most`, sorted.

    A search piles its points up where the objective is low. There it is smooth and flat, and a
    stationary process fitted to all points takes the whole space to be so: sure of itself where it
    has seen nothing, it sends no more points there.
    """
    n, d = x.shape
    least = (current().apart.least * n ** (-1.0 / max(d, 1))) ** 2 * d
    chosen = np.empty((min(n, most), d))
    rows: list[int] = []
    for i in rng.permutation(n)[: current().apart.considered * most]:
        if len(rows) == most:
            break
        if not rows or np.min(np.sum((chosen[: len(rows)] - x[i]) ** 2, axis=1)) >= least:
            chosen[len(rows)] = x[i]
            rows.append(int(i))
    return np.sort(np.array(rows, dtype=np.intp))
