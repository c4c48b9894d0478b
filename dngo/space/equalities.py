"""Solves for columns, so that the equalities of a space hold to the last digits."""

from __future__ import annotations

import itertools

import numpy as np

from dngo.space.conditions import Condition, all_hold
from dngo.space.unconstrained import Unconstrained
from dngo.types import Array, Mask

# The most sets of columns to solve for, one after another, and the most sets to look at for that.
MOST_SETS, MOST_TRIED = 24, 5000


class Equalities:
    """The linear equalities among the conditions of a space, without those that others imply."""

    def __init__(self, space: Unconstrained) -> None:
        self.space, self.columns = space, space.columns
        self.conditions = _independent(space.conditions)
        self.forms = [c.linear for c in self.conditions if c.linear]
        self._solved: dict[bytes, list[tuple[int, ...]]] = {}

    def solve(self, v: Array, first: bool = False) -> Array:
        """Points v (n, k) after some columns were solved for. The equalities then hold wherever
        that is possible.

        first: solve for the same set of columns in all rows. Uniform draws need this: they stay
        uniform only if the same coordinates are replaced everywhere.
        """
        if not self.conditions:
            return v
        matrix = np.array([form.coefficients for form in self.forms])
        bounds = np.array([form.bound for form in self.forms])
        asked = np.stack(
            [~np.isnan(v[:, list(c.columns)]).any(axis=1) for c in self.conditions], axis=1
        )
        for pattern in np.unique(asked, axis=0):
            if not pattern.any():
                continue
            sets = self._sets(pattern, matrix[pattern])
            rows = np.flatnonzero((asked == pattern).all(axis=1))
            for turn in range(1 if first else len(sets)):
                rows = rows[~all_hold(self.space.conditions, v[rows])]
                # On a grid the same column would change every time, so columns take turns.
                order = (rows + turn) % len(sets) if self._turns(sets) and not first else turn
                for i in np.unique(order) if len(rows) else ():
                    part = rows if np.ndim(order) == 0 else rows[order == i]
                    tried = self._solved_for(sets[i], v[part], matrix[pattern], bounds[pattern])
                    ok = (
                        np.ones(len(part), dtype=bool)
                        if first
                        else all_hold(self.space.conditions, tried)
                    )
                    v[part[ok]] = tried[ok]
        return v

    def _turns(self, sets: list[tuple[int, ...]]) -> bool:
        return any(self.columns[j].levels is not None for j in sets[0])

    def _solved_for(self, chosen: tuple[int, ...], v: Array, matrix: Array, bounds: Array) -> Array:
        rest = bounds - np.nan_to_num(v) @ matrix.T
        tried = v.copy()
        tried[:, chosen] += np.linalg.solve(matrix[:, chosen], rest.T).T
        return self.space.on_grid(tried)

    def _sets(self, pattern: Mask, matrix: Array) -> list[tuple[int, ...]]:
        """Sets of columns that equalities (m, k) can be solved for, continuous ones first."""
        key = pattern.tobytes()
        if key not in self._solved:
            named = [int(j) for j in np.flatnonzero(matrix.any(axis=0))]
            named.sort(key=lambda j: (self.columns[j].levels is not None, self._steps(j), j))
            every = itertools.islice(itertools.combinations(named, len(matrix)), MOST_TRIED)
            sets = (c for c in every if np.linalg.matrix_rank(matrix[:, c]) == len(matrix))
            self._solved[key] = list(itertools.islice(sets, MOST_SETS))
        return self._solved[key]

    def _steps(self, j: int) -> float:
        return -float(self.columns[j].levels or 0)


def _independent(conditions: tuple[Condition, ...]) -> list[Condition]:
    """The linear equalities, without those that others imply."""
    found: list[Condition] = []
    for condition in conditions:
        if condition.linear is None or not condition.linear.equality:
            continue
        forms = [c.linear.coefficients for c in (*found, condition) if c.linear]
        if np.linalg.matrix_rank(np.array(forms)) == len(forms):
            found.append(condition)
    return found
