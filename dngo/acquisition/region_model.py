"""The model of a trust region, and how it is searched.

A Gaussian process of its own is fitted to the points nearest to the region's centre (`Nearby`), functions
are drawn from its posterior, and each is minimised by a search of its own (Thompson sampling). Which of
the models that these points could have is right is told by the points themselves, each left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dngo.acquisition.blind import RULES as BLIND
from dngo.acquisition.blind import neighbours, probes, steps
from dngo.acquisition.candidates import around
from dngo.acquisition.feasibility import of_draws, penalty
from dngo.acquisition.history import History
from dngo.acquisition.minima import Box, Descent, Slopes, minima
from dngo.acquisition.regions import Region
from dngo.acquisition.regions import region as replayed
from dngo.acquisition.spacing import Spacing, distances
from dngo.acquisition.state import BatchState
from dngo.space import Space
from dngo.space.priors import believed
from dngo.surrogates.data import LogScale
from dngo.surrogates.draws import Draws, draw
from dngo.surrogates.local import LocalModel, LocalModels
from dngo.types import Array, Rows

UNKNOWN = 1e6  # deviations that a drawn function is lifted by where its model knows nothing


@dataclass(frozen=True)
class LocalSearch:
    """How a region is modelled, and how the functions drawn there are minimised."""

    regions: int = 4  # in a batch, each at the cost of a fit
    # Evaluations in a box after which it is reconsidered: half of the picks of a batch, as a quarter of
    # them searches elsewhere, but so many for each parameter and so many in all, at least.
    block_for_each: int = 2
    block_least: int = 8
    least_points: int = 6  # ok outcomes; fewer say nothing
    most_points: int = 800  # nearest ones, that a region's model is conditioned on, cubic in cost
    spread_of: int = 1000  # points that the targets' deviation is taken from, apart from each other
    # Of the additive part, where the fits start: one model for each, to rows of its own. Which share it
    # is hardly matters: most fits end in the same mode (benchmarks/rules.md, the trust regions' model).
    additive_shares: tuple[float, ...] = (0.5, 0.95)
    # Points up to which there is a model for each share, in the first region alone: with more of them one
    # model does as well (.88 +- .13 times as high in ten inputs, .89 with one model throughout), and with
    # fewer it does not (1.39 times in five inputs).
    averaged_up_to: int = 400
    # Where walls surround a floor, a model of all points knows the walls. The lowest points, such a share
    # of them and one for each quadratic at least, have a model of their own, for half of the functions,
    # where it foretells them better: by so many nats for each, left out one by one. Sectors in ten inputs
    # end .25 times as high; .33 and .5 of the points do about as well (benchmarks/rules.md, walls and
    # floors).
    lowest_share: float = 0.2
    lowest_least: int = 20  # points, or there is no such model; not measured
    foretold: float = 0.5
    most_functions: int = 128  # searched in one region
    # One function in so many searches the whole space: what is a sum over the parameters, which the
    # model learns from few points, may be lowest far away in some of them. Levy with 20 inputs: 1.2
    # with one in four, 9.2 with none (benchmarks/rules.md, the trust regions' width).
    wide_every: int = 4
    # Share of the low outcomes of the best point's region, whose spread a promised gain is measured by.
    low: float = 0.25
    # A smaller gain than a model's noise is none, or, where the noise is large, than so many deviations of
    # its targets.
    coarsest: float = 1e-3
    # A gain of less is followed nowhere, in units of the targets' deviation. Not measured.
    finest: float = 1e-9
    # Of the functions that promise no improvement, one in so many is followed all the same.
    kept_every: int = 4
    # What a draw's deviation from the mean is multiplied by, at most; from 0, evenly. With half of that
    # trust regions alone end 2.4 times as high, with half as much again 1.2 times (geometric means of 39
    # runs in five inputs, `benchmarks/trust_regions.py`).
    boldest: float = 1.0
    shared: int = 1024  # candidates that all functions share; not measured
    first_step: float = 0.3  # of each function's descent, in units of the box; not measured
    descent: Descent = field(default_factory=Descent)
    at_once: int = 64  # functions searched at once: memory

    def least_block(self, space: Space) -> int:
        """Evaluations in a box, at least, before it is reconsidered."""
        return max(self.block_for_each * space.k, self.block_least)


@dataclass(frozen=True)
class Penalty:
    """What is added to drawn functions.

    doubt: at points (n, k), what people believe of them, smooth: (n,). wall: at points (n, k), in the
    region around a point (1, k), 0 or above any function: (n,).
    """

    doubt: Callable[[Array], Array] | None = None
    wall: Callable[[Array, Array], Array] | None = None

    @classmethod
    def of(cls, state: BatchState) -> Penalty:
        def doubt(v: Array) -> Array:
            # A function drawn is lowered, by deviations of its targets, as an acquisition is multiplied.
            return -state.belief(v)

        def wall(v: Array, centre: Array) -> Array:
            both = state.space.encode(np.concatenate([centre, v]))
            feasibility = state.model.feasibility(both)
            # The centre is known to be feasible: where the model doubts it, it doubts what is near, too.
            least = min(of_draws(state.settings), float(feasibility[0]))
            return penalty(feasibility[1:], least)

        return cls(
            doubt if believed(state.space) else None,
            wall if state.model.heeds_constraints else None,
        )

    def __call__(self, v: Array, centre: Array) -> Array:
        found = np.zeros(len(v)) if self.doubt is None else self.doubt(v)
        return found if self.wall is None else found + self.wall(v, centre)


@dataclass(frozen=True)
class RegionModel:
    """The models of a region, ready to be searched.

    rows: (n,) of the evaluated points that the models were fitted to; v: (n, k) their natural values, u:
    (n, k) their coordinates, inside: (n,) whether they are in the region. centre: (1, k) natural values.
    """

    space: Space
    region: Region
    rows: Rows
    v: Array
    u: Array
    inside: NDArray[np.bool_]
    centre: Array
    local: LocalModels
    rules: LocalSearch

    @classmethod
    def fit(
        cls,
        space: Space,
        history: History,
        region: Region,
        rng: np.random.Generator,
        rules: LocalSearch,
        *,
        is_first: bool,
        lowest: bool = True,
    ) -> RegionModel:
        """is_first: whether it is the region of the best point, for which every candidate is tried.
        lowest: whether the lowest points may have a model of their own."""
        u, y = space.unit(history.v), history.y
        gap = distances(u, u[[region.centre]])[:, 0]
        gap = np.where(np.isfinite(y), gap, np.inf)
        count = min(rules.most_points, int(np.isfinite(y).sum()))
        rows = np.argsort(gap, kind="stable")[:count]
        x, noise = space.encode(history.v[rows]), history.noise[rows]
        local = LocalModels.fit(x, y[rows], noise, rng=rng, thorough=is_first, lowest=lowest)
        return cls.around(space, history, region, rows, local, rules)

    @classmethod
    def around(
        cls,
        space: Space,
        history: History,
        region: Region,
        rows: Rows,
        local: LocalModels,
        rules: LocalSearch,
    ) -> RegionModel:
        """The same models, fitted to these rows, in this region."""
        v, centre = history.v[rows], history.v[[region.centre]]
        u = space.unit(v)
        inside = np.all(np.abs(u - space.unit(centre)) <= region.half, axis=1)
        return cls(space, region, rows, v, u, inside, centre, local, rules)

    def where_believed(self, history: History, block: int) -> RegionModel:
        """In the region that there would be, had every outcome been what the models take it for.

        Where noise multiplies outcomes or has heavy tails, the lowest is luck: nothing in its region is as
        low again, the region shrinks, and the search stays where it is. A deviation is added to the mean,
        as the lowest of many means is a lucky one as well. Under even noise this gained nothing
        (benchmarks/rules.md).
        """
        first = self.local.first
        if not (isinstance(first.scale, LogScale) or len(first.outliers)):
            return self
        mean, variance = first.process.at_rows()
        order = np.argsort(self.rows)
        rows, believed = self.rows[order], (mean + np.sqrt(variance))[order]
        u, batch = self.space.unit(history.v[rows]), history.iteration[rows]
        found, _, _ = replayed(u, believed, batch, block)
        region = Region(int(rows[found.centre]), found.half)
        return self.around(self.space, history, region, self.rows, self.local, self.rules)

    def steps(
        self, y: Array, size: int, rng: np.random.Generator, spacing: Spacing, penalty: Penalty
    ) -> list[Array]:
        """Those of `size` picks that are steps around the best point, as no model predicts anything."""
        d = self.space.d
        if len(self.rows) < (d + 1) * (d + 2) // 2 or not self.local.is_blind:
            return []
        seen = neighbours(self.u, y[self.rows])
        if seen == "unlike":
            return []
        count, largest = size, self.region.half
        if seen == "unknown":
            count, largest = probes(size), BLIND.probing * largest
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

        Functions that promise nothing here are most of them better spent elsewhere; beside a point that is
        taken a function may have nothing to offer, either. turn: points of the study before these.
        """
        picked: list[Array] = []
        if number == 0:
            return picked
        rules = self.rules
        points, gains = self.search(min(number, rules.most_functions), rng, penalty, turn=turn)
        spare = (turn + number) // rules.kept_every - turn // rules.kept_every
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

    def depth(self, y: Array) -> float:
        """How far the best outcome lies below most: what a promised gain is measured by.

        By the spread of a whole study no later gain counts where outcomes span many orders of magnitude.
        Other regions are judged by that spread: they get a batch's picks where they promise much.
        """
        known = y[np.delete(self.rows, self.local.first.outliers)]
        return float(np.quantile(known, self.rules.low) - known.min())

    def search(
        self, count: int, rng: np.random.Generator, penalty: Penalty, *, turn: int = 0
    ) -> tuple[Array, Array]:
        """Good points of `count` drawn functions, in the region or some in the whole space.

        Each of the models has as many of them as its weight says. penalty: added to the functions. turn:
        points before these, so that models and boxes take turns where batches are single points as well.
        Returns v (count, m, k), best first for each, and their gains on the best point known, (count, m),
        in units of the objective.
        """
        local, every = self.local, self.rules.wide_every
        number = turn + np.arange(count)
        wide = number % every == every - 1
        of_all = np.array([float(m.is_of_all) for m in local.models])
        which = np.where(
            wide,
            _shared(local.weights * of_all, number // every),
            _shared(local.weights, number - number // every),
        )
        found = [
            self._search_box(model, half, int(np.sum(mine)), rng, penalty)
            for i, model in enumerate(local.models)
            for half, mine in (
                (self.region.half, (which == i) & ~wide),
                (1.0, (which == i) & wide),
            )
            if mine.any()
        ]
        points, gains = (np.concatenate(part) for part in zip(*found, strict=True))
        # Where few promise enough to be followed, these are of all kinds.
        order = rng.permutation(count)
        return points[order], gains[order]

    def _search_box(
        self,
        model: LocalModel,
        half: float,
        count: int,
        rng: np.random.Generator,
        penalty: Penalty,
    ) -> tuple[Array, Array]:
        """The same of one model's functions, in the box of this half side around the centre."""
        space, rules, process = self.space, self.rules, model.process
        box = Box.around(space, self.centre, half)
        number = rules.shared // 2
        wide = space.from_unit(rng.uniform(box.low, box.high, (number, space.k)))
        near = around(space, self.centre, number, rng, smallest=0.02 * half, largest=0.5 * half)
        known = self.v[model.rows][self.inside[model.rows]]
        known = known if len(known) else self.centre
        shared = np.concatenate([wide, box.clip(near), known])
        t = model.inputs(space.encode(shared))
        extra = penalty(shared, self.centre) + _unknown(model, t)
        points, gains = [], []

        def step(v: Array, largest: float) -> Array:
            moved = around(space, v, len(v), rng, smallest=0.1 * largest, largest=largest)
            return box.clip(moved)

        boldness = rules.boldest * (rng.permutation(count) + rng.random()) / count
        for at in range(0, count, rules.at_once):
            draws = draw([process], boldness[at : at + rules.at_once], rng)
            values = draws(t) + extra  # (functions, shared)
            found, value = minima(
                shared,
                values,
                self._own(model, draws, penalty),
                step,
                box=box,
                largest=rules.first_step * half,
                rules=rules.descent,
                slopes=self._slopes(model, draws, penalty),
            )
            points.append(found)
            # What it adds to the best point known, both by the function drawn: an observed
            # value may be lower by luck alone. Below the model's resolution it is nothing.
            lowest = values[:, -len(known) :].min(axis=1)[:, None]
            told = lowest - value > min(float(np.sqrt(process.noise[0])), rules.coarsest)
            gain = model.scale.to_objective(lowest) - model.scale.to_objective(value)
            gains.append(np.where(told, gain, 0.0))
        return np.concatenate(points), np.concatenate(gains)

    def _slopes(self, model: LocalModel, draws: Draws, penalty: Penalty) -> Slopes | None:
        # A wall has no slope. What people believe has one that is not written out, and known constraints
        # turn a step aside: there differences see what a slope would not.
        if penalty.doubt is not None or self.space.conditions or not draws.has_slopes:
            return None

        def slopes(v: Array) -> Array:
            x = self.space.encode(v)
            return model.slopes(x, draws.slopes(model.inputs(x)))

        return Slopes(slopes, model.metric(self.space.continuous_inputs))

    def _own(self, model: LocalModel, draws: Draws, penalty: Penalty) -> Callable[[Array], Array]:
        def own(v: Array) -> Array:
            flat = v.reshape(-1, v.shape[2])
            t = model.inputs(self.space.encode(flat))
            values = draws.own(t.reshape(*v.shape[:2], -1))
            extra = penalty(flat, self.centre) + _unknown(model, t)
            return values + extra.reshape(v.shape[:2])

        return own


def _shared(weights: Array, number: Rows) -> Rows:
    """Which of some models has each numbered function, in proportion to weights (k,): (n,).

    By van der Corput's sequence, so that any few in a row are in proportion as well.
    """
    ends = np.cumsum(weights) / weights.sum()
    place, base, left = np.zeros(len(number)), 0.5, number.copy()
    while left.any():
        place += base * (left % 2)
        left, base = left // 2, base / 2
    return np.minimum(np.searchsorted(ends, place, side="right"), len(weights) - 1)


def _unknown(model: LocalModel, t: Array) -> Array:
    """A wall around the lowest points, as their model knows nothing beyond: t (n, d) -> (n,)."""
    if model.is_of_all:
        return np.zeros(len(t))
    known = np.square(model.process.x).sum(axis=1).max()
    return np.where(np.square(t).sum(axis=1) > known, UNKNOWN, 0.0)
