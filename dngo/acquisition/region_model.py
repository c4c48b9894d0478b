"""The model of a trust region, and how it is searched.

The region has its own Gaussian process, fitted to the points nearest to its centre (`Nearby`). Functions
are drawn from its posterior, and each is minimised by its own search (Thompson sampling). Several
models are fitted to these points. The one that best predicts each point from all others is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dngo.acquisition.allocation import Functions, followed_anyway, probes
from dngo.acquisition.blind import neighbours, steps
from dngo.acquisition.feasibility import of_draws, penalty
from dngo.acquisition.history import History
from dngo.acquisition.minima import AT_ONCE, Box, Slopes, minima
from dngo.acquisition.regions import Region
from dngo.acquisition.regions import region as replayed
from dngo.acquisition.spacing import Spacing, distances
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.space import Space
from dngo.space.priors import believed
from dngo.surrogates.draws import Draws, draw, spread_evenly
from dngo.surrogates.nearby import MOST, Nearby
from dngo.surrogates.selection import predicts_better
from dngo.types import Array, Rows

MOST_FUNCTIONS = 128  # searched in one region
UNKNOWN = 1e6  # deviations by which drawn functions are lifted where their model knows nothing


@dataclass(frozen=True)
class Penalty:
    """Terms added to drawn functions.

    doubt: points (n, k) -> (n,), from people's priors, smooth. wall: points (n, k) in the region around a
    point (1, k) -> (n,), 0 or above any function.
    """

    doubt: Callable[[Array], Array] | None = None
    wall: Callable[[Array, Array], Array] | None = None

    @classmethod
    def of(cls, state: BatchState) -> Penalty:
        def wall(v: Array, centre: Array) -> Array:
            both = state.space.encode(np.concatenate([centre, v]))
            feasibility = state.model.feasibility(both)
            # The centre is known to be feasible. If the model doubts that, it doubts the neighbours
            # as well.
            least = min(of_draws(state.shared), float(feasibility[0]))
            return penalty(feasibility[1:], least)

        return cls(
            # In an acquisition the prior is a factor. Here it is a term, in deviations of the
            # targets.
            (lambda v: -state.belief(v)) if believed(state.space) else None,
            wall if state.model.heeds_constraints else None,
        )

    def __call__(self, v: Array, centre: Array) -> Array:
        found = np.zeros(len(v)) if self.doubt is None else self.doubt(v)
        return found if self.wall is None else found + self.wall(v, centre)


def _near(
    space: Space, history: History, rows: Rows, *, turn: bool, rng: np.random.Generator
) -> Nearby:
    """The process of these rows of a history."""
    x, noise = space.encode(history.v[rows]), history.noise[rows]
    return Nearby.fit(x, history.y[rows], noise, turn=turn, rng=rng)


@dataclass(frozen=True)
class RegionModel:
    """The models of a region, ready to be searched.

    rows: (n,) of the history's points that `near` was fitted to. lowest: the model of the region's lowest
    points, if it predicts them better. floor: a further model, which tells low points apart where a
    few high ones would hide their differences. is_lowest: whether this is itself a model of the
    lowest points.
    """

    space: Space
    history: History
    region: Region
    rows: Rows
    near: Nearby
    lowest: RegionModel | None = None
    floor: RegionModel | None = None
    is_lowest: bool = False

    @classmethod
    def fit(
        cls,
        space: Space,
        history: History,
        region: Region,
        rng: np.random.Generator,
        *,
        is_first: bool,
    ) -> RegionModel:
        """is_first: whether it is the region of the best point. Only there turned axes are tried."""
        u, y = space.place(history.v, apart=0.0), history.y
        gap = distances(u, u[[region.centre]])[:, 0]
        gap = np.where(np.isfinite(y), gap, np.inf)
        count = min(MOST, int(np.isfinite(y).sum()))
        rows = np.argsort(gap, kind="stable")[:count]
        near = _near(space, history, rows, turn=is_first, rng=rng)
        return cls(space, history, region, rows, near)

    @property
    def centre(self) -> Array:
        """The middle of the region, natural values: (1, k)."""
        return self.history.v[[self.region.centre]]

    @cached_property
    def u(self) -> Array:
        """Coordinates of the points that the model was fitted to: (n, k)."""
        return self.space.place(self.history.v[self.rows], apart=0.0)

    @cached_property
    def v(self) -> Array:
        """Those of these points that lie in the region, natural values: (m, k)."""
        middle = self.space.place(self.centre, apart=0.0)
        inside = np.all(np.abs(self.u - middle) <= self.region.half, axis=1)
        return self.history.v[self.rows[inside]]

    def where_believed(self, block: int) -> RegionModel:
        """The region if each outcome had been the models' mean there.

        If noise multiplies outcomes or has heavy tails, the lowest outcome is luck. No other
        outcome in its region is as low, so the region would shrink and the search would not move.
        One deviation is added to the mean, because the lowest of many means is partly luck as well.
        Under even noise this gained nothing
        (benchmarks/tried.md).
        """
        if not self.near.by_logarithms and not len(self.near.outliers):
            return self
        order = np.argsort(self.rows)
        rows, believed = self.rows[order], np.add(*self.near.at_rows())[order]
        found = replayed(self.u[order], believed, self.history.iteration[rows], block)
        return replace(self, region=Region(int(rows[found.centre]), found.half))

    def with_lowest(self, rng: np.random.Generator) -> RegionModel:
        """The same, with a model of the lowest points if it predicts them better.

        Under noise there is no such model, because the lowest points are the luckiest ones.
        """
        rules, n = current().search, len(self.rows)
        least = (self.space.d + 1) * (self.space.d + 2) // 2
        count = max(least, rules.lowest_least, int(rules.lowest_share * n))
        if count > n // 2 or self.near.is_noisy:
            return self
        order = np.argsort(self.near.y, kind="stable")
        order = order[~np.isin(order, self.near.outliers)][:count]
        rows = self.rows[order]
        near = _near(self.space, self.history, rows, turn=True, rng=rng.spawn(1)[0])
        level = float(np.quantile(self.near.y, current().selection.low))
        scores = near.log_scores(level), self.near.log_scores(level)[order]
        if near.is_noisy or not predicts_better(*scores, n):
            return self
        return replace(self, lowest=replace(self, rows=rows, near=near, is_lowest=True))

    def with_floor(self, rng: np.random.Generator, *, is_first: bool) -> RegionModel:
        """The same, with a model that tells low outcomes apart where high ones would hide their
        differences (`Nearby.resolved`).

        It replaces the model of all points, unless there is also a model of the lowest points.
        """
        near = self.near.resolved(turn=is_first, rng=rng.spawn(1)[0])
        if near is self.near:
            return self
        found = replace(self, near=near, lowest=None)
        return found if self.lowest is None else replace(self, floor=found)

    def steps(
        self, size: int, rng: np.random.Generator, spacing: Spacing, penalty: Penalty
    ) -> list[Array]:
        """Steps around the best point, at most `size` of them. There are none if the models are of use."""
        seen = neighbours(self.u, self.near.y)
        centre = self.space.place(self.centre, apart=0.0)
        if seen == "unlike" or not self.near.is_blind(self.u, centre, alike=seen == "alike"):
            return []
        count, largest = size, self.region.half
        if seen == "unknown":
            count, largest = probes(size), current().steps.probing * largest
        return steps(self.centre, largest, count, rng, spacing=spacing, penalty=penalty)

    def followed(
        self,
        number: int,
        least: float,
        rng: np.random.Generator,
        spacing: Spacing,
        penalty: Penalty,
        *,
        turn: int,
    ) -> list[Array]:
        """At most `number` points (k,), one of each drawn function that promises a gain of `least`.

        A function that promises nothing here gets few picks: they are better spent elsewhere. A
        function also gets none if its minima are taken. turn: points of the study before these.
        """
        picked: list[Array] = []
        if number == 0:
            return picked
        points, gains = self.search(min(number, MOST_FUNCTIONS), rng, penalty, turn=turn)
        spare = followed_anyway(turn, number)
        for lowest, gain in zip(points, gains, strict=True):
            if gain[0] < least and spare == 0:
                continue
            row = spacing.first(lowest)
            if row is None or (gain[row] < least and spare == 0):
                continue
            spare -= int(gain[row] < least)
            picked.append(lowest[row])
            spacing.add(lowest[[row]])
        return picked

    @property
    def depth(self) -> float:
        """How far the best outcome lies below most others: the unit of promised gains.

        If outcomes span many orders of magnitude, the spread of a whole study would hide later
        gains. Only other regions are judged by that spread: they get picks if they promise much.
        """
        # Each value counts once. Otherwise, if a quarter of the points had the best value, any gain
        # would be enough.
        known = np.unique(np.delete(self.near.y, self.near.outliers))
        return float(np.quantile(known, current().selection.low) - known.min())

    def search(
        self, count: int, rng: np.random.Generator, penalty: Penalty, *, turn: int = 0
    ) -> tuple[Array, Array]:
        """Good points of `count` drawn functions, in the region or for some in the whole space.

        Each model has as many functions. penalty: added to them. turn: the number of earlier
        points, so that the models take turns even if batches are single points. Returns v (count,
        m, k), each function's
        best first, and their gains on the best known point, (count, m), in units of the objective.
        """
        half = self.region.half
        each = Functions.of(
            turn, count, lowest=self.lowest is not None, floor=self.floor is not None
        )
        found = [
            model._search_box(side, number, rng, penalty)
            for model, side, number in (
                (self, half, each.plain),
                (self.floor or self, 1.0, each.wide),
                (self.lowest, half, each.lowest),
                (self.floor, half, each.floor),
            )
            if model is not None and number > 0
        ]
        points, gains = (np.concatenate(part) for part in zip(*found, strict=True))
        # If few functions promise enough to be followed, functions of every kind are among them.
        order = rng.permutation(count)
        return points[order], gains[order]

    def _search_box(
        self, half: float, count: int, rng: np.random.Generator, penalty: Penalty
    ) -> tuple[Array, Array]:
        """Like `search`, in the box of this half side around the centre."""
        space, search = self.space, current().search
        rules = current().descent
        box = Box.around(space, self.centre, half)
        shared = box.shared(self.centre, half, self.v, rng)
        t = self.near.inputs(space.encode(shared))
        extra = penalty(shared, self.centre) + self._unknown(t)
        points, gains = [], []
        boldness = spread_evenly(rules.boldest, count, rng)
        for at in range(0, count, AT_ONCE):
            draws = draw([self.near.model], boldness[at : at + AT_ONCE], rng)
            values = draws(t) + extra  # (functions, shared)
            found, value = minima(
                shared,
                values,
                self._own(draws, penalty),
                rng,
                box=box,
                largest=rules.step * half,
                slopes=self._slopes(draws, penalty),
            )
            points.append(found)
            # The drawn function gives both values of a gain, also the best known point's: its
            # observed value may be low by luck alone. Below the model's resolution the gain is 0.
            known = values[:, -len(self.v) :].min(axis=1)[:, None]
            resolution = min(float(np.sqrt(self.near.model.noise[0])), search.coarsest)
            gain = self.near.scale.to_objective(known) - self.near.scale.to_objective(value)
            gains.append(np.where(known - value > resolution, gain, 0.0))
        return np.concatenate(points), np.concatenate(gains)

    def _unknown(self, t: Array) -> Array:
        """A wall around the lowest points, because their model knows nothing beyond them. t (n, d)
        -> (n,)."""
        if not self.is_lowest:
            return np.zeros(len(t))
        known = np.square(self.near.model.x).sum(axis=1).max()
        return np.where(np.square(t).sum(axis=1) > known, UNKNOWN, 0.0)

    def _slopes(self, draws: Draws, penalty: Penalty) -> Slopes | None:
        # Finite differences, where there is no analytic slope: at a wall, with people's priors, and
        # where known constraints bend a step.
        if penalty.doubt is not None or self.space.conditions or not draws.has_slopes:
            return None

        def slopes(v: Array) -> Array:
            x = self.space.encode(v)
            return self.near.slopes(x, draws.slopes(self.near.inputs(x)))

        return Slopes(slopes, self.near.metric(self.space.continuous_inputs))

    def _own(self, draws: Draws, penalty: Penalty) -> Callable[[Array], Array]:
        def own(v: Array) -> Array:
            flat = v.reshape(-1, v.shape[2])
            t = self.near.inputs(self.space.encode(flat))
            values = draws.own(t.reshape(*v.shape[:2], -1))
            extra = penalty(flat, self.centre) + self._unknown(t)
            return values + extra.reshape(v.shape[:2])

        return own
