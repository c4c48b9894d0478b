"""Climbs the acquisition by its gradient, to the top of each hill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dngo.acquisition.minima import Box, Valley
from dngo.acquisition.spacing import distances
from dngo.rules import current
from dngo.space import Space
from dngo.types import Array


def climb(
    space: Space, v: Array, scores: Array, count: int, value: Callable[[Array], Array]
) -> Array:
    """Where the gradient leads, starting from the `count` best candidates that lie apart: (m, k), m
    <= count.

    v: (n, k) candidates, scores: (n,) the acquisition there. value: points (., k) -> acquisition (.,).
    The search that minimises drawn functions is used on minus the acquisition's logarithm. Listed
    and inactive parameters do not change.
    """
    tops: list[int] = []
    u, left = space.unit(v), scores > 0  # a logarithm's domain
    while len(tops) < count and left.any():
        tops.append(int(np.argmax(np.where(left, scores, -np.inf))))
        left &= distances(u, u[tops[-1:]])[:, 0] > current().ascent.same_hill

    def depth(points: Array) -> Array:
        values = value(points.reshape(-1, space.k))
        return -np.log(np.maximum(values, 1e-300)).reshape(points.shape[:2])

    rules = replace(current().descent, along_gradient=current().ascent.points)
    first_step = current().improvement.first_step
    valley = Valley(Box.whole(space), v[tops], depth, first_step, rules)
    return valley.follow(-np.log(scores[tops]))[0]
