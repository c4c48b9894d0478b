"""Where the acquisition is evaluated: the whole space, and the neighbourhoods of good points."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container

import numpy as np

from dngo.acquisition.spacing import distances
from dngo.rules import current
from dngo.space import Column, Space, priors
from dngo.space.sobol import sobol
from dngo.surrogates.model import Model
from dngo.types import Array

# Limits of cost. Largest space of which all points are listed: it takes a fraction of a second.
LISTED = 20_000
# Largest design that is spread over the feasible part: the cost is its size times the number of
# drawn points.
MOST_SPREAD = 1000
# Limit of the encoded numbers of all candidates of one kind, and the fewest candidates.
MOST_NUMBERS, FEWEST = 2_000_000, 1024
MOST_NEIGHBOURS = 256  # neighbours by one category: all, unless a list is extremely long


class Candidates:
    """Distinct free points, with what the model says of each.

    v: (n, k) natural values. source: (n,) where each came from. The first m have been judged, and have
    x: (m, d) encoded, feasibility: (m,) P(all constraints hold), and rate: (m,) the other factor on the
    acquisition.
    """

    def __init__(
        self,
        space: Space,
        taken: Container[bytes],
        model: Model | None = None,
        rate: Callable[[Array, Array], Array] | None = None,
    ) -> None:
        self.space, self.taken, self.model = space, taken, model
        self._rate = rate or (lambda v, x: np.ones(len(x)))
        self.v = np.empty((0, space.k))
        self.x = np.empty((0, space.d))
        self.feasibility, self.rate = np.empty(0), np.empty(0)
        self.source: list[str] = []
        self._seen: set[bytes] = set()

    def __len__(self) -> int:
        return len(self.v)

    def add(self, v: Array, source: str) -> None:
        """Add the rows of v (n, k) that are new."""
        new = []
        for i, key in enumerate(self.space.keys(v)) if len(v) else ():
            if key not in self._seen and key not in self.taken:
                self._seen.add(key)
                new.append(i)
        self.v = np.concatenate([self.v, v[new]])
        self.source += [source] * len(new)

    def judge(self) -> slice:
        """Ask the model about the points added since the last call; their rows."""
        rows = slice(len(self.x), len(self.v))
        if self.model is not None and len(self.v) > len(self.x):
            x = self.space.encode(self.v[rows])
            self.x = np.concatenate([self.x, x])
            self.feasibility = np.concatenate([self.feasibility, self.model.feasibility(x)])
            self.rate = np.concatenate([self.rate, self._rate(self.v[rows], x)])
        return rows


def design(space: Space, size: int, *, rng: np.random.Generator, exclude: Array) -> Array:
    """A space-filling first batch: scrambled Sobol points, distinct after rounding.

    exclude: (m, k) points not to repeat. Returns (q, k) with q <= size. q is smaller only if the
    space has no more points, or if 64 times as many further Sobol points find none.
    """
    pool = Candidates(space, set(space.keys(exclude)) if len(exclude) else ())
    if space.k == 0:
        pool.add(space.defaults(), "design")
        return pool.v[:size]
    engine = sobol(space.k, rng)
    exponent = max(int(np.ceil(np.log2(max(size, 1)))), 0)
    spreads = bool(space.conditions) and size <= MOST_SPREAD
    drawn = space.sample(
        _open(engine.random_base2(exponent + current().candidates.spread_of * spreads))
    )
    pool.add(spread(space, drawn, size, exclude) if spreads else drawn, "design")
    for _ in range(6):
        if len(pool.v) >= size:
            break
        pool.add(space.sample(_open(engine.random(2**exponent))), "design")
        exponent += 1
    if len(pool.v) < size and is_listed(space):
        pool.add(rng.permutation(everything(space)), "design")
    return pool.v[:size]


def believed_design(space: Space, size: int, *, rng: np.random.Generator, exclude: Array) -> Array:
    """The points of a first batch that follow people's priors: (q, k), q <= size.

    First the point with the highest prior, then scrambled Sobol points distributed like the priors,
    distinct after rounding and not in `exclude` (m, k). Empty without priors.
    """
    if size <= 0 or not priors.believed(space):
        return np.empty((0, space.k))
    pool = Candidates(space, set(space.keys(exclude)))
    pool.add(priors.peak(space), "prior")
    engine = sobol(space.k, rng)
    for exponent in range(int(np.ceil(np.log2(size))), int(np.ceil(np.log2(size))) + 5):
        if len(pool.v) < size:
            pool.add(priors.drawn(space, _open(engine.random(2**exponent))), "prior")
    return pool.v[:size]


def spread(space: Space, v: Array, size: int, others: Array) -> Array:
    """`size` of the points v (n, k), each in turn the farthest from the earlier ones and from `others`.

    Feasible points of a Sobol sequence, or of a walk, are not spread evenly over the feasible part.
    """
    u = space.place(v, apart=1.0)
    gap = np.ones(len(u))
    for other in space.place(others, apart=1.0) if len(others) else ():
        gap = np.minimum(gap, distances(u, other[None])[:, 0])
    chosen: list[int] = []
    for _ in range(min(size, len(v))):
        chosen.append(int(np.argmax(gap)))
        gap = np.minimum(gap, distances(u, u[chosen[-1:]])[:, 0])
    return v[chosen]


def uniform(space: Space, size: int, rng: np.random.Generator) -> Array:
    """At least `size` scrambled Sobol points, or all points of a small discrete space: (n, k)."""
    if is_listed(space):
        return everything(space)
    exponent = int(np.log2(affordable(space, 2 ** int(np.ceil(np.log2(size))))))
    return space.sample(_open(sobol(space.k, rng).random_base2(exponent)))


def affordable(space: Space, size: int) -> int:
    """So many candidates, or fewer if each has hundreds of inputs: the cost grows with the product."""
    return min(size, max(FEWEST, MOST_NUMBERS // max(space.d, 1)))


def is_listed(space: Space) -> bool:
    """Whether the space has so few points that every one is a candidate."""
    return space.size <= LISTED


def everything(space: Space) -> Array:
    """Every point of a discrete space that keeps its constraints, duplicates included: (n, k)."""
    grids = [column.listed() for column in space.columns]
    rows = np.array(list(itertools.product(*grids)), dtype=float).reshape(-1, space.k)
    v = space.on_grid(rows)
    return v[space.holds(v)]


def around(
    space: Space,
    centres: Array,
    size: int,
    rng: np.random.Generator,
    *,
    smallest: float | None = None,
    largest: float | None = None,
) -> Array:
    """Random neighbours of `centres` (m, k): (size, k), rounded.

    Each changes a random subset of the parameters by normal steps. Their scale is drawn log-uniformly
    between `smallest` and `largest` of the range (by default from `CandidateRules`). A step in a listed
    parameter goes at least to the next value. A category changes to each other one with equal probability.
    """
    if len(centres) == 0 or size == 0 or space.k == 0:
        return np.empty((0, space.k))
    rules, start = current().candidates, centres[np.arange(size) % len(centres)]
    u = space.unit(start)
    share = rng.uniform(0.0, 1.0, (size, 1))
    moves = rng.random(u.shape) < share
    moves[np.arange(size), rng.integers(0, space.k, size)] = True
    least, most = (
        np.log(given or usual)
        for given, usual in ((smallest, rules.smallest), (largest, rules.largest))
    )
    scale = np.exp(rng.uniform(least, most, (size, 1)))
    steps = scale * rng.standard_normal(u.shape)
    jumps = rng.random(u.shape)
    v = space.at(np.clip(np.where(moves, u + steps, u), 0.0, 1.0))
    for j, column in enumerate(space.columns):
        if column.levels is None:
            continue
        if column.kind == "categorical":
            by = np.floor(1 + jumps[:, j] * (column.levels - 1))
            v[:, j] = np.where(moves[:, j], _shift(column, start[:, j], by), start[:, j])
        else:
            stuck = moves[:, j] & (v[:, j] == start[:, j])
            by = np.where(steps[:, j] < 0, -1.0, 1.0)
            v[:, j] = np.where(stuck, _shift(column, start[:, j], by), v[:, j])
    return space.round(v)


def neighbours(space: Space, centres: Array) -> Array:
    """Every point that differs from a centre in one category, or by one grid step: (n, k)."""
    rows: list[Array] = []
    for j, column in enumerate(space.columns):
        if column.levels is None:
            continue
        others = np.array([-1, 1])
        if column.kind == "categorical":
            others = np.arange(1, column.levels)
            if len(others) > MOST_NEIGHBOURS:
                others = np.linspace(1, column.levels - 1, MOST_NEIGHBOURS)
                others = np.unique(others.astype(int))
        for by in others:
            moved = centres.copy()
            moved[:, j] = _shift(column, centres[:, j], np.full(len(centres), float(by)))
            rows.append(moved)
    return space.round(np.concatenate(rows)) if rows else np.empty((0, space.k))


def incumbents(evaluated: Array, y: Array, size: int) -> Array:
    """Up to `size` of the best points: (m, k)."""
    order = np.argsort(np.where(np.isfinite(y), y, np.inf), kind="stable")
    return evaluated[order[: min(size, int(np.isfinite(y).sum()))]]


def _shift(column: Column, value: Array, by: Array) -> Array:
    """Values `by` places further in a column's list: cyclic for categories, else up to its ends.

    value: (n,) natural values. NaN, where inactive, remains.
    """
    values, last = column.values, (column.levels or 1) - 1
    low, step = (0.0, 1.0) if column.choices is not None else (column.low, column.step or 1.0)
    if values is None:  # a grid may have too many levels to list them
        index = np.rint((np.nan_to_num(value, nan=low) - low) / step)
    else:
        index = np.searchsorted(values, np.where(np.isnan(value), values[0], value))
    index = np.clip(index, 0, last) + np.trunc(by)
    index = index % (last + 1) if column.kind == "categorical" else np.clip(index, 0, last)
    moved = low + index * step if values is None else values[index.astype(int)]
    return np.where(np.isnan(value), np.nan, moved)


def _open(u: Array) -> Array:
    return np.minimum(u, np.nextafter(1.0, 0.0))
