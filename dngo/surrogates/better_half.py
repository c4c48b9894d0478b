"""Where the better of the last points lie, when nothing foretells which of them is good.

Where noise hides a function the lowest outcome is luck, and no model tells it from the others. The mean of
the better half is hardly luck (the cross-entropy method, Rubinstein 1999; with the weights of CMA-ES).
Where a function has more in it than so few points can tell nothing is foretold either; but there, points
that lie next to each other are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import rankdata

from dngo.types import Array, Rows


@dataclass(frozen=True, kw_only=True)
class HalfRules:
    """Which points make up the better half (benchmarks/rules.md, without a model)."""

    # Of so many last points for each parameter, those within so many deviations of the ones before, root
    # mean square.
    kept: int = 10
    reach: float = 1.2
    # The rows whose nearest neighbours are nearest are asked whether outcomes there are alike: whether
    # their ranks differ by such a share of what those of farther neighbours, up to this one, differ by,
    # or of such a share of all ranks. They are no neighbours, and say nothing, unless they are nearer
    # than such a share of the median.
    closest: int = 8
    near: float = 0.1
    farther: int = 24
    alike: float = 0.4
    ranks: float = 0.1


RULES = HalfRules()


@dataclass(frozen=True)
class BetterHalf:
    """rows: (m,) of the better ones, weight: (m,) theirs, in sum 1; middle, deviation: (k,) by these."""

    rows: Rows
    weight: Array
    middle: Array
    deviation: Array

    @classmethod
    def of(cls, u: Array, y: Array) -> BetterHalf:
        """Of points u (n, k) in the unit cube, n >= 1, in the order in which they were evaluated, y (n,).

        The distribution is followed from the first of them to the last: what lies far from it belongs to
        another search.
        """
        n, k = u.shape
        window = RULES.kept * k
        last = np.empty(0, dtype=np.intp)
        found = cls(last, np.empty(0), np.full(k, 0.5), np.full(k, np.inf))
        for start in range(0, n, max(window // 2, 1)):
            rows = np.arange(start, min(start + max(window // 2, 1), n))
            off = (u[rows] - found.middle) / np.maximum(found.deviation, 1e-3)
            near = np.sqrt(np.mean(off**2, axis=1)) <= RULES.reach
            last = np.concatenate([last, rows[near]])[-window:]
            better = last[np.argsort(y[last], kind="stable")[: -(-len(last) // 2)]]
            weight = np.log(len(better) + 0.5) - np.log(np.arange(1, len(better) + 1))
            weight /= weight.sum()
            middle = weight @ u[better]
            found = cls(better, weight, middle, np.sqrt(weight @ (u[better] - middle) ** 2))
        return found


def neighbours(u: Array, y: Array) -> Literal["alike", "unlike", "unknown"]:
    """Whether outcomes y (n,) of points u (n, k) are alike where the points are next to each other."""
    farthest = min(RULES.farther, len(u) - 1)
    gap, nearest = cKDTree(u).query(u, k=farthest + 1)
    closest = np.argsort(gap[:, 1], kind="stable")[: RULES.closest]
    if gap[closest, 1].max() > RULES.near * np.median(gap[:, 1]):
        return "unknown"
    rank = rankdata(y) / len(y)
    unlike = np.abs(rank[closest, None] - rank[nearest[closest]])
    usual = max(np.median(unlike[:, farthest // 2 :]), RULES.ranks)
    return "alike" if np.median(unlike[:, 1]) < RULES.alike * usual else "unlike"
