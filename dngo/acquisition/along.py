"""Boxes along a front, read off the archive: their size, and their share of a batch.

The archive is replayed in order, batch by batch. Nothing is remembered between batches, so that a batch can
be derived again from the archive alone.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from dngo.acquisition.allocation import following
from dngo.acquisition.history import batches
from dngo.fronts import on_front
from dngo.rules import current
from dngo.types import Array, Mask, Rows


def course(u: Array, values: Array, batch: Rows, block: int, usual: float) -> tuple[float, float]:
    """Half the side of boxes, and their share of a batch, after the batches so far.

    u: (n, k) the points in the unit cube, values: (n, m) their objectives, minimised, NaN unless ok;
    batch: (n,) rising numbers. block: evaluations in boxes after which their size is reconsidered. usual:
    the share as long as the study's course says nothing.
    """
    rules, largest = current().front, current().regions.largest
    ok: Mask = np.asarray(np.isfinite(values).all(axis=1))
    half, tried, won = largest, 0, 0
    inside, paid = np.zeros(len(u), dtype=np.bool_), np.zeros(len(u), dtype=np.bool_)
    front = np.empty(0, dtype=np.intp)
    for rows in (np.arange(one.start, one.stop) for one in batches(batch)):
        known = np.concatenate([front, rows[ok[rows]]])
        now = known[on_front(values[known])]
        if len(front):
            gap, _ = cKDTree(u[front]).query(u[rows], p=np.inf)
            inside[rows] = gap <= half
            paid[rows] = np.isin(rows, now)
            tried += int(inside[rows].sum())
            won += int(np.sum(inside[rows] & paid[rows]))
        front = now
        if tried >= block:
            if won > rules.often * tried:
                half = min(rules.growth * half, largest)
            elif won < 0.5 * rules.often * tried:
                half = max(0.5 * half, rules.smallest)
            tried, won = 0, 0
    if not 0 < usual < 1 or not len(batch):
        return half, usual
    share = following(inside, paid, batch, block, usual)
    least, most = min(rules.least_share, usual), max(rules.most_share, usual)
    return half, float(np.clip(share, least, most))
