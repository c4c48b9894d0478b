"""Trust regions: the share of a batch that goes to where the best points are.

A region is a box around a good point. Its size is read off the archive: it is replayed in order,
batch by batch, and the box shrinks after a block of evaluations in it that has not improved on its
centre, and follows the steps of those that have. How much of a batch goes to regions is read off it
too, from whether points in them or elsewhere have paid. Nothing is remembered from one batch to the
next, so that a batch can be derived again from the archive alone.

In a region a Gaussian process of its own is fitted to the nearest points, and functions are drawn
from its posterior; each pick is where one of these is lowest, found by a search of its own
(Thompson sampling). A region in which the drawn functions promise nothing any more has converged:
it keeps a few picks, and the others go to the best points that do not lie on the way to it, and what
these cannot use back to the search of the whole space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from dngo.acquisition import candidates as cand
from dngo.acquisition.history import History
from dngo.acquisition.local import LocalModel, Paths
from dngo.space import Space
from dngo.surrogates.apart import apart
from dngo.surrogates.data import TargetScale
from dngo.surrogates.numerics import child

Array = NDArray[np.float64]

BEST, MOST_REGIONS = 1000, 16  # points that are looked among, and how many have a region
LARGEST, SMALLEST = 0.4, 1e-4  # half the side of a region, in units of a parameter's range
# A point has a region of its own if all better points are this many times farther from it than is
# usual (nearest-better clustering, Preuss 2010), and so far, root mean square: where a search has
# converged, small gaps are usual.
DETACHED, APART = 2.0, 0.15
MAX_POINTS = 800  # nearest ones, that a region's model is conditioned on
LEAST_POINTS = 6  # fewer say nothing
BOLDEST = 1.0  # see `LocalModel.paths`: half-hearted draws exploit what is known already
MOST = 128  # functions searched in one region
IMPROVED = 1e-3  # of the targets' deviation: less is no improvement
KEPT = 4  # of the functions that promise less than that, one in so many
NOTHING_KNOWN = 10.0  # points, one of which paid, that each place starts with
MOST_LOCAL = 0.95
WIDE = 4  # one function in so many searches the whole space
SPREAD = 1000  # points that the targets' deviation is taken from
SHARED, CHILDREN, ROUNDS = 1024, 20, 6  # candidates for all functions; then those of each one's
CHUNK = 64  # functions searched at once
ADDITIVE_SHARES = (0.5, 0.95)  # of the starts of the fits


@dataclass(frozen=True)
class Region:
    """A box around row `centre` of the evaluated points, `half` to either side."""

    centre: int
    half: float


def region(
    u: Array, targets: Array, batch: NDArray[np.intp], block: int
) -> tuple[Region, NDArray[np.bool_], NDArray[np.bool_]]:
    """The region around the best of points u (n, k), in the order in which they were evaluated.

    targets: (n,) NaN where there is none, in units of their deviation. batch: (n,) rising numbers.
    block: evaluations in the region after which its size is reconsidered. Also which points lay in
    the region as it was before their batch, and which were better than all before.
    """
    inside, paid = np.zeros(len(u), dtype=bool), np.zeros(len(u), dtype=bool)
    half, centre, last, tried = LARGEST, -1, -1, 0
    ends = [*(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(u)]
    for start, end in zip([0, *ends], ends, strict=False):
        rows = np.arange(start, end)
        if centre >= 0:
            inside[rows] = np.max(np.abs(u[rows] - u[centre]), axis=1) <= half
            paid[rows] = targets[rows] < targets[centre] - IMPROVED
            tried += int(inside[rows].sum())
        if np.isfinite(targets[rows]).any():
            best = start + int(np.nanargmin(targets[rows]))
            if centre < 0 or targets[best] < targets[centre]:
                centre = best
        last = centre if last < 0 else last
        if tried < block:
            continue
        if targets[centre] < targets[last] - IMPROVED:
            step = float(np.max(np.abs(u[centre] - u[last])))
            half = min(max(2.0 * step, 0.5 * half), LARGEST)
        else:
            half = max(0.5 * half, SMALLEST)
        last, tried = centre, 0
    return Region(centre, half), inside, paid


def regions(u: Array, targets: Array, batch: NDArray[np.intp], block: int) -> Iterator[Region]:
    """Regions of points that have no better one near them, the best point first.

    A point on the side of a funnel has a better one near it, which leads into the same funnel.
    """
    order = np.argsort(targets, kind="stable")[: min(int(np.isfinite(targets).sum()), BEST)]
    gaps = np.full(len(order), np.inf)
    for i in range(1, len(order)):
        gaps[i] = cand.distances(u[order[[i]]], u[order[:i]]).min()
    typical = float(np.mean(gaps[1:])) if len(gaps) > 1 else 0.0
    alone = order[gaps > max(DETACHED * typical, APART)][:MOST_REGIONS]
    nearest = cand.distances(u, u[alone]).argmin(axis=1)
    for i in range(len(alone)):
        rows = np.flatnonzero(nearest == i)
        found, _, _ = region(u[rows], targets[rows], batch[rows], block)
        # Half way to a better region at most.
        reach = np.abs(u[alone[:i]] - u[alone[i]]).max(axis=1)
        half = min([found.half, *(0.5 * reach)])
        yield Region(int(rows[found.centre]), half)


def share(u: Array, y: Array, batch: NDArray[np.intp], block: int, usual: float) -> float:
    """The share of local picks that the study's course suggests, `usual` where it says nothing.

    u (n, k), y (n,), batch (n,): as for `region`, y NaN unless ok. A point paid that is better than
    all before its batch. The shares of the places, in the region of the best point and out of it,
    are in proportion to how often points there have paid lately.
    """
    if not np.isfinite(y).any() or not 0 < usual < 1:
        return usual
    targets = TargetScale.fit(y[np.isfinite(y)]).to_model(y)
    _, inside, paid = region(u, targets, batch, block)
    weight = 0.5 ** ((len(y) - 1 - np.arange(len(y))) / block) * (batch > batch[0])
    here, there = (
        (weight @ (paid & place) + 1.0) / (weight @ place + NOTHING_KNOWN)
        for place in (inside, ~inside)
    )
    local = usual * here / (usual * here + (1 - usual) * there)
    return min(float(local), MOST_LOCAL)


@dataclass(frozen=True)
class Local:
    """The models of a region, ready to be searched. v: (n, k) the evaluated points in it."""

    space: Space
    v: Array
    inputs: Callable[[Array], Array]
    scale: TargetScale
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

        scale = TargetScale.fit(y[rows])
        targets = scale.to_model(y[rows])
        t = inputs(v[rows])
        models = tuple(LocalModel.fit(t, targets, rng=child(rng), share=share) for share in shares)
        inside = np.all(np.abs(u[rows] - u[region.centre]) <= region.half, axis=1)
        return cls(space, v[rows][inside], inputs, scale, models)

    def search(
        self,
        centre: Array,
        half: float,
        count: int,
        rng: np.random.Generator,
        penalty: Callable[[Array], Array],
    ) -> tuple[Array, Array]:
        """Good points of `count` drawn functions, best first for each.

        centre: (1, k) natural values, half: of the side of the box around it that is searched.
        penalty: v (n, k) -> (n,), added to the functions' values. Returns v (count, m, k) and their
        gains on the best point known, (count, m), in units of the objective.
        """
        space = self.space
        middle = space.unit(centre)[0]
        low, high = np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)

        def clip(v: Array) -> Array:
            return space.from_unit(np.clip(space.unit(v), low, high))

        wide = space.from_unit(rng.uniform(low, high, (SHARED // 2, space.k)))
        near = clip(
            cand.around(space, centre, SHARED // 2, rng, smallest=0.02 * half, largest=0.5 * half)
        )
        shared = np.concatenate([wide, near, self.v])
        extra = penalty(shared)
        t = self.inputs(shared)
        points, gains = [], []
        boldness = BOLDEST * (rng.permutation(count) + rng.random()) / count
        for i, model in enumerate(self.models):
            for at in range(0, len(boldness[i :: len(self.models)]), CHUNK):
                paths = model.paths(boldness[i :: len(self.models)][at : at + CHUNK], rng)
                values = (paths(t) + extra[:, None]).T  # (paths, shared)
                found, value = self._descend(paths, shared, values, rng, penalty, clip, 0.3 * half)
                points.append(found)
                # What it adds to the best point known, both by the function drawn: an observed
                # value may be lower by luck alone.
                known = values[:, -len(self.v) :].min(axis=1)[:, None]
                gains.append(self.scale.to_objective(known) - self.scale.to_objective(value))
        return np.concatenate(points), np.concatenate(gains)

    def _descend(
        self,
        paths: Paths,
        shared: Array,
        values: Array,
        rng: np.random.Generator,
        penalty: Callable[[Array], Array],
        clip: Callable[[Array], Array],
        scale: float,
    ) -> tuple[Array, Array]:
        """Each function's own search by random steps that shrink, from its best shared point."""
        space, count = self.space, len(values)
        each = np.arange(count)
        top = np.argpartition(values, min(8, values.shape[1] - 1), axis=1)[:, :8]
        points, found = [shared[top]], [np.take_along_axis(values, top, axis=1)]
        best = values.argmin(axis=1)
        now, lowest = shared[best], values[each, best]
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

    def __init__(self, space: Space, history: History, least: float) -> None:
        self.space, self.known, self.least = space, history.keys(space), least
        self.u = np.empty((max(2 * history.num_pending, 64), space.k))
        self.size = 0
        self.add(history.pending)

    def add(self, v: Array, u: Array | None = None) -> None:
        """v: (n, k) natural values; u: (n, k) their coordinates, if known."""
        if self.size + len(v) > len(self.u):
            more = np.empty((self.size + len(v), self.space.k))
            self.u = np.concatenate([self.u, more])
        self.u[self.size : self.size + len(v)] = self.space.unit(v) if u is None else u
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
    history: History,
    size: int,
    block: int,
    rng: np.random.Generator,
    *,
    crowd: Crowd,
    penalty: Callable[[Array], Array],
    count: int = 4,
) -> Array:
    """At most `size` points in up to `count` regions: (m, k). They are added to the crowd.

    history: its objective is NaN unless a point is ok. block: as for `region`. Fewer than `size`
    where the regions promise nothing.
    """
    evaluated, y = history.v, history.y
    ok = np.flatnonzero(np.isfinite(y))
    if size == 0 or len(ok) < LEAST_POINTS or space.k == 0:
        return np.empty((0, space.k))
    u = space.unit(evaluated)
    scale = TargetScale.fit(y[ok[apart(u[ok], SPREAD, rng)]])
    picked: list[Array] = []
    for where in islice(regions(u, scale.to_model(y), history.iteration, block), count):
        rng = child(rng)
        left = size - len(picked)
        shares = ADDITIVE_SHARES[: 1 if picked else 2]
        local = Local.fit(space, u, evaluated, y, where, rng, shares)
        centre = evaluated[[where.centre]]
        # What is a sum over the parameters, which the region's model learns from few points, may be
        # lowest far away in some of them.
        wide = min(left, MOST) // WIDE
        boxes = ((where.half, min(left, MOST) - wide), (1.0, wide))
        found = [local.search(centre, half, n, rng, penalty) for half, n in boxes if n > 0]
        points, gains = (np.concatenate(part) for part in zip(*found, strict=True))
        # Functions that promise nothing here are most of them better spent elsewhere; beside a point
        # that is taken a function may have nothing to offer, either.
        least = IMPROVED * scale.spread * scale.scale
        spare = (len(y) + left) // KEPT - len(y) // KEPT
        for lowest, gain in zip(points, gains, strict=True):
            if gain[0] < least and spare == 0:
                continue
            row = crowd.first(lowest)
            if row is None or (gain[row] < least and spare == 0):
                continue
            spare -= int(gain[row] < least)
            picked.append(lowest[row])
            crowd.add(lowest[[row]])
        if len(picked) >= size:
            break
    return np.array(picked).reshape(-1, space.k)
