"""Trust regions: the share of a batch that goes to where the best points are.

A region is a box around a good point. Its size is read off the archive: it is replayed in order,
block by block, and the box shrinks after a block that has not improved on its centre, and follows
the steps of those that have. Nothing is remembered from one batch to the next, so that a batch can
be derived again from the archive alone.

In a region a Gaussian process of its own is fitted to the nearest points, and functions are drawn
from its posterior; each pick is where one of these is lowest, found by a search of its own
(Thompson sampling). A region in which the drawn functions promise nothing any more has converged:
it gets a pick or two, and the others go to the best points far from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dngo.acquisition import candidates as cand
from dngo.acquisition.local import LocalModel, Paths
from dngo.space import Space
from dngo.surrogates.data import TargetScale
from dngo.surrogates.numerics import child

Array = NDArray[np.float64]

LARGEST, SMALLEST = 0.4, 1e-4  # half the side of a region, in units of a parameter's range
APART = 0.15  # root mean square distance of a region's centre from those of earlier ones
MAX_POINTS = 800  # nearest ones, that a region's model is conditioned on
LEAST_POINTS = 6  # fewer say nothing
BOLDEST = 1.0  # see `LocalModel.paths`: half-hearted draws exploit what is known already
MOST = 128  # functions searched in one region
IMPROVED = 1e-3  # of the targets' deviation: less is no improvement
SHARED, CHILDREN, ROUNDS = 1024, 20, 6  # candidates for all functions; then those of each one's
CHUNK = 64  # functions searched at once
ADDITIVE_SHARES = (0.5, 0.95)  # of the starts of the fits


@dataclass(frozen=True)
class Region:
    """A box around row `centre` of the evaluated points, `half` to either side."""

    centre: int
    half: float


def region(u: Array, targets: Array, block: int) -> Region:
    """The region around the best of points u (n, k), in the order in which they were evaluated.

    targets: (n,) NaN where there is none, in units of their deviation. block: evaluations after
    which the size is reconsidered.
    """
    half, centre = LARGEST, -1
    for start in range(0, len(u), block):
        rows = targets[start : start + block]
        if not np.isfinite(rows).any():
            continue
        best = start + int(np.nanargmin(rows))
        if centre < 0:
            centre = best
        elif targets[best] < targets[centre] - IMPROVED:
            step = float(np.max(np.abs(u[best] - u[centre])))
            half = min(max(2.0 * step, 0.5 * half), LARGEST)
            centre = best
        else:
            if targets[best] < targets[centre]:
                centre = best
            if start + block <= len(u):  # the last block may not be complete
                half = max(0.5 * half, SMALLEST)
    return Region(centre, half)


def regions(u: Array, targets: Array, block: int, count: int) -> list[Region]:
    """Up to `count` regions, the one of the best point first, their centres apart."""
    found: list[Region] = []
    free = np.isfinite(targets)
    for _ in range(count):
        if not free.any():
            break
        found.append(region(u, np.where(free, targets, np.nan), block))
        free &= cand.distances(u, u[[found[-1].centre]])[:, 0] > APART
    return found


@dataclass(frozen=True)
class Local:
    """A region with what is drawn from its models, ready to be searched."""

    space: Space
    u: Array
    v: Array
    region: Region
    inputs: Callable[[Array], Array]
    models: tuple[LocalModel, ...]

    @classmethod
    def fit(
        cls,
        space: Space,
        u: Array,
        v: Array,
        y: Array,
        region: Region,
        rng: np.random.Generator,
        shares: tuple[float, ...] = ADDITIVE_SHARES,
    ) -> Local:
        """u, v: (n, k) coordinates and natural values; y: (n,) objective, NaN where there is none.

        shares: of the additive part at the start of the fits, one for each model.
        """
        near = cand.distances(u, u[[region.centre]])[:, 0]
        near = np.where(np.isfinite(y), near, np.inf)
        rows = np.argsort(near, kind="stable")[: min(MAX_POINTS, int(np.isfinite(y).sum()))]
        x = space.encode(v[rows])
        middle, reach = 0.5 * (x.max(axis=0) + x.min(axis=0)), 0.5 * np.ptp(x, axis=0)
        reach = np.maximum(reach, 1e-6)

        def inputs(v: Array) -> Array:
            return np.clip((space.encode(v) - middle) / reach, -1.5, 1.5)

        targets = TargetScale.fit(y[rows]).to_model(y[rows])
        t = inputs(v[rows])
        models = tuple(LocalModel.fit(t, targets, rng=child(rng), share=share) for share in shares)
        inside = np.all(np.abs(u[rows] - u[region.centre]) <= region.half, axis=1)
        return cls(space, u[rows][inside], v[rows][inside], region, inputs, models)

    def search(
        self,
        centre: Array,
        count: int,
        rng: np.random.Generator,
        penalty: Callable[[Array], Array],
    ) -> tuple[Array, Array]:
        """Good points of `count` drawn functions, best first for each.

        centre: (1, k) natural values. penalty: v (n, k) -> (n,), added to the functions' values.
        Returns v (count, m, k) and their gains on the best point known, (count, m).
        """
        space, half = self.space, self.region.half
        middle = space.unit(centre)[0]

        def clip(v: Array) -> Array:
            return space.from_unit(np.clip(space.unit(v), middle - half, middle + half))

        wide = space.from_unit(middle + half * rng.uniform(-1, 1, (SHARED // 2, space.k)))
        near = clip(
            cand.around(space, centre, SHARED // 2, rng, smallest=0.02 * half, largest=0.5 * half)
        )
        shared = np.concatenate([wide, near, self.v])
        extra = penalty(shared)
        t = self.inputs(shared)
        points, gains = [], []
        boldness = rng.permutation(np.linspace(0.0, BOLDEST, count))
        for i, model in enumerate(self.models):
            for at in range(0, len(boldness[i :: len(self.models)]), CHUNK):
                paths = model.paths(boldness[i :: len(self.models)][at : at + CHUNK], rng)
                values = (paths(t) + extra[:, None]).T  # (paths, shared)
                found, value = self._descend(paths, shared, values, rng, penalty, clip)
                points.append(found)
                # What it adds to the best point known, both by the function drawn: an observed
                # value may be lower by luck alone.
                gains.append(values[:, -len(self.v) :].min(axis=1)[:, None] - value)
        return np.concatenate(points), np.concatenate(gains)

    def _descend(
        self,
        paths: Paths,
        shared: Array,
        values: Array,
        rng: np.random.Generator,
        penalty: Callable[[Array], Array],
        clip: Callable[[Array], Array],
    ) -> tuple[Array, Array]:
        """Each function's own search by random steps that shrink, from its best shared point."""
        space, count = self.space, len(values)
        each = np.arange(count)
        top = np.argpartition(values, min(8, values.shape[1] - 1), axis=1)[:, :8]
        points, found = [shared[top]], [np.take_along_axis(values, top, axis=1)]
        best = values.argmin(axis=1)
        now, lowest = shared[best], values[each, best]
        scale = 0.3 * self.region.half
        for _ in range(ROUNDS):
            parents = np.repeat(now, CHILDREN, axis=0)
            moved = clip(
                cand.around(space, parents, len(parents), rng, smallest=0.1 * scale, largest=scale)
            )
            value = paths.own(self.inputs(moved).reshape(count, CHILDREN, -1))
            value += penalty(moved).reshape(count, CHILDREN)
            moved = moved.reshape(count, CHILDREN, space.k)
            best = value.argmin(axis=1)
            better = value[each, best] < lowest
            now = np.where(better[:, None], moved[each, best], now)
            lowest = np.where(better, value[each, best], lowest)
            points.append(moved)
            found.append(value)
            scale *= 0.5
        v, value = np.concatenate(points, axis=1), np.concatenate(found, axis=1)
        order = np.argsort(value, axis=1, kind="stable")
        return np.take_along_axis(v, order[..., None], axis=1), np.take_along_axis(
            value, order, axis=1
        )


