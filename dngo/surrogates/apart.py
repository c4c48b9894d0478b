"""Points that represent the whole space."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from dngo.rules import current
from dngo.surrogates.problem import Problem
from dngo.types import Array, Rows

CONSIDERED = 5  # at most so many times the needed rows are looked at, since each costs distances
# The objective's scale and the deviation of its targets are computed from at most so many points.
SCALED = 1000


def apart(x: Array, most: int, rng: np.random.Generator, groups: Rows | None = None) -> Rows:
    """Rows of x (n, d), unit cube, that lie apart from each other: at most `most`, sorted.

    groups: (d,) as in `Problem`.

    A search piles up its points where the objective is low, and there the objective is smooth and
    flat. A stationary process fitted to all points would take the whole space to be smooth and
    flat. It would be too sure of unexplored parts, and send no points there.
    """
    if groups is not None:
        # Two levels of a category differ in two inputs, and are as far apart as the ends of a range.
        widths = np.bincount(groups)
        x = x / np.sqrt(np.where(widths > 1, 2.0, 1.0))[groups]
    n, d = len(x), x.shape[1] if groups is None else len(widths)
    least = (current().apart.least * n ** (-1.0 / max(d, 1))) ** 2 * d
    chosen = np.empty((min(n, most), x.shape[1]))
    rows: list[int] = []
    for i in rng.permutation(n)[: CONSIDERED * most]:
        if len(rows) == most:
            break
        if not rows or np.min(np.sum((chosen[: len(rows)] - x[i]) ** 2, axis=1)) >= least:
            chosen[len(rows)] = x[i]
            rows.append(int(i))
    return np.sort(np.array(rows, dtype=np.intp))


def around(problem: Problem, most: int, share: float, rng: np.random.Generator) -> Rows:
    """At most `most` rows, sorted: a share of them nearest to the study's best points, if any are
    known, and others that lie apart from each other. The study's own rows come before other tasks'
    rows: thousands of those would leave none of its own near the best point."""
    near = np.empty(0, dtype=np.intp)
    if problem.best is not None and len(problem.best):
        inputs, flags = np.hsplit(problem.x, [problem.best.shape[1]])  # flags of other tasks
        gap = cdist(inputs, problem.best).min(axis=1)
        near = np.lexsort((gap, flags.any(axis=1)))[: int(share * most)]
    rest = np.setdiff1d(apart(problem.x, most, rng, problem.groups), near)
    others = rng.permutation(rest)[: most - len(near)]
    return np.sort(np.concatenate([near, others]))
