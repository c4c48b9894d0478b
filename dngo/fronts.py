"""Fronts of several objectives: the outcomes that no other outcome dominates, and their hypervolume.

All values here are minimised and finite, with a column for each objective. Sorting and hypervolumes
come from `moocore`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dngo.types import Array, Rows

MOST = 6  # objectives; with more, nearly every point is on the front, and hypervolumes take minutes


def sign_of(direction: str) -> float:
    """1, or -1 if large values are good, since every objective is minimised internally."""
    return 1.0 if direction == "minimize" else -1.0


def on_front(values: Array) -> NDArray[np.bool_]:
    """Which rows of values (n, m) no other row dominates: (n,). Of equal rows each counts."""
    if not len(values):
        return np.zeros(0, dtype=bool)
    from moocore import is_nondominated

    return np.asarray(is_nondominated(values, keep_weakly=True), dtype=bool)


def ranks(values: Array) -> Array:
    """The rank of each row of values (n, m): (n,), 0 on the front, 1 on the next, and so on."""
    if not len(values):
        return np.zeros(0)
    from moocore import pareto_rank

    return np.asarray(pareto_rank(values), dtype=float)


def order(values: Array) -> Rows:
    """The place of each row of values (n, m) when few are to be kept: (n,), 0 first.

    Fronts come one after another. Within a front the knee comes first, then always the row farthest from
    all rows before it (an epsilon net, Schmucker et al. 2021, "Multi-objective asynchronous successive
    halving"), so that its whole length is kept.
    """
    found, rank = np.zeros(len(values), dtype=np.intp), ranks(values)
    place = 0
    for one in np.unique(rank):
        rows = np.flatnonzero(rank == one)
        lowest, width = extent(values[rows])
        u = (values[rows] - lowest) / width
        gap, best = np.full(len(rows), np.inf), knee(values[rows])
        for _ in rows:
            found[rows[best]], place = place, place + 1
            gap = np.minimum(gap, np.linalg.norm(u - u[best], axis=1))
            gap[best] = -1.0
            best = int(np.argmax(gap))
    return found


def hypervolume(values: Array, reference: Array) -> float:
    """The volume that values (n, m) dominate, down to the reference (m,)."""
    inside = values[np.all(values < reference, axis=1)]
    if not len(inside):
        return 0.0
    from moocore import hypervolume as volume

    return float(volume(inside, ref=reference))


def hypervolumes(values: Array, batch: Rows, reference: Array) -> list[float]:
    """The hypervolume after each batch: values (n, m), NaN unless ok; batch: (n,), from 0, rising."""
    found, kept = [], values[:0]
    for t in range(int(batch[-1]) + 1 if len(batch) else 0):
        rows = values[(batch == t) & np.isfinite(values).all(axis=1)]
        kept = np.concatenate([kept, rows])
        kept = kept[on_front(kept)]
        found.append(hypervolume(kept, reference))
    return found


def derived_reference(values: Array, batch: Rows, given: Sequence[float | None]) -> Array:
    """The worst value of interest of each objective: (m,), NaN as long as nothing is known.

    values: (n, m), NaN unless ok;
    batch: (n,).
    given: the user's references, None if not given. A missing one is the worst of the first batch
    with an ok outcome, or of the front if that reaches farther. So it grows with the front, and no
    part of the front lies beyond it.
    """
    ok = np.isfinite(values).all(axis=1)
    first = values[ok & (batch == batch[ok].min())] if ok.any() else values[:0]
    front = values[ok][on_front(values[ok])]
    seen = np.concatenate([first, front])
    worst = seen.max(axis=0) if len(seen) else np.full(len(given), np.nan)
    return np.array([w if g is None else g for w, g in zip(worst, given, strict=True)])


def extent(values: Array) -> tuple[Array, Array]:
    """The lowest value and the range of each objective on a front (n, m), n >= 1.

    If all are equal in an objective, its range is 1.
    """
    lowest, width = values.min(axis=0), np.ptp(values, axis=0)
    return lowest, np.where(width > 0, width, 1.0)


def knee(values: Array) -> int:
    """The row of a front (n, m), n >= 1, that lies farthest below the plane through its extreme points.

    Objectives are scaled to their range on the front. There, a small loss in one objective gains
    most in the others.
    """
    lowest, width = extent(values)
    return int(np.argmin(((values - lowest) / width).sum(axis=1)))


def preferred(values: Array, weights: Array) -> int:
    """The row of a front (n, m), n >= 1, that is best by these weights (m,). Heights are objectives
    scaled to the front's extent. The largest weight times height decides, and a little also their
    sum.
    """
    lowest, width = extent(values)
    heights = (values - lowest) / width * weights
    return int(np.argmin(heights.max(axis=1) + 0.05 * heights.sum(axis=1)))
