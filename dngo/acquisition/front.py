"""Functions drawn from the models of several objectives, as the targets of picks, and the search
for their minima: in boxes along the front, and in the whole space.

The archive is replayed in order, batch by batch. It says how large the boxes are, and which share of
a batch is theirs. Nothing is remembered between batches, so that a batch can be derived again from
the archive alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from dngo.acquisition.aims import Corner, aimed
from dngo.acquisition.allocation import following
from dngo.acquisition.feasibility import penalty
from dngo.acquisition.history import batches
from dngo.acquisition.minima import Box, Slopes, descent_of, minima
from dngo.acquisition.state import BatchState
from dngo.fronts import on_front, ranks
from dngo.rules import current
from dngo.surrogates.component import Component
from dngo.surrogates.data import TargetScale
from dngo.surrogates.draws import Draws, draw
from dngo.surrogates.nearby import MOST, Nearby
from dngo.types import Array, Mask, Rows

AT_ONCE = 256  # functions of several objectives in the whole space: memory


@dataclass(frozen=True)
class Searched:
    """Functions, and the good points of each.

    rows: (f,) their numbers among the functions that were asked for. points: (f, n, k), the best of
    each first;
    values: (f, n) of the functions; outcomes: (f, m) the objectives drawn at the best point.
    """

    rows: Rows
    points: Array
    values: Array
    outcomes: Array


@dataclass(frozen=True)
class Believed:
    """One objective: the components to draw from, the part of encoded points that they see, and the
    scale of their targets. near: the processes fitted along the front, if there are any."""

    components: Sequence[Component]
    scale: TargetScale
    near: Nearby | None = None

    def inputs(self, x: Array) -> Array:
        return x if self.near is None else self.near.inputs(x)


@dataclass(frozen=True)
class Aims:
    """Of functions: ray (f, m); boldness (f,), the factors on deviations; least (f,), the least
    feasibility of a point."""

    ray: Array
    boldness: Array
    least: Array

    def of(self, rows: Rows) -> Aims:
        """Those of some functions."""
        return Aims(self.ray[rows], self.boldness[rows], self.least[rows])


class Aimed:
    """Functions drawn from the models of all objectives, as the targets of picks: low is good.

    A wall is added where feasibility is less than the least of the function's pick, and people's priors
    and a point's cost.
    """

    def __init__(
        self,
        state: BatchState,
        believed: Sequence[Believed],
        corner: Corner,
        aims: Aims,
        rng: np.random.Generator,
    ) -> None:
        self.state, self.space, self.believed, self.corner = state, state.space, believed, corner
        self.ray, self.least = aims.ray, aims.least
        self.draws: list[Draws] = [draw(b.components, aims.boldness, rng) for b in believed]

    def among(self, v: Array, x: Array) -> Array:
        """All functions at points v (n, k), encoded x (n, d): (count, n)."""
        values = [
            b.scale.to_objective(d(b.inputs(x)))
            for b, d in zip(self.believed, self.draws, strict=True)
        ]
        heights = self.corner.heights(np.stack(values, axis=-1))
        return aimed(heights, self.ray[:, None]) + self._added(v, x, 1)

    def own(self, v: Array) -> Array:
        """Each function at points of its own: v (count, m, k) -> (count, m)."""
        flat = v.reshape(-1, v.shape[2])
        x = self.space.encode(flat)
        heights = self.corner.heights(self._values(x, v.shape[1]))
        return aimed(heights, self.ray[:, None]) + self._added(flat, x, len(v))

    def outcomes(self, v: Array) -> Array:
        """The objectives of each function at a point of its own: v (count, k) -> (count, m)."""
        return self._values(self.space.encode(v), 1)[:, 0]

    def slopes(self, v: Array) -> Array:
        """Gradients of `own` without `_added`, each function at its own point: (count, k) -> (count, d)."""
        x = self.space.encode(v)
        values = self._values(x, 1)[:, 0]
        steepest = (self.corner.heights(values) / self.ray).argmax(axis=1)
        found = np.zeros_like(x)
        for j, (b, d) in enumerate(zip(self.believed, self.draws, strict=True)):
            assert b.near is not None
            weight = current().front.augmented + (steepest == j) / self.ray[:, j]
            by_target = np.exp(-b.scale.log_slope(values[:, j])) / self.corner.width[j]
            found += (weight * by_target)[:, None] * b.near.slopes(x, d.slopes(b.inputs(x)))
        return found

    def _added(self, v: Array, x: Array, count: int) -> Array:
        """What is added at points v (n, k), encoded x: (count, n / count), or of all functions with
        a count of 1."""
        # The cost's logarithm is added: the function has no zero from which a gain could be
        # measured and divided.
        found: Array = -np.log(np.maximum(self.state.rate(v, x), 1e-300)).reshape(count, -1)
        if self.state.model.heeds_constraints:
            feasibility = self.state.model.feasibility(x).reshape(count, -1)
            found = found + penalty(feasibility, self.least[:, None])
        return found

    def _values(self, x: Array, number: int) -> Array:
        """Each objective of each function at `number` points of its own: (count, number, m)."""
        shape = (len(self.ray), number, -1)
        return np.stack(
            [
                b.scale.to_objective(d.own(b.inputs(x).reshape(shape)))
                for b, d in zip(self.believed, self.draws, strict=True)
            ],
            axis=-1,
        )


def course(u: Array, values: Array, batch: Rows, block: int, usual: float) -> tuple[float, float]:
    """Half the side of boxes, and their share of a batch, after the batches so far.

    u: (n, k) the points in the unit cube, values: (n, m) their objectives, minimised, NaN unless ok;
    batch: (n,) rising numbers. block: evaluations in boxes after which their size is reconsidered. usual:
    the share as long as the study's course says nothing.
    """
    rules, largest = current().front, current().regions.largest
    ok: Mask = np.asarray(np.isfinite(values).all(axis=1))
    half, tried, won = largest, 0, 0
    inside, paid = np.zeros(len(u), dtype=np.bool_), np.zeros(len(u), dtype=np.bool_)
    front = np.empty(0, dtype=np.intp)
    for rows in (np.arange(one.start, one.stop) for one in batches(batch)):
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
                half = min(rules.growth * half, largest)
            elif won < 0.5 * rules.often * tried:
                half = max(0.5 * half, rules.smallest)
            tried, won = 0, 0
    if not 0 < usual < 1 or not len(batch):
        return half, usual
    share = following(inside, paid, batch, block, usual)
    least, most = min(rules.least_share, usual), max(rules.most_share, usual)
    return half, float(np.clip(share, least, most))


class Boxes:
    """Boxes around points of the front. All boxes use the same processes, fitted to these
    points."""

    def __init__(self, state: BatchState, half: float, rng: np.random.Generator) -> None:
        self.state, self.half, self.rng = state, half, rng
        self.rules = current().front
        history, space = state.history, state.space
        values = history.outcomes
        ok = np.flatnonzero(np.isfinite(values).all(axis=1))
        self.u = space.unit(history.v)
        self.values = values
        # The points nearest to the front; equals in random order.
        order = ok[np.lexsort((rng.random(len(ok)), ranks(values[ok])))]
        # Points that broke a constraint teach as well. The ones near feasible points come first.
        broke = np.setdiff1d(np.flatnonzero(np.isfinite(history.reported).all(axis=1)), ok)
        x = space.encode(history.v)
        nearby = cdist(x[broke], x[order[:MOST]]).min(axis=1, initial=np.inf)
        order = np.concatenate([order, broke[np.argsort(nearby, kind="stable")]])
        self.rows: Rows = order[:MOST]
        x = x[self.rows]
        none = np.full(len(values), np.nan)
        self.believed = []
        for name, own in zip(history.objectives, rng.spawn(values.shape[1]), strict=True):
            y = history.objectives[name][self.rows]
            noise = history.noises.get(name, none)[self.rows]
            near = Nearby.fit(x, y, noise, turn=False, rng=own)
            self.believed.append(Believed([near.model], near.scale, near))

    def search(self, corner: Corner, aims: Aims) -> Iterator[Searched]:
        """Good points of functions with rays from a corner, box by box."""
        count = min(self.rules.boxes, max(1, len(aims.ray) // self.rules.picks_of_a_box))
        anchors = aims.ray[:count]
        nearest = np.argmax(_directions(aims.ray) @ _directions(anchors).T, axis=1)
        for a in range(count):
            mine = np.flatnonzero(nearest == a)
            if len(mine):
                yield replace(self._in_box(corner, anchors[a], aims.of(mine)), rows=mine)

    def _in_box(self, corner: Corner, anchor: Array, aims: Aims) -> Searched:
        state, rng, space = self.state, self.rng, self.state.space
        best = int(np.nanargmin(aimed(corner.heights(self.values), anchor)))
        centre, half = state.history.v[[best]], self.half
        box = Box.around(space, centre, half)
        inside = np.all(np.abs(self.u[self.rows] - self.u[best]) <= half, axis=1)
        shared = box.shared(centre, half, state.history.v[self.rows[inside]], rng)
        if state.model.heeds_constraints:
            # The centre is known to be feasible. If the model doubts that, it doubts the neighbours
            # as well.
            doubted = state.model.feasibility(space.encode(centre))
            aims = replace(aims, least=np.minimum(aims.least, doubted))
        functions = Aimed(state, self.believed, corner, aims, rng)

        points, values = minima(
            shared,
            functions.among(shared, space.encode(shared)),
            functions.own,
            rng,
            box=box,
            largest=current().descent.step * half,
            slopes=self._slopes(functions),
        )
        return Searched(np.arange(len(aims.ray)), points, values, functions.outcomes(points[:, 0]))

    def _slopes(self, functions: Aimed) -> Slopes | None:
        # Known constraints bend a step. Finite differences see that, and an analytic slope does
        # not.
        if self.state.space.conditions or not all(d.has_slopes for d in functions.draws):
            return None
        inputs = self.state.space.continuous_inputs
        metric = [b.near.metric(inputs) for b in self.believed if b.near is not None]
        return Slopes(functions.slopes, np.mean(metric, axis=0))


def everywhere(state: BatchState, corner: Corner, aims: Aims) -> Iterator[Searched]:
    """Like `Boxes.search`, in the whole space, by the surrogates."""
    space, pool, rng = state.space, state.candidates, state.streams["front"]
    rows = state.shared_rows(len(aims.ray), rng)
    if not len(rows):
        return
    models = [state.model.objectives[name] for name in state.history.objectives]
    believed = [Believed(m.objective, m.scale) for m in models]

    for start in range(0, len(aims.ray), AT_ONCE):
        mine = np.arange(start, min(start + AT_ONCE, len(aims.ray)))
        functions = Aimed(state, believed, corner, aims.of(mine), rng)
        points, values = minima(
            pool.v[rows],
            functions.among(pool.v[rows], pool.x[rows]),
            functions.own,
            rng,
            box=Box.whole(space),
            largest=current().descent.step_wide,
            rules=descent_of(space),
        )
        yield Searched(mine, points, values, functions.outcomes(points[:, 0]))


def _directions(ray: Array) -> Array:
    return np.asarray(ray / np.linalg.norm(ray, axis=1, keepdims=True))
