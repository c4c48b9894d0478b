"""The shortlist of a batch, brought up to date only where it matters.

Only candidates that could still be the best are evaluated again after each pick: an old value
serves as an upper bound, which holds nearly always (an expected improvement over a *fantasised*
incumbent is not monotone), so REFRESH candidates are evaluated again at every pick, in turn, and no
value is ever older than (length of the shortlist) / REFRESH picks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dngo.acquisition.improvement import Fantasies

Array = NDArray[np.float64]

BLOCK = 16  # candidates evaluated at once while looking for the best
REFRESH = 8  # candidates evaluated at each pick merely because their value is old


class Lazy:
    """Scores of the shortlist, brought up to date only where it matters."""

    def __init__(
        self,
        fantasies: Fantasies,
        features: Array,
        scores: Array,
        feasibility: Array,
        rate: Array | None = None,
    ) -> None:
        self.fantasies, self.features, self.feasibility = fantasies, features, feasibility
        self.rate = np.ones(len(scores)) if rate is None else rate
        self.scores = scores.copy()
        self.at = np.full(len(scores), fantasies.pending)
        self.taken = np.zeros(len(scores), dtype=bool)
        self.next, self.refreshed = 0, fantasies.pending

    def highest(self, allowed: NDArray[np.bool_]) -> float:
        """The value of the best allowed candidate, up to date, whatever it costs."""
        best = self._top(allowed)
        return float(self.scores[best] / self.rate[best])

    def pick(self, allowed: NDArray[np.bool_]) -> tuple[int, float, float]:
        """Index, value and runner-up's value of the best allowed candidate; makes it pending."""
        return self._take(self._top(allowed), allowed, self.scores)

    def explore(self, allowed: NDArray[np.bool_]) -> tuple[int, float, float]:
        """The same of the allowed candidate whose value is least certain: its deviation."""
        deviation = self.fantasies.deviation(self.features)
        best = int(np.argmax(np.where(allowed, deviation, -np.inf)))
        return self._take(best, allowed, deviation)

    def _take(
        self, best: int, allowed: NDArray[np.bool_], scores: Array
    ) -> tuple[int, float, float]:
        masked = np.where(allowed, scores, -np.inf)
        masked[best] = -np.inf
        self.taken[best] = True
        self.fantasies.condition(self.features[:, best], float(self.feasibility[best]))
        return best, float(scores[best]), float(masked.max())

    def _top(self, allowed: NDArray[np.bool_]) -> int:
        """The best allowed candidate, up to date, and with it those whose turn it is."""
        fresh, turn = self.fantasies.pending, self._turn()
        while True:
            masked = np.where(allowed, self.scores, -np.inf)
            best = int(np.argmax(masked))
            if self.at[best] == fresh and len(turn) == 0:
                return best
            # Of equal scores the block may hold others than the first: that one, too.
            rows = np.unique(np.concatenate([best_of(masked, BLOCK), [best], turn]))
            self._update(rows[self.at[rows] < fresh])
            turn = turn[:0]

    def _turn(self) -> NDArray[np.intp]:
        """Those to be evaluated because their value is old: none twice for the same pending."""
        if self.refreshed == self.fantasies.pending:
            return np.empty(0, dtype=np.intp)
        self.refreshed = self.fantasies.pending
        turn = (self.next + np.arange(min(REFRESH, len(self.at)))) % len(self.at)
        self.next = int(turn[-1] + 1) % len(self.at)
        return turn[~self.taken[turn]]

    def _update(self, rows: NDArray[np.intp]) -> None:
        if len(rows):
            value = self.fantasies.improvement(self.features[:, rows])
            self.scores[rows] = weigh(value, self.feasibility[rows] * self.rate[rows])
            self.at[rows] = self.fantasies.pending


def weigh(value: Array, weight: Array) -> Array:
    """Values times positive weights; divided by them where a value is negative.

    So that more weight is never worse, and equal weights change no order.
    """
    if (value >= 0).all():
        return value * weight
    return np.where(value < 0, value / np.maximum(weight, 1e-300), value * weight)


def best_of(scores: Array, count: int) -> NDArray[np.intp]:
    """Indices of the `count` highest scores, or all."""
    if count >= len(scores):
        return np.arange(len(scores))
    return np.sort(np.argpartition(-scores, count)[:count])
