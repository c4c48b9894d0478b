"""The shortlist of a batch, brought up to date only where it matters.

After each pick only candidates that could still be the best are evaluated again. An old value serves as an
upper bound. That is nearly always right: an expected improvement over a *fantasised* incumbent is
not monotone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dngo.acquisition.candidates import Candidates
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.picks import Pick
from dngo.acquisition.spacing import Open
from dngo.rules import current
from dngo.types import Array, Rows


class Shortlist:
    """The candidates that the picks of a batch choose among, with their scores.

    candidates, rows: (n,) which of them. scores: (n,) the acquisition before any pick. open: which of them
    may still be picked.
    """

    def __init__(
        self, fantasies: Fantasies, candidates: Candidates, rows: Rows, scores: Array, open_: Open
    ) -> None:
        self.fantasies, self.candidates, self.rows, self.open = fantasies, candidates, rows, open_
        self.features = fantasies.features(candidates.space.encode(candidates.v[rows]))
        self.feasibility, self.rate = candidates.feasibility[rows], candidates.rate[rows]
        self.scores = scores.copy()
        self.at = np.full(len(scores), fantasies.pending)

    def highest(self, allowed: NDArray[np.bool_]) -> float:
        """The value of the best allowed candidate, up to date at any cost."""
        best = self._top(allowed)
        return float(self.scores[best] / self.rate[best])

    def pick(self, allowed: NDArray[np.bool_]) -> Pick:
        """The best allowed candidate; makes it pending."""
        return self._take(self._top(allowed), allowed, self.scores, "candidate")

    def explore(self, allowed: NDArray[np.bool_]) -> Pick:
        """The allowed candidate with the largest deviation; makes it pending."""
        deviation = self.fantasies.deviation(self.features)
        best = int(np.argmax(np.where(allowed, deviation, -np.inf)))
        return self._take(best, allowed, deviation, "explore")

    def _take(self, best: int, allowed: NDArray[np.bool_], scores: Array, found: str) -> Pick:
        others = np.where(allowed, scores, -np.inf)
        others[best] = -np.inf
        self.fantasies.condition(self.features[:, best], float(self.feasibility[best]))
        self.open.take(best)
        row = self.rows[best]
        source = f"{found}:{self.candidates.source[row]}"
        return Pick(self.candidates.v[row], float(scores[best]), source, float(others.max()))

    def _top(self, allowed: NDArray[np.bool_]) -> int:
        """The best allowed candidate, up to date."""
        while True:
            masked = np.where(allowed, self.scores, -np.inf)
            best = int(np.argmax(masked))
            if self.at[best] == self.fantasies.pending:
                return best
            # Of equal scores the block may lack the first one, so it is added.
            rows = np.union1d(best_of(masked, current().shortlist.block), [best])
            self._update(rows[self.at[rows] < self.fantasies.pending])

    def _update(self, rows: NDArray[np.intp]) -> None:
        if len(rows):
            weight = self.feasibility[rows] * self.rate[rows]
            self.scores[rows] = self.fantasies.weighted(self.features[:, rows], weight)
            self.at[rows] = self.fantasies.pending


def best_of(scores: Array, count: int) -> Rows:
    """Indices of the `count` highest scores, or all."""
    if count >= len(scores):
        return np.arange(len(scores))
    return np.sort(np.argpartition(-scores, count)[:count])
