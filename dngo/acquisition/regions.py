"""Trust regions, read off the archive: boxes around good points, and their share of a batch.

The archive is replayed in order, batch by batch. A box halves if a block of evaluations in it has
not improved on its centre. If the block has, the box moves along. The share of a batch for regions
depends on whether points in regions or points elsewhere have gained. Nothing is remembered between
batches,
so that a batch can be derived again from the archive alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dngo.acquisition.history import batches
from dngo.acquisition.spacing import distances
from dngo.rules import current
from dngo.types import Array, Rows

# The best points, among which centres are looked for: for each, distances are computed.
LOOKED_AMONG = 1000


@dataclass(frozen=True)
class Region:
    """A box around row `centre` of the evaluated points, `half` to either side."""

    centre: int
    half: float


def region(u: Array, targets: Array, batch: Rows, block: int) -> Region:
    """The region around the best of points u (n, k), in the order of their evaluation.

    targets: (n,) NaN where unknown, in units of their deviation. batch: (n,) rising numbers. block:
    evaluations in the region after which its size is reconsidered.
    """
    rules = current().regions
    half, centre, last, tried = rules.largest, -1, -1, 0
    for rows in batches(batch):
        if centre >= 0:
            tried += int(np.sum(np.max(np.abs(u[rows] - u[centre]), axis=1) <= half))
        if np.isfinite(targets[rows]).any():
            best = rows.start + int(np.nanargmin(targets[rows]))
            if centre < 0 or targets[best] < targets[centre]:
                centre = best
        last = centre if last < 0 else last
        if tried < block:
            continue
        if targets[centre] < targets[last] - rules.improved:
            step = float(np.max(np.abs(u[centre] - u[last])))
            half = min(max(2.0 * step, 0.5 * half), rules.largest)
        else:
            half = max(0.5 * half, rules.smallest)
        last, tried = centre, 0
    return Region(centre, half)


def regions(u: Array, targets: Array, batch: Rows, block: int) -> Iterator[Region]:
    """Regions around points without a better one near them, the best point first.

    A point on the side of a funnel is no centre: a better point near it leads into the same funnel.
    """
    rules = current().regions
    order = np.argsort(targets, kind="stable")[: min(int(np.isfinite(targets).sum()), LOOKED_AMONG)]
    gaps = np.full(len(order), np.inf)
    for i in range(1, len(order)):
        gaps[i] = distances(u[order[[i]]], u[order[:i]]).min()
    typical = float(np.mean(gaps[1:])) if len(gaps) > 1 else 0.0
    alone = order[gaps > max(rules.detached * typical, rules.apart)][: rules.most]
    nearest = distances(u, u[alone]).argmin(axis=1)
    for i in range(len(alone)):
        rows = np.flatnonzero(nearest == i)
        found = region(u[rows], targets[rows], batch[rows], block)
        # A region reaches at most half-way to a better one.
        reach = np.abs(u[alone[:i]] - u[alone[i]]).max(axis=1)
        half = min([found.half, *(0.5 * reach)])
        yield Region(int(rows[found.centre]), half)
