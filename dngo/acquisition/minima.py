"""Searches the minima of functions drawn from a posterior, each function by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dngo.acquisition.candidates import around, is_listed
from dngo.rules import current
from dngo.rules.acquisition import DescentRules
from dngo.space import Space
from dngo.types import Array

# Functions that are searched at once, in a box and in the whole space: 20 MB of memory.
AT_ONCE, AT_ONCE_WIDE = 64, 512


def descent_of(space: Space) -> DescentRules:
    """How functions are searched. If the shared points are the whole space, no steps are made."""
    rules = current().descent
    return replace(rules, rounds=0) if is_listed(space) else rules


@dataclass(frozen=True)
class Slopes:
    """Analytic slopes of functions.

    of: each function's gradient at its own point, (count, k) -> (count, d) by encoded inputs. metric:
    (f, f) of the continuous parameters. Its product with a gradient is the steepest descent if
    distances are measured in the functions' own lengthscales.
    """

    of: Callable[[Array], Array]
    metric: Array


@dataclass(frozen=True)
class Box:
    """The part of a box inside the space: low, high (k,) coordinates. is_whole: the whole space."""

    space: Space
    low: Array
    high: Array
    is_whole: bool = False

    @classmethod
    def whole(cls, space: Space) -> Box:
        """All of the space."""
        return cls(space, np.zeros(space.k), np.ones(space.k), is_whole=True)

    @classmethod
    def around(cls, space: Space, centre: Array, half: float) -> Box:
        """centre: (1, k) natural values; half: of the side, in units of a parameter's range. All levels of
        a category are inside, as they have no order."""
        middle, reach = space.unit(centre)[0], np.where(space.is_ordered, half, 1.0)
        return cls(space, np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0))

    def shared(self, centre: Array, half: float, known: Array, rng: np.random.Generator) -> Array:
        """Points at which all functions of a box are evaluated: points spread over it, points
        around its centre (1, k), and last the known points (m, k)."""
        space, number = self.space, current().descent.shared // 2
        wide = space.from_unit(rng.uniform(self.low, self.high, (number, space.k)))
        near = around(space, centre, number, rng, smallest=0.02 * half, largest=0.5 * half)
        return np.concatenate([wide, self.clip(near), known])

    def clip(self, v: Array) -> Array:
        """The nearest points in the box: v (n, k) -> (n, k)."""
        return self.space.from_unit(np.clip(self.space.unit(v), self.low, self.high))

    def moved(self, v: Array, largest: float, rng: np.random.Generator) -> Array:
        """Points v (n, k) after one random step each, inside the box: (n, k)."""
        found = around(self.space, v, len(v), rng, smallest=0.1 * largest, largest=largest)
        return found if self.is_whole else self.clip(found)


def minima(
    shared: Array,
    values: Array,
    own: Callable[[Array], Array],
    rng: np.random.Generator,
    *,
    box: Box,
    largest: float,
    rules: DescentRules | None = None,
    slopes: Slopes | None = None,
) -> tuple[Array, Array]:
    """Good points of each of `count` functions, the best of each first.

    shared: (n, k) points at which all functions are known; values: (count, n) there. own: each function at
    its own points, (count, m, k) -> (count, m). rng: of the random steps; largest: the largest step, in
    units of a parameter's range. box: points stay inside. rules: by default the tree's. slopes: None: by
    differences. Returns v (count, m, k) and their values (count, m).
    """
    rules = rules or current().descent
    children = rules.children_wide if box.is_whole else rules.children
    count, k = len(values), shared.shape[1]
    each = np.arange(count)
    offered = min(rules.offered, values.shape[1])
    top = np.argpartition(values, offered - 1, axis=1)[:, :offered]
    points, found = [shared[top]], [np.take_along_axis(values, top, axis=1)]
    best, reach = values.argmin(axis=1), largest
    now, lowest = shared[best], values[each, best]
    for _ in range(rules.rounds):
        moved = box.moved(np.repeat(now, children, axis=0), largest, rng)
        moved = moved.reshape(count, children, k)
        value = own(moved)
        best = value.argmin(axis=1)
        better = value[each, best] < lowest
        now = np.where(better[:, None], moved[each, best], now)
        lowest = np.where(better, value[each, best], lowest)
        points.append(moved)
        found.append(value)
        largest *= 0.5
    down = Valley(box, now, own, reach, rules, slopes)
    now, lowest = down.follow(lowest)
    points.append(now[:, None])
    found.append(lowest[:, None])
    v, value = np.concatenate(points, axis=1), np.concatenate(found, axis=1)
    order = np.argsort(value, axis=1, kind="stable")
    return np.take_along_axis(v, order[..., None], axis=1), np.take_along_axis(value, order, axis=1)


class Valley:
    """The way down of each function from its own point, along the continuous parameters.

    v: (count, k) the points. own, box: as in `minima`. largest: step, in units of a parameter's range.
    Every function has its own BFGS (Nocedal and Wright 2006, chapter 6). All advance together: one call
    evaluates what all of them ask for.
    """

    def __init__(
        self,
        box: Box,
        v: Array,
        own: Callable[[Array], Array],
        largest: float,
        rules: DescentRules,
        slopes: Slopes | None = None,
    ) -> None:
        self.space, self.v, self.own, self.largest, self.rules = box.space, v, own, largest, rules
        self.slopes = slopes
        self.free = np.flatnonzero([c.levels is None for c in box.space.columns])
        self.low, self.high = box.low[self.free], box.high[self.free]
        self.u = box.space.unit(v)
        self.metric = np.eye(len(self.free)) if slopes is None else slopes.metric

    def follow(self, value: Array) -> tuple[Array, Array]:
        """Descend from value (count,); returns points (count, k) and their values."""
        rules, f = self.rules, len(self.free)
        rounds = rules.along_gradient // ((2 * f if self.slopes is None else 1) + len(rules.trials))
        if not rounds or not f or not len(value):
            return self.v, value
        u, v, each = self.u[:, self.free], self.v, np.arange(len(value))
        radius = np.full(len(u), self.largest)
        slope = self._slope(u)
        inverse = _steepest(self.metric, slope, radius)
        for round_ in range(rounds):
            tried = self._trials(u, -np.einsum("cij,cj->ci", inverse, slope), radius)
            there = self._at(tried)
            values = self.own(there)
            best = values.argmin(axis=1)
            better = values[each, best] < value
            v = np.where(better[:, None], there[each, best], v)
            value = np.where(better, values[each, best], value)
            nearer = np.where(better[:, None], tried[each, best], u)
            if round_ + 1 < rounds:
                steeper = self._slope(nearer)
                inverse = _updated(
                    inverse, nearer - u, steeper - slope, self.metric if round_ == 0 else None
                )
                u, slope = nearer, steeper
                # If nothing along a direction is lower, it is dropped, and the steps get shorter.
                radius = np.where(better, radius, 0.1 * radius)
                inverse[~better] = _steepest(self.metric, slope[~better], radius[~better])
        return v, value

    def _at(self, u: Array) -> Array:
        """Points at free coordinates u (count, m, f): (count, m, k)."""
        (count, k), m = self.v.shape, u.shape[1]
        every = np.repeat(self.u[:, None], m, axis=1)
        every[:, :, self.free] = u
        v = np.repeat(self.v[:, None], m, axis=1)
        moved = self.space.at(every.reshape(-1, k)).reshape(count, m, k)
        v[:, :, self.free] = moved[:, :, self.free]
        return self.space.round(v.reshape(-1, k)).reshape(count, m, k)

    def _slope(self, u: Array) -> Array:
        """Each function's gradient at its own free coordinates u (count, f)."""
        if self.slopes is not None:
            return self.slopes.of(self._at(u[:, None])[:, 0])[:, self.space.continuous_inputs]
        step = self.rules.difference * self.largest * np.eye(u.shape[1])
        beside = np.concatenate([u[:, None] + step, u[:, None] - step], axis=1)
        beside = np.clip(beside, self.low, self.high)
        up, down = np.split(self.own(self._at(beside)), 2, axis=1)
        width = np.einsum("cii->ci", np.subtract(*np.split(beside, 2, axis=1)))
        return np.asarray((up - down) / np.maximum(width, 1e-12))

    def _trials(self, u: Array, step: Array, radius: Array) -> Array:
        """Free coordinates some way along each step (count, f), at most radius: (count, trials, f)."""
        reach = np.maximum(np.abs(step).max(axis=1), 1e-300)
        step = step * np.minimum(1.0, radius / reach)[:, None]
        far = np.array(self.rules.trials)[:, None]
        return np.clip(u[:, None] + far * step[:, None], self.low, self.high)


