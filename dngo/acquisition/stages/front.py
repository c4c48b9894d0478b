"""Several objectives: each pick aims at a part of the front of its own.

One function of every objective is drawn for a pick, its aim (`dngo.acquisition.aims`) makes one of them,
and that is searched (`dngo.acquisition.front`): most of them in boxes along the front, by processes of the
points there, the others in the whole space, by the surrogates.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dngo.acquisition.aims import Corner, highs, rays
from dngo.acquisition.along import course
from dngo.acquisition.front import Boxes, everywhere
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.types import Array, Rows


class AlongFront:
    """All picks of a batch with several objectives, once something is ok."""

    name = "front"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if not state.has_outcome:
            return
        values, rng, rules = state.history.outcomes, state.streams["front"], current().front
        known = values[np.isfinite(values).all(axis=1)]
        corners = _corners(state, values)
        ray = _rays(state, number, values.shape[1])
        boldness = rules.boldest * (rng.permutation(number) + rng.random()) / number
        turns = state.turn + np.arange(number)
        which = _which(turns, values.shape[1])
        block = max(rules.block, rules.block_for_each * state.space.k)
        part = rules.share if len(known) >= rules.least_points and state.space.k else 0.0
        past = course(
            state.space.unit(state.history.v), values, state.history.iteration, block, part
        )
        local = np.floor((turns + 1) * past.share) > np.floor(turns * past.share)
        left = set(range(number))
        if local.any():
            boxes = Boxes(state, past.half, rng)
            for c, corner in enumerate(corners):
                rows = np.flatnonzero(local & (which == c))
                if not len(rows):
                    continue
                for mine, points, found in boxes.search(corner, ray[rows], boldness[rows]):
                    yield from _served(state, ray, rows[mine], (points, found), "box", left)
        # And what the boxes had no room for.
        for c, corner in enumerate(corners):
            rows = np.array([i for i in sorted(left) if which[i] == c], dtype=np.intp)
            for mine, points, found in everywhere(state, corner, ray[rows], boldness[rows]):
                yield from _served(state, ray, rows[mine], (points, found), "space", left)
        yield from _rest(state, ray[sorted(left)])


def _corners(state: BatchState, values: Array) -> list[Corner]:
    """Where rays begin: behind the front, and before each of its ends."""
    known = values[np.isfinite(values).all(axis=1)]
    high, reference = highs(values, state.history.iteration), state.history.reference
    ends = [Corner.at_end(known, high, reference, j) for j in range(values.shape[1])]
    return [Corner.of(known, high, reference), *ends]


def _which(turns: Rows, objectives: int) -> Rows:
    """Which corner each pick's ray begins at: the ends take turns at one in every `ends_every`."""
    number = turns // current().front.ends_every
    return np.where(turns % current().front.ends_every == 0, 1 + number % objectives, 0)


def _served(
    state: BatchState,
    ray: Array,
    rows: Rows,
    found: tuple[Array, Array],
    where: str,
    left: set[int],
) -> Iterator[Pick]:
    """The best free point of each function; the numbers of those that have one leave `left`."""
    for i, points, values in zip(rows.tolist(), *found, strict=True):
        j = state.spacing.first(points)
        if j is not None:
            left.remove(i)
            yield Pick(points[j], -float(values[j]), f"front:{where}", aim=ray[i] / ray[i].sum())


def _rest(state: BatchState, ray: Array) -> Iterator[Pick]:
    """For functions with nothing left near their minima: candidates, the likeliest feasible ones first.

    Where all of these are too close to others the distance is given up.
    """
    if not len(ray) or not len(state.candidates):
        return
    pool = state.candidates
    open_ = state.spacing.among(pool.v)
    for one in ray:
        allowed = open_.allowed if open_.allowed.any() else open_.free
        if not allowed.any():
            return
        i = int(np.argmax(np.where(allowed, pool.feasibility, -1.0)))
        open_.take(i)
        yield Pick(pool.v[i], np.nan, "front:candidate", aim=one / one.sum())


def _rays(state: BatchState, number: int, objectives: int) -> Array:
    """Those of the study's one sequence, after those of the points before."""
    if state.root is None:
        return rays(number, objectives, 0, state.streams["front"].spawn(1)[0])
    root = np.random.SeedSequence(
        state.root.entropy, spawn_key=(*state.root.spawn_key, len("front"))
    )
    return rays(number, objectives, state.turn, np.random.default_rng(root))
