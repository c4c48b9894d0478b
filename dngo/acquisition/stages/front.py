"""Several objectives: each pick aims at its own part of the front.

For each pick, one function is drawn for every objective. The pick's aim (`dngo.acquisition.aims`)
combines them to one function, whose minimum is searched (`dngo.acquisition.front`): mostly in boxes
along the front, by
processes of the points there, otherwise in the whole space, by the surrogates.

Rays ignore what is on the front already, and two may lead to one point. In a small batch more functions are
searched than there are picks. The picks are the minima that add most to the hypervolume of the
front with the earlier picks. (qPOTS is similar: it chooses among the points of a draw's front.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import repeat

import numpy as np

from dngo.acquisition.aims import Corner, highs, rays
from dngo.acquisition.allocation import least_block
from dngo.acquisition.feasibility import least_of_draws
from dngo.acquisition.front import Aims, Boxes, Searched, course, everywhere
from dngo.acquisition.picks import Pick
from dngo.acquisition.standing import IN_BOX
from dngo.acquisition.state import BatchState
from dngo.fronts import hypervolume, on_front
from dngo.rules import current
from dngo.surrogates.draws import spread_evenly
from dngo.types import Array, Rows

MOST_FUNCTIONS = 128  # for a batch: with more than 64 picks each has one
Search = Callable[[Corner, Aims], Iterator[Searched]]


class AlongFront:
    """All picks of a batch with several objectives, once an outcome is ok."""

    name = "front"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if not state.has_outcome:
            return
        rng, rules, history = state.streams["front"], current().front, state.history
        values = history.outcomes
        known = values[np.isfinite(values).all(axis=1)]
        corners = _corners(state, values)
        ray = _rays(state, number, values.shape[1])
        least = least_of_draws(state, number)
        aims = Aims(ray, spread_evenly(rules.boldest, number, rng), least)
        turns = state.turn + np.arange(number)
        which = _which(turns, values.shape[1])
        block = max(rules.block, least_block(state.space))
        part = rules.share if len(known) >= current().nearby.least and state.space.k else 0.0
        u = state.space.unit(history.v)
        half, share = course(u, values, history.iteration, block, part)
        local = np.floor((turns + 1) * share) > np.floor(turns * share)
        left, hoped = set(range(number)), Hoped(state, corners[0], number)

        def picked(rows: Rows, c: int, search: Search, where: str) -> Iterator[Pick]:
            own, chosen = aims.of(rows), not c and hoped.each > 1
            if chosen and len(rows):  # each pick has further functions
                others = rays((hoped.each - 1) * len(rows), ray.shape[1], 0, *rng.spawn(1))
                own = replace(
                    aims.of(np.tile(rows, hoped.each)), ray=np.concatenate([own.ray, others])
                )
            found = search(corners[c], own)
            return _followed(state, rows, own.ray, found, where, left, hoped if chosen else None)

        # Picks at the edge of what is feasible compete only with each other: beyond it any
        # function promises more.
        groups = [
            (c, which == c, edge) for edge in np.unique(least)[::-1] for c in range(len(corners))
        ]
        if local.any():
            boxes = Boxes(state, half, rng)
            for c, of_corner, edge in groups:
                rows = np.flatnonzero(local & of_corner & (least == edge))
                if len(rows):
                    yield from picked(rows, c, boxes.search, IN_BOX)
        # Also the picks for which the boxes had no room.
        for c, of_corner, edge in groups:
            open_ = of_corner & (least == edge) & np.isin(np.arange(number), list(left))
            yield from picked(np.flatnonzero(open_), c, partial(everywhere, state), "front:space")
        yield from _rest(state, ray[sorted(left)])


def _corners(state: BatchState, values: Array) -> list[Corner]:
    """Where rays begin: at the corner behind the front, and at one before each of its ends."""
    known = values[np.isfinite(values).all(axis=1)]
    high = np.maximum(highs(values, state.history.iteration), _expected_at_ends(state))
    reference = state.history.reference
    ends = [Corner.at_end(known, high, reference, j) for j in range(values.shape[1])]
    return [Corner.of(known, high, reference), *ends]


def _expected_at_ends(state: BatchState) -> Array:
    """The worst value of each objective where another one may be best, one deviation below its
    mean: (m,).

    The first outcomes may all lie in one part of the front, where evaluations do not fail. A search
    bounded by them would never see the other part.
    """
    models = [state.model.objectives[name] for name in state.history.objectives]
    means, stds = np.array([m.predict(state.candidates.x) for m in models]).transpose(1, 0, 2)
    return np.asarray(means[:, (means - stds).argmin(axis=1)].max(axis=1))


def _which(turns: Rows, objectives: int) -> Rows:
    """The corner of each pick's ray. One pick in every `ends_every` is for an end, each end in
    turn."""
    number, rest = np.divmod(turns, current().front.ends_every)
    return np.where(rest == 0, 1 + number % objectives, 0)


class Hoped:
    """The front as it would be if every pick's outcome were the drawn one, in heights over a
    corner.

    each: functions searched for each pick. Those that add most to this front are followed.
    """

    def __init__(self, state: BatchState, corner: Corner, number: int) -> None:
        rules, values = current().front, state.history.outcomes
        each = min(rules.functions_for_each, MOST_FUNCTIONS // max(number, 1))
        self.each = 1 if values.shape[1] >= rules.many else max(each, 1)
        self.corner, self.reference = corner, np.zeros(values.shape[1])
        self.front = np.empty((0, values.shape[1]))
        # With six objectives a hypervolume may take seconds, and it is not needed.
        if self.each > 1:
            self.add(values[np.isfinite(values).all(axis=1)])

    def gain(self, outcome: Array) -> float:
        """By how much an outcome (m,) enlarges the hypervolume, in whole millionths: smaller
        differences do not count."""
        heights = np.vstack([self.front, self.corner.heights(outcome)])
        gain = hypervolume(heights, self.reference) - self.volume
        # As long as no point of the front beats the reference, the front has no volume. Its extent
        # is then the unit.
        return float(np.round(1e6 * gain / max(self.volume, 1e-6)))

    def add(self, outcomes: Array) -> None:
        """Count outcomes (m,), or (n, m) of them, as part of the front."""
        front = np.vstack([self.front, self.corner.heights(outcomes)])
        self.front = front[on_front(front)]
        self.volume = hypervolume(self.front, self.reference)


def _followed(
    state: BatchState,
    rows: Rows,
    ray: Array,
    found: Iterator[Searched],
    where: str,
    left: set[int],
    hoped: Hoped | None,
) -> Iterator[Pick]:
    """For each pick, the best free point of the function that adds most to the hoped-for front. If
    no function adds anything, its own function's best free point. Picks that get a point leave
    `left`.

    rows: of the picks. ray: (f, m) of the functions: first one for each pick, then as many others for each.
    """
    parts = [(some, f) for some in found for f in range(len(some.rows))]
    gains = np.array([hoped.gain(some.outcomes[f]) if hoped else 0.0 for some, f in parts])
    for row in rows.tolist():
        while np.isfinite(gains).any():
            best = int(np.argmax(gains))
            some, f = parts[best]
            if hoped:  # gains only fall as more is picked: the earlier count is an upper bound
                gains[best] = hoped.gain(some.outcomes[f])
                if gains[best] < gains.max():
                    continue
            gains[best] = -np.inf
            j, i = state.spacing.first(some.points[f]), some.rows[f]
            if j is not None:
                if hoped:
                    hoped.add(some.outcomes[f])
                left.remove(row if hoped else int(rows[i]))
                value, aim = -float(some.values[f, j]), ray[i] / ray[i].sum()
                yield Pick(some.points[f, j], value, where, aim=aim)
            if j is not None or not hoped:
                break


def _rest(state: BatchState, ray: Array) -> Iterator[Pick]:
    """For functions whose minima are all taken: candidates, the likeliest feasible ones first.

    If all of these are too close to others, the distance is ignored.
    """
    pool = state.candidates
    found = state.spacing.lowest_left(pool.v, repeat(-pool.feasibility)) if len(ray) else ()
    for one, i in zip(ray, found, strict=False):
        yield Pick(pool.v[i], np.nan, "front:candidate", aim=one / one.sum())


def _rays(state: BatchState, number: int, objectives: int) -> Array:
    """Rays of the study's one sequence, after those of earlier points."""
    if state.root is None:
        return rays(number, objectives, 0, state.streams["front"].spawn(1)[0])
    key = (*state.root.spawn_key, len("front"))
    root = np.random.SeedSequence(state.root.entropy, spawn_key=key)
    return rays(number, objectives, state.turn, np.random.default_rng(root))