def _steepest(metric: Array, slope: Array, radius: Array) -> Array:
    """Inverse Hessians (count, f, f): their steps go down slopes (count, f) by radius (count,)."""
    scale = radius / np.maximum(np.abs(slope @ metric).max(axis=1), 1e-300)
    return np.asarray(metric * scale[:, None, None])


def _updated(inverse: Array, s: Array, y: Array, first: Array | None) -> Array:
    """Inverse Hessians (count, f, f) after steps s that changed gradients by y, (count, f) each.

    first: the metric, which the first update scales (Nocedal and Wright, equation 6.20). A step without
    curvature changes nothing.
    """
    curvature, eye = np.einsum("ci,ci->c", s, y), np.eye(s.shape[1])
    good = curvature > 1e-10 * np.linalg.norm(s, axis=1) * np.linalg.norm(y, axis=1)
    if not good.any():
        return inverse
    found, s, y, curvature = inverse[good], s[good], y[good], curvature[good]
    if first is not None:
        found = first * (curvature / np.einsum("ci,ij,cj->c", y, first, y))[:, None, None]
    left = eye - s[:, :, None] * y[:, None] / curvature[:, None, None]
    found = left @ found @ left.transpose(0, 2, 1)
    inverse[good] = found + s[:, :, None] * s[:, None] / curvature[:, None, None]
    return inverse
