"""Before the first ok outcome: looking for one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dngo.acquisition import candidates as cand
from dngo.acquisition.batch import Picks
from dngo.acquisition.history import History
from dngo.acquisition.lazy import best_of
from dngo.space import Space
from dngo.surrogates.model import Model
from dngo.surrogates.numerics import child

Array = NDArray[np.float64]

CHUNK = 2048  # points compared at once
PARENTS, CHILDREN = 16, 512  # the likeliest so far, and how many new ones near them


def search(
    model: Model,
    space: Space,
    history: History,
    size: int,
    settings: Any,
    rng: np.random.Generator,
) -> Picks:
    """Look for a first ok outcome: likely feasible, and far from all that has been tried."""
    streams = [child(rng) for _ in range(2)]
    pool = cand.Pool(space, history.keys(space))
    pool.add(cand.uniform(space, settings.uniform_candidates, streams[0]), "uniform")
    feasibility = model.feasibility(space.encode(pool.v)) if len(pool.v) else np.empty(0)
    if model.heeds_constraints and len(pool.v):
        parents = pool.v[best_of(feasibility, PARENTS)]
        near = pool.add(cand.around(space, parents, CHILDREN, streams[1]), "local")
        if len(near):
            feasibility = np.concatenate([feasibility, model.feasibility(space.encode(near))])
    weight = feasibility * model.inverse_cost(space.encode(pool.v)) if len(pool.v) else 1.0
    u = space.unit(pool.v)
    tried = space.unit(np.concatenate([history.v, history.pending]))
    gap = np.ones(len(u))
    for rows in range(0, len(tried), CHUNK):
        gap = np.minimum(gap, cand.distances(u, tried[rows : rows + CHUNK]).min(axis=1))
    picks = Picks()
    free = np.ones(len(u), dtype=bool)
    for _ in range(min(size, len(u))):
        scores = np.where(free, weight * gap, -np.inf)
        best = int(np.argmax(scores))
        value, scores[best], free[best] = float(scores[best]), -np.inf, False
        picks.take(pool.v[best], value, float(scores.max()), f"candidate:{pool.source[best]}")
        gap = np.minimum(gap, cand.distances(u, u[best : best + 1])[:, 0])
    return picks
