"""Inputs that waver: a function's mean over where the inputs may really be.

A machine set to 5.00 bar runs somewhere within 0.02 of it. The robust optimum is the point whose mean over
that box is lowest, not the bottom of a narrow hole (Beyer and Sendhoff 2007, "Robust optimization", section
3.2). The objective is evaluated at the point itself; the mean is taken of functions drawn from its model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import qmc

from dngo.rules import current
from dngo.space import Space
from dngo.surrogates.component import Functions
from dngo.types import Array


@dataclass(frozen=True)
class Wavering:
    """How far inputs waver. shifts: (s, k) in natural units, 0 for the others."""

    space: Space
    shifts: Array

    @classmethod
    def of(cls, space: Space, within: Mapping[str, float], pairs: int | None = None) -> Wavering:
        """within: half of the width of each wavering parameter's range, in natural units. pairs: of
        places; None: as many as a batch takes."""
        pairs = pairs or current().joint.shifts
        names = [column.name for column in space.columns]
        columns = [names.index(name) for name in sorted(within)]
        shifts = np.zeros((2 * pairs, space.k))
        shifts[:, columns] = _cube(pairs, len(columns)) * [within[name] for name in sorted(within)]
        return cls(space, shifts)

    def around(self, v: Array) -> Array:
        """Where inputs set to v (n, k) may really be, inside their bounds: (n s, k)."""
        moved = (v[:, None] + self.shifts).reshape(-1, v.shape[1])
        low, high = ([getattr(c, end) for c in self.space.columns] for end in ("low", "high"))
        return np.clip(moved, low, high)

    def mean(self, values: Array) -> Array:
        """The means of values (..., n s) of these places, by point: (..., n)."""
        return np.asarray(values.reshape(*values.shape[:-1], -1, len(self.shifts)).mean(axis=-1))

    def expected(
        self, function: Callable[[Array], tuple[Array, Array]], v: Array
    ) -> tuple[Array, Array]:
        """The means of a function's mean and deviation, of encoded points, over where inputs set to v (n,
        k) may really be: two (n,)."""
        mean, deviation = function(self.space.encode(self.around(v)))
        return self.mean(mean), self.mean(deviation)


@dataclass(frozen=True)
class Seen:
    """Drawn functions of points v instead of encoded ones. wavering: of their mean over it."""

    functions: Functions
    space: Space
    wavering: Wavering | None = None

    def __call__(self, v: Array) -> Array:
        """Every function at every point: v (n, k) -> (count, n)."""
        if self.wavering is None:
            return self.functions(self.space.encode(v))
        return self.wavering.mean(self.functions(self.space.encode(self.wavering.around(v))))

    def own(self, v: Array) -> Array:
        """Each function at its own points: v (count, n, k) -> (count, n)."""
        flat = v.reshape(-1, v.shape[2])
        if self.wavering is None:
            x = self.space.encode(flat)
            return self.functions.own(x.reshape(*v.shape[:2], -1))
        x = self.space.encode(self.wavering.around(flat))
        return self.wavering.mean(self.functions.own(x.reshape(len(v), -1, x.shape[1])))


@lru_cache
def _cube(half: int, k: int) -> Array:
    """Points of [-1, 1]^k with their opposites, (2 half, k): the mean of a linear function is exact."""
    some = 2.0 * qmc.Sobol(k, seed=np.random.default_rng(0)).random(half) - 1.0
    return np.concatenate([some, -some])
