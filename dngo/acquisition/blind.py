"""Steps around the best point: picks of a trust region whose model is of no use.

At every scale a function may have more structure than so few points can show (BBOB's function of Katsuura).
Then no model predicts it, and a model's picks are no better than uniform points in a box. But
neighbours of a good point are good as well. So steps of every size improve it, scale by scale, as
in an evolution strategy.

Where noise hides the function, no model predicts the outcomes either, and steps lead nowhere. A few
short steps tell the two cases apart: only in the first case do close points have similar outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import rankdata

from dngo.acquisition.candidates import around
from dngo.acquisition.spacing import Spacing
from dngo.rules import current
from dngo.types import Array


def neighbours(u: Array, y: Array) -> Literal["alike", "unlike", "unknown"]:
    """Whether neighbours among the points u (n, k) have similar outcomes y (n,)."""
    rules = current().steps
    farthest = min(rules.farther, len(u) - 1)
    gap, nearest = cKDTree(u).query(u, k=farthest + 1)
    closest = np.argsort(gap[:, 1], kind="stable")[: rules.closest]
    if gap[closest, 1].max() > rules.near * np.median(gap[:, 1]):
        return "unknown"
    rank = rankdata(y) / len(y)
    unlike = np.abs(rank[closest, None] - rank[nearest[closest]])
    usual = max(np.median(unlike[:, farthest // 2 :]), rules.ranks)
    return "alike" if np.median(unlike[:, 1]) < rules.alike * usual else "unlike"


def steps(
    centre: Array,
    largest: float,
    count: int,
    rng: np.random.Generator,
    *,
    spacing: Spacing,
    penalty: Callable[[Array, Array], Array],
    least: float | None = None,
) -> list[Array]:
    """At most `count` points (k,) around the centre (1, k), by steps of every size up to the largest.

    They are added to `spacing`. penalty: points (n, k) in the region around the centre -> (n,); lower is
    preferred. least: the smallest step's scale in units of the largest; None: as the rules have it.
    """
    found, rules = [], current().steps
    with spacing.closer(rules.spacing):
        for _ in range(count):
            smallest = (rules.smallest if least is None else least) * largest
            v = around(
                spacing.space, centre, rules.children, rng, smallest=smallest, largest=largest
            )
            v = v[np.argsort(penalty(v, centre), kind="stable")]
            row = spacing.first(v)
            if row is not None:
                found.append(v[row])
                spacing.add(v[[row]])
    return found
