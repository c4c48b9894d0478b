"""The search space: what a configuration may vary, and how a point looks to people, jobs and models.

A point has three faces:

``parameters``  a dict of natural values by name, what the objective is given and the archive shows;
``v: (n, k)``   a matrix of natural values, one column for each parameter that varies: numbers as they
                are, choices as their index, NaN where a conditional parameter is inactive;
``x: (n, d)``   the model's inputs in the unit cube: one column for a number, one-hot columns for a
                categorical, and a 0/1 column "active" for each conditional parameter.

Values are rounded to the user's grid *before* they are encoded, so the model sees exactly the point
that the job runs.

Known constraints are a part of the space: every point that `sample`, `round` and `from_unit` give
keeps them, so code that proposes points need not know that there are any.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from dngo.space.constraints import Feasible
from dngo.space.unconstrained import Unconstrained


class Space(Unconstrained):
    """The search space of a study, built from validated parameters (see `dngo.space.parameters`)."""

    @cached_property
    def feasible(self) -> Feasible:
        """The part of the space that keeps its constraints."""
        return Feasible(self)

    def count(self, most: int = 5_000_000) -> float:
        """Number of distinct points that keep the constraints; NaN if more than `most` would have to be
        looked at.
        """
        if self.size > most:
            return math.nan
        shape = [int(c.levels or 1) for c in self.columns]
        values = [c.listed() for c in self.columns]
        found, keys = 0, set[bytes]()
        for start in range(0, int(self.size), 1 << 16):
            at = np.unravel_index(np.arange(start, min(start + (1 << 16), int(self.size))), shape)
            v = self._mask(np.stack([values[j][i] for j, i in enumerate(at)], axis=1).astype(float))
            v = v[self.holds(v)]
            found += len(v)
            if self._flag_columns:  # several combinations are one point
                keys.update(self.keys(v))
        return len(keys) if self._flag_columns else found

    def sample(self, u: np.ndarray) -> np.ndarray:
        """Points (n, k) that keep the constraints. They are uniform if the u (n, k) in [0, 1] are.

        Each is the point that u decodes to. If that breaks a constraint, it is another point, which
        u determines as well.
        """
        u = np.atleast_2d(np.asarray(u, dtype=float))
        return self.feasible.sample(u) if self.conditions else self.decode(u)

    def holds(self, v: np.ndarray) -> np.ndarray:
        """Which of the points v (n, k) keep every constraint: (n,) bool."""
        return self.feasible.holds(np.atleast_2d(v))

    def round(self, v: np.ndarray) -> np.ndarray:
        """Move natural values to near ones that lie on the grids and keep the constraints.

        v: (n, k).  Inactive parameters become NaN, newly active ones their default.
        """
        v = self.on_grid(v)
        return self.feasible.repair(v) if self.conditions else v

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        """Natural values near coordinates u (n, k), on the grids, that keep the constraints: (n, k)."""
        v = self.at(u)
        return self.feasible.repair(v) if self.conditions else v

    @property
    def plain(self) -> Space:
        """The space that models see. It is this space itself, unless there is a fidelity."""
        return self
