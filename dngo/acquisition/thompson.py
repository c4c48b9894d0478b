"""Thompson sampling on the posterior of the whole space: a pick minimises a function drawn from it.

Every draw is a point that is the best in some world that the data allow, so the picks stay
meaningful where an expected improvement over hundreds of fantasised outcomes has vanished; and the
cost of a pick does not grow with those before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dngo.surrogates.linear import FiniteBasis

Array = NDArray[np.float64]

CHUNK = 64  # functions drawn at once
JOINT = 400  # points at which a Gaussian process is drawn jointly; the others are left out


class Draws:
    """Functions drawn from the mixture of components, at fixed points x (n, d)."""

    def __init__(self, components: Sequence, x: Array, rng: np.random.Generator) -> None:
        self.components, self.rng = components, rng
        weight = np.array([getattr(c, "weight", 1.0) for c in components])
        self.weight = weight / weight.sum()
        self.z: dict[int, Array] = {}
        self.factors: dict[tuple[int, int], tuple[Array, Array]] = {}
        self.x = x
        self.rows = np.sort(rng.permutation(len(x))[:JOINT])

    def __call__(self, count: int) -> Array:
        """Values (count, n) of functions; infinite where one was not drawn."""
        values = np.full((count, len(self.x)), np.inf)
        chosen = self.rng.choice(len(self.components), count, p=self.weight)
        for c, component in enumerate(self.components):
            mine = np.flatnonzero(chosen == c)
            if len(mine) == 0:
                continue
            sample = self.rng.integers(0, len(component.noise), len(mine))
            if isinstance(component, FiniteBasis):
                if c not in self.z:
                    self.z[c] = component.features(self.x)
                mean, variance = component.mean[sample], component.variance[sample]
                weights = mean + np.sqrt(variance) * self.rng.standard_normal(mean.shape)
                values[mine] = weights @ self.z[c].T
            else:
                for i, h in zip(mine, sample, strict=True):
                    mean, factor = self._joint(c, int(h))
                    drawn = mean + factor @ self.rng.standard_normal(len(mean))
                    values[i, self.rows] = drawn
        return values

    def _joint(self, c: int, h: int) -> tuple[Array, Array]:
        """Mean (m,) and a factor (m, m) of the covariance of a process's sample h at some points."""
        if (c, h) not in self.factors:
            component = self.components[c]
            if c not in self.z:
                self.z[c] = component.features(self.x[self.rows])
            mean, _ = component.latent(self.z[c])
            covariance = component.posterior_covariance(self.z[c], self.z[c])[h]
            values, vectors = np.linalg.eigh(covariance)
            factor = vectors * np.sqrt(np.maximum(values, 0.0))
            self.factors[c, h] = mean[h], factor
        return self.factors[c, h]
