"""Where functions drawn from a posterior are lowest: each is searched by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dngo.types import Array


@dataclass(frozen=True)
class Descent:
    """How a function is searched: by random steps from the best point so far, which shrink.

    The numbers were chosen on trust regions in ten and twenty inputs, and not measured one by one.
    """

    children: int = 20  # steps of a round
    rounds: int = 6  # each halves the largest step
    offered: int = (
        8  # best shared points that a function may fall back on, if others took its minimum
    )


def minima(
    shared: Array,
    values: Array,
    own: Callable[[Array], Array],
    step: Callable[[Array, float], Array],
    *,
    largest: float,
    rules: Descent,
) -> tuple[Array, Array]:
    """Good points of each of `count` functions, the best of each first.

    shared: (n, k) points that all functions are known at; values: (count, n) there. own: each
    function at points of its own, (count, m, k) -> (count, m). step: points (n, k) and the largest
    step, in units of a parameter's range, to neighbours of them (n, k). Returns v (count, m, k) and
    their values (count, m).
    """
    count, k = len(values), shared.shape[1]
    each = np.arange(count)
    offered = min(rules.offered, values.shape[1])
    top = np.argpartition(values, offered - 1, axis=1)[:, :offered]
    points, found = [shared[top]], [np.take_along_axis(values, top, axis=1)]
    best = values.argmin(axis=1)
    now, lowest = shared[best], values[each, best]
    for _ in range(rules.rounds):
        moved = step(np.repeat(now, rules.children, axis=0), largest)
        moved = moved.reshape(count, rules.children, k)
        value = own(moved)
        best = value.argmin(axis=1)
        better = value[each, best] < lowest
        now = np.where(better[:, None], moved[each, best], now)
        lowest = np.where(better, value[each, best], lowest)
        points.append(moved)
        found.append(value)
        largest *= 0.5
    v, value = np.concatenate(points, axis=1), np.concatenate(found, axis=1)
    order = np.argsort(value, axis=1, kind="stable")
    return np.take_along_axis(v, order[..., None], axis=1), np.take_along_axis(value, order, axis=1)
