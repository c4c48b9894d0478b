"""How far each point has come on the ladder of a fidelity, and which points deserve the next level.

Here a point is the values of all parameters but the fidelity. A surrogate, a region or a stage sees
one row for each point: its outcome at the highest level, or else what the model expects there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dngo.acquisition.history import History
from dngo.fronts import order, ranks
from dngo.rules import current
from dngo.space.ladder import Ladder
from dngo.surrogates.model import Model
from dngo.types import Array, Mask, Rows

LOCAL = "local:"  # prefix of the sources of points near the best ones
IN_BOX = "front:box"  # the source of points near the front
PROMOTED = "promoted"  # the source of a promotion; the number of its level follows a colon


@dataclass(frozen=True)
class Promotion:
    """A point, by its row in `Standing.v`, to be evaluated at a level."""

    point: int
    level: int


@dataclass(frozen=True)
class Standing:
    """The points of a history, in the order of their last rows.

    history: all rows, of the whole space. v: (p, k - 1) the points. last: (p,) the row of each one's
    highest level. rows: (p, levels) that of the best outcome at each level, -1 without; finished: whether
    there is any outcome; highest: (p,) the highest level that is finished or under way.
    """

    ladder: Ladder
    history: History
    v: Array
    last: Rows
    rows: Rows
    finished: Mask
    highest: Rows

    @classmethod
    def of(cls, ladder: Ladder, history: History) -> Standing:
        """history: of the whole space, finished and pending."""
        keys, level = _keys(ladder, history.v), _levels(ladder, history.v)
        numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        point = np.array([numbers[key] for key in keys], dtype=int)
        shape = len(numbers), len(ladder.levels)
        rows, finished = np.full(shape, -1), np.zeros(shape, dtype=bool)
        last, best = np.zeros(shape[0], dtype=int), np.full(shape[0], -1)
        for row, (i, at) in enumerate(zip(point, level, strict=True)):
            finished[i, at] = True
            known = np.inf if rows[i, at] < 0 else history.y[rows[i, at]]
            rows[i, at] = row if history.y[row] < known else rows[i, at]
            # Which row stands for a point: one with an outcome before one without, then the one of
            # the highest level.
            rank = at + len(ladder.levels) * bool(np.isfinite(history.y[row]))
            if rank >= best[i]:
                last[i], best[i] = row, rank
        highest = np.where(finished, np.arange(shape[1]), -1).max(axis=1, initial=-1)
        for key, at in zip(
            _keys(ladder, history.pending), _levels(ladder, history.pending), strict=True
        ):
            if key in numbers:
                highest[numbers[key]] = max(highest[numbers[key]], at)
        order = np.argsort(last, kind="stable")
        v = ladder.points.of_full(history.v[last[order]]) if len(last) else history.v[:, 1:]
        return cls(ladder, history, v, last[order], rows[order], finished[order], highest[order])

    @cached_property
    def outcomes(self) -> Array:
        """The best outcome at each level, a column for each objective, NaN without: (p, levels, m)."""
        history = self.history
        known = history.outcomes if history.objectives else history.y[:, None]
        none = np.full((1, known.shape[1]), np.nan)
        found: Array = np.concatenate([known, none])[self.rows]  # row -1 is the last
        return found

    def expected(self, model: Model) -> Array:
        """The objectives at the highest level, as observed or as the model expects; NaN unknown: (p, m)."""
        found = self.outcomes[:, -1].copy()
        rows = (self.rows[:, -1] < 0) & (self.rows >= 0).any(axis=1)
        if rows.any() and model.knows_objective:
            found[rows] = self._means(model, self.v[rows])
        return found

    def at_top(self, model: Model) -> History:
        """The points as a history of their own, in the space of points, with their `expected` values."""
        old, last, values = self.history, self.last, self.expected(model)
        ok, at_top = np.isfinite(values).all(axis=1), self.ladder.is_top(old.v[last])
        y = np.full(len(last), np.nan)
        y[ok] = ranks(values[ok]) if old.objectives else values[ok, 0]
        ran = self.rows[:, -1] >= 0
        return History(
            v=self.v,
            y=y,
            pending=self.pending,
            iteration=old.iteration[last],
            constraints={name: flags[last] for name, flags in old.constraints.items()},
            noise=np.where(ran, old.noise[last], np.nan),
            # What broke a constraint at the highest level teaches too.
            objectives={
                name: np.where(ok, values[:, j], np.where(at_top, known[last], np.nan))
                for j, (name, known) in enumerate(old.objectives.items())
            },
            noises={name: np.where(ran, noise[last], np.nan) for name, noise in old.noises.items()},
            reference=old.reference,
            stage=old.stage[last],
        )

    def _means(self, model: Model, v: Array) -> Array:
        """What the model expects of points v (n, k - 1) at the highest level: (n, m)."""
        x = self.ladder.points.encode(v)
        each = [model.objectives[name] for name in self.history.objectives] or [model]
        return np.column_stack([one.predict(x)[0] for one in each])

    @cached_property
    def pending(self) -> Array:
        """The points under way, at any level: (m, k - 1)."""
        points, v = self.ladder.points, self.history.pending
        return points.of_full(v) if len(v) else np.empty((0, points.k))

    def levels_of(self, sources: Sequence[str]) -> Rows:
        """The level at which each pick is evaluated, by its source: (q,).

        A new point starts at the lowest level. Near the best points and the front it starts at the second
        level, because there the lowest level can hardly tell points apart.
        """
        promoted, near = f"{PROMOTED}:", min(current().fidelity.near, self.ladder.top)
        found = [
            int(s.removeprefix(promoted))
            if s.startswith(promoted)
            else near * s.startswith((LOCAL, IN_BOX))
            for s in sources
        ]
        return np.array(found, dtype=int)

    def worth(self, model: Model) -> Array:
        """The values by which points at a level are compared, low ones first: (p, levels).

        They are what the model expects at the highest level, or, without a model, the outcomes at
        the point's own level. Of several objectives they are places in the `order` of a level's points.
        NaN if there is neither.
        """
        values = self.outcomes
        if model.knows_objective and len(self.v):
            means = self._means(model, self.v)[:, None]
            values = np.where(np.isfinite(values).all(axis=2, keepdims=True), means, np.nan)
        if not self.history.objectives:
            return values[:, :, 0]
        found = np.full(values.shape[:2], np.nan)
        for level, own in enumerate(np.moveaxis(values, 1, 0)):
            known = np.isfinite(own).all(axis=1)
            found[known, level] = order(own[known])
        return found

    def halved(
        self, worth: Array, number: int, *, others: bool = False, counted: bool = False
    ) -> list[Promotion]:
        """At most `number` promotions by asynchronous successive halving, those to the highest level first.

        worth: (p, levels) values by which points at a level are compared, low ones first; NaN: never.
        Of all points finished at a level, the best 1 / factor are promoted (the ladder's factor).
        Points that are already higher up, or on their way there, are left out. others: whether the other
        points are promoted instead. counted: whether points that went on count among the best 1 / factor,
        also where they are no longer among them. A model thinks anew of all points after each batch, and
        without this half of them went on.
        """
        found: list[Promotion] = []
        for level in reversed(range(self.ladder.top)):
            count = int(self.finished[:, level].sum() / self.ladder.factor + 1e-9)
            order = np.argsort(worth[:, level], kind="stable")
            order = order[count:] if others else order[:count]
            known = order[np.isfinite(worth[order, level]) & (self.highest[order] == level)]
            if counted and not others:
                gone = np.sum(self.finished[:, level] & (self.highest > level))
                known = known[: max(count - int(gone), 0)]
            found += [Promotion(int(i), level + 1) for i in known]
        return found[:number]


def _keys(ladder: Ladder, v: Array) -> list[bytes]:
    return ladder.points.keys(ladder.points.of_full(v)) if len(v) else []


def _levels(ladder: Ladder, v: Array) -> Rows:
    found: Rows = np.clip(ladder.level(v), 0, None) if len(v) else np.empty(0, dtype=int)
    return found
