"""Boxes along a front, read off the archive: their size, and their share of a batch.

The archive is replayed in order, batch by batch. Nothing is remembered between batches, so that a batch can
be derived again from the archive alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from dngo.fronts import on_front
from dngo.rules import current
from dngo.types import Array, Rows

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class BoxCourse:
    """half: of the current side of a box. share: of a batch that goes to boxes."""

    half: float
    share: float


def course(u: Array, values: Array, batch: Rows, block: int, usual: float) -> BoxCourse:
    """The size and the share of boxes after the batches so far.

    u: (n, k) the points in the unit cube, values: (n, m) their objectives, minimised, NaN unless ok;
    batch: (n,) rising numbers. block: evaluations in boxes after which their size is reconsidered. usual:
    the share if the course says nothing.
    """
    rules = current().front
    ok: Mask = np.asarray(np.isfinite(values).all(axis=1))
    half, tried, won = rules.largest, 0, 0
    inside, paid = np.zeros(len(u), dtype=np.bool_), np.zeros(len(u), dtype=np.bool_)
    ends = [*(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(u)]
    front = np.empty(0, dtype=np.intp)
    for start, end in zip([0, *ends], ends, strict=False):
        rows = np.arange(start, end)
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
                half = min(rules.growth * half, rules.largest)
            elif won < 0.5 * rules.often * tried:
                half = max(0.5 * half, rules.smallest)
            tried, won = 0, 0
    return BoxCourse(half, _share(inside, paid, batch, block, usual))


def _share(inside: Mask, paid: Mask, batch: Rows, block: int, usual: float) -> float:
    """The share follows how often points in boxes and elsewhere have joined the front lately."""
    rules = current().front
    if not 0 < usual < 1 or not len(batch):
        return usual
    weight = 0.5 ** ((len(batch) - 1 - np.arange(len(batch))) / block) * (batch > batch[0])
    here, there = (
        (weight @ (paid & place) + 1.0) / (weight @ place + rules.nothing_known)
        for place in (inside, ~inside)
    )
    local = usual * here / (usual * here + (1 - usual) * there)
    return float(np.clip(local, min(rules.least_share, usual), max(rules.most_share, usual)))