class Crowd:
    """Points that a pick must not repeat, and those that it must keep its distance from."""

    def __init__(self, space: Space, known: set[bytes], pending: Array, least: float) -> None:
        self.space, self.known, self.least = space, known, least
        self.u = np.empty((max(2 * len(pending), 64), space.k))
        self.size = 0
        self.add(pending)

    def add(self, v: Array) -> None:
        if self.size + len(v) > len(self.u):
            more = np.empty((self.size + len(v), self.space.k))
            self.u = np.concatenate([self.u, more])
        self.u[self.size : self.size + len(v)] = self.space.unit(v) if len(v) else 0.0
        self.size += len(v)
        self.known.update(self.space.keys(v) if len(v) else ())

    def first(self, v: Array) -> int | None:
        """The first row of v (n, k) that is new and far enough from the others."""
        fresh = np.array([key not in self.known for key in self.space.keys(v)])
        if self.size and self.least > 0:
            gaps = cand.distances(self.space.unit(v), self.u[: self.size]).min(axis=1)
            fresh &= gaps >= self.least
        return int(np.argmax(fresh)) if fresh.any() else None


def pick(
    space: Space,
    evaluated: Array,
    y: Array,
    size: int,
    block: int,
    rng: np.random.Generator,
    *,
    crowd: Crowd,
    penalty: Callable[[Array], Array],
    count: int = 3,
) -> Array:
    """At most `size` points in up to `count` regions: (m, k). They are added to the crowd."""
    ok = np.isfinite(y)
    if size == 0 or ok.sum() < LEAST_POINTS or space.k == 0:
        return np.empty((0, space.k))
    targets = TargetScale.fit(y[ok]).to_model(y)
    u = space.unit(evaluated)
    picked: list[Array] = []
    found = regions(u, targets, block, count)
    for i, where in enumerate(found):
        rng = child(rng)
        left = size - len(picked)
        if left == 0:
            break
        local = Local.fit(space, u, evaluated, y, where, rng, ADDITIVE_SHARES[: 2 if i == 0 else 1])
        centre = evaluated[[where.centre]]
        points, gains = local.search(centre, min(left, MOST), rng, penalty)
        last = i == len(found) - 1
        for j in range(len(points)):
            # A function that promises nothing here is better spent elsewhere.
            if not last and gains[j, 0] < IMPROVED and j > 0:
                continue
            row = crowd.first(points[j])
            if row is not None:
                picked.append(points[j, row])
                crowd.add(points[j, row][None])
    return np.array(picked).reshape(-1, space.k)
