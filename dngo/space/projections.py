"""Moves points that break a condition onto it: by projections, onto grids, and by solving
equalities."""

from __future__ import annotations

import numpy as np

from dngo.space.columns import edges
from dngo.space.conditions import RELATIVE, Condition
from dngo.space.equalities import Equalities
from dngo.space.scales import LINEAR, LOGARITHMIC
from dngo.space.unconstrained import Unconstrained
from dngo.types import Array, Mask

PROJECTIONS = 30  # rounds over the conditions
OVERSHOOT = 1.02  # of a step along a slope, which is straight only to begin with


class Projections:
    """Projects points onto one condition of a space after another: onto linear ones exactly, onto
    others by their slope.

    atoms: single values of columns that a condition demands.
    """

    def __init__(
        self, space: Unconstrained, equalities: Equalities, atoms: dict[int, float]
    ) -> None:
        self.space, self.columns, self.conditions = space, space.columns, space.conditions
        self.equalities, self.atoms = equalities, atoms
        self.ordered = np.array([c.choices is None for c in self.columns])
        limits = np.array([(c.low, c.high) for c in self.columns]).reshape(-1, 2).T
        self.lowest, self.highest = space.axes.coordinates(limits)

    def projected(self, v: Array) -> Array:
        """Points v (n, k) after projections onto the conditions, on their grids. Some may still
        break one."""
        u = self.space.unit(v)
        inactive = np.isnan(v)
        frozen = ~self.ordered | inactive
        rows = np.arange(len(v))  # those that still move
        for _ in range(PROJECTIONS):
            before, now, still = u[rows], u[rows], frozen[rows]
            for condition in self.conditions:
                here = self.space.axes.between(now)
                here[inactive[rows]] = np.nan
                if condition.most is not None:
                    now, still = self._fewest(condition, here, now, still)
                else:
                    now = now - self._step(condition, here, now, still)
            now = np.clip(now, self.lowest, self.highest)
            u[rows], frozen[rows] = now, still
            rows = rows[np.abs(now - before).max(axis=1, initial=0.0) > 1e-12]
            if len(rows) == 0:
                break
        here = self.space.axes.between(u)
        here[:, ~self.ordered] = v[:, ~self.ordered]
        return self.settled(here)

    def settled(self, v: Array) -> Array:
        """Values v (n, k) on the grids of the space, its atoms and its equalities."""
        for j, value in self.atoms.items():
            column = self.columns[j]
            at = np.abs(v[:, j] - value) <= RELATIVE * (column.high - column.low)
            v[:, j] = np.where(at, value, v[:, j])
        return self.equalities.solve(self.space.on_grid(v))

    def _step(self, condition: Condition, v: Array, u: Array, frozen: Mask) -> Array:
        """The step (n, k) in coordinates onto a condition, zero where it holds."""
        step = np.zeros_like(u)
        rows = np.flatnonzero(~np.isnan(v[:, list(condition.columns)]).any(axis=1))
        if condition.linear is not None:
            over = np.nan_to_num(v[rows]) @ condition.linear.coefficients - condition.linear.bound
            if not condition.linear.equality:
                rows, over = rows[over > 0], over[over > 0]
            slope = condition.linear.coefficients * self._rate(v[rows])
        else:
            rows = rows[condition.excess(v[rows]) > 0]
            measure = condition.gap or condition.excess
            over = measure(v[rows]) * (OVERSHOOT if condition.gap is None else 1.0)
            slope = self._slope(condition, v[rows], u[rows])
        slope = np.where(frozen[rows], 0.0, slope)
        with np.errstate(over="ignore"):
            length = (slope**2).sum(axis=1)
        ok = (length > 0) & np.isfinite(length) & np.isfinite(over)
        step[rows[ok]] = (over[ok] / length[ok])[:, None] * slope[ok]
        return step

    def _rate(self, v: Array) -> Array:
        """How much values v (n, k) change with their coordinates: (n, k)."""
        rate = np.zeros(v.shape)
        for j, column in enumerate(self.columns):
            low, high = edges(column)
            to = column.scale.to
            if column.scale in (LINEAR, LOGARITHMIC):
                rate[:, j] = v[:, j] * np.log(high / low) if column.log else high - low
                continue
            width = 1e-6 * (high - low)
            below, above = np.maximum(v[:, j] - width, low), np.minimum(v[:, j] + width, high)
            whole = np.diff(to(np.array([low, high])))
            rate[:, j] = whole * (above - below) / (to(above) - to(below))
        return np.nan_to_num(rate)

    def _slope(self, condition: Condition, v: Array, u: Array, width: float = 1e-6) -> Array:
        """The gradient of a condition's excess in coordinates, by central differences: (n, k)."""
        slope, measure = np.zeros(u.shape), condition.gap or condition.excess
        above, below = self.space.axes.between(u + width), self.space.axes.between(u - width)
        for j in condition.columns:
            if not self.ordered[j]:
                continue
            beside = v.copy()
            beside[:, j] = above[:, j]
            up = measure(beside)
            beside[:, j] = below[:, j]
            with np.errstate(invalid="ignore", over="ignore"):
                slope[:, j] = (up - measure(beside)) / (2.0 * width)
        return np.nan_to_num(slope, posinf=0.0, neginf=0.0)

    def _fewest(self, condition: Condition, v: Array, u: Array, frozen: Mask) -> tuple[Array, Mask]:
        """Coordinates after the smallest amounts were set to zero, if too many are above it; they
        stay zero."""
        assert condition.most is not None
        columns, most = np.array(condition.most[0]), condition.most[1]
        rows = np.flatnonzero(~condition.holds(v))
        if len(rows) == 0:
            return u, frozen
        u, frozen = u.copy(), frozen.copy()
        size = np.abs(v[np.ix_(rows, columns)]) / [
            max(abs(self.columns[j].low), abs(self.columns[j].high)) for j in columns
        ]
        smallest = columns[np.argsort(size, axis=1, kind="stable")][:, : len(columns) - most]
        # a logarithmic scale has no zero, so its lower end is taken
        with np.errstate(divide="ignore"):
            zero = self.space.axes.coordinates(np.zeros((1, len(self.columns))))[0]
        u[rows[:, None], smallest] = zero[smallest]
        frozen[rows[:, None], smallest] = True
        return u, frozen
