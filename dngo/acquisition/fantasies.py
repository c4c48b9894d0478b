"""Monte Carlo acquisition over fantasies of everything pending (section 3.3, (11), (12)).

Every hyperparameter sample of every component is Gaussian. A rank-one update conditions it on a pending
point. The covariance does not depend on the fantasised outcome: all fantasies share its update, and differ
only in their means.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from scipy.special import ndtri

from dngo.acquisition.measures import Measure, expected_improvement
from dngo.rules import current
from dngo.surrogates.component import Component, Conditioned
from dngo.types import Array

# Points evaluated at once: a block must fit a processor's cache. While points are pending, each
# point of a block has a mean for each fantasy.
BLOCK, BLOCK_PENDING = 2048, 256


class Fantasies:
    """The posterior given everything pending, over fantasies of the outcomes.

    components: of a mixture, with their weights; the components of one stack are conditioned
    together.
    best: lowest observed target, the incumbent that fantasies start from.
    count: S, fantasies for each hyperparameter sample of each component; more if otherwise all
    samples of one kind together had too few.
    measure: of improvement; by default its expectation.
    noisy: whether improvement is measured on an observation, noise included, as in (5), or on the function.

    The incumbent of each fantasy includes the outcomes that it fantasises. If the incumbent were
    fixed, the average over fantasies would be plain expected improvement (the tower property), and
    a batch would pile up on one point.
    """

    def __init__(
        self,
        components: Sequence[Component],
        best: float,
        count: int,
        rng: np.random.Generator,
        *,
        noisy: bool = True,
        measure: Measure = expected_improvement,
    ) -> None:
        self.rng, self.noisy, self.measure = rng, noisy, measure
        stacks: dict[Hashable, list[Component]] = {}
        for component in components:
            stacks.setdefault(component.stack, []).append(component)
        self.parts = [members[0].conditioned(members) for members in stacks.values()]
        total = sum(c.weight for c in components)
        for part in self.parts:
            part.weight = part.weight / total
            part.best = np.full((*part.noise.shape, 1), best)
            part.count = max(count, -(-current().improvement.fewest_fantasies // part.noise.size))
        self.luck = [self._uniform(part) for part in self.parts]
        self.pending = 0

    @property
    def incumbent(self) -> float:
        """The incumbent, averaged over fantasies."""
        return float(sum(part.weight @ part.best.mean(axis=(1, 2)) for part in self.parts))

    def features(self, x: Array) -> Array:
        """x: (n, d) -> z, for the other methods, with n points along its second axis.

        (C, n, D) if all components are of one stack. Else (1, n, .): the features of all components side by
        side.
        """
        z = [part.features(x) for part in self.parts]
        for part, own in zip(self.parts, z, strict=True):
            part.shape = own.shape[0], own.shape[2]
        return z[0] if len(z) == 1 else np.concatenate([_flat(part) for part in z], axis=2)

    def moments(self, z: Array) -> list[tuple[Array, Array]]:
        """The function's moments, without noise, by stack: means (C, H, S, n), variances (C, H, 1, n).

        The means' third axis has length 1 while nothing is pending.
        """
        found = [part.moments(own) for part, own in self._split(z)]
        return [(m, np.maximum(v, 0.0)[:, :, None, :]) for m, v in found]

    def improvement(self, z: Array) -> Array:
        """Acquisition (12): the average over components, samples and fantasies. z -> (n,)."""
        average = np.zeros(z.shape[1])
        for part, own in self._split(z):
            mean, variance = part.moments(own)
            variance = np.maximum(variance, 0.0)
            if self.noisy:
                variance = variance + part.noise_at(own)
            values = self.measure(part.best[..., None], mean, np.sqrt(variance)[:, :, None])
            average += part.weight @ values.mean(axis=(1, 2))
        return average

    def weighted(self, z: Array, weight: Array) -> Array:
        """Acquisition times positive weights: z, (n,) -> (n,)."""
        return weigh(self.improvement(z), weight)

    def at(self, x: Array, weight: Array) -> Array:
        """`weighted` at points x (n, d), block by block."""
        block = BLOCK if self.pending == 0 else BLOCK_PENDING
        parts = [self.improvement(self.features(x[i : i + block])) for i in range(0, len(x), block)]
        return weigh(np.concatenate(parts), weight) if parts else np.empty(0)

    def deviation(self, z: Array) -> Array:
        """Root of the average variance over components and samples: z -> (n,)."""
        average = np.zeros(z.shape[1])
        for part, (_, variance) in zip(self.parts, self.moments(z), strict=True):
            average += part.weight @ variance.mean(axis=(1, 2))
        return np.sqrt(average)

    def condition(self, z: Array, feasibility: float = 1.0) -> None:
        """Make a point pending: draw its outcome in every fantasy and update.

        z: (C, D), the point's features: those of `features` without the second axis.
        feasibility: the probability that the outcome holds all constraints. The point becomes the
        incumbent only in fantasies in which it holds them. All pending points share a fantasy's
        luck, since neighbours fail together where a bound is drawn too loosely. If each had its
        own, one of dozens would hold nearly always, and no improvement would be left
        (benchmarks/tried.md, many bounds). The means are updated in all fantasies: an infeasible
        outcome counts with the value that it would have had. The classifiers are not updated.
        """
        for luck, (part, own) in zip(self.luck, self._split(z[:, None]), strict=True):
            mean, latent, taken = part.at(own)
            latent, noise = np.maximum(latent, 0.0), part.noise_at(own)[..., 0]
            value = mean + np.sqrt(latent)[..., None] * self._normal(part)
            outcome = value + np.sqrt(noise)[..., None] * self._normal(part)
            # Each outcome's surprise, in units of its predictive deviation, moves the means.
            deviation = np.sqrt(latent + noise)
            part.condition(own, taken, (outcome - mean) / deviation[..., None], deviation)
            found = outcome if self.noisy else value
            part.best = np.where(luck < feasibility, np.minimum(part.best, found), part.best)
        self.pending += 1

    def _split(self, z: Array) -> list[tuple[Conditioned, Array]]:
        if len(self.parts) == 1:
            return [(self.parts[0], z)]
        ends = np.cumsum([np.prod(part.shape) for part in self.parts])[:-1]
        pieces = np.split(z[0], ends, axis=1)
        return [
            (part, piece.reshape(-1, *part.shape).transpose(1, 0, 2))
            for part, piece in zip(self.parts, pieces, strict=True)
        ]

    def _normal(self, part: Conditioned) -> Array:
        """Standard normals (C, H, S), one in each of S equally likely strata."""
        return ndtri(np.clip(self._uniform(part), 1e-12, 1 - 1e-12))

    def _uniform(self, part: Conditioned) -> Array:
        """Uniform numbers (C, H, S), one in each of S equally likely strata, in random order."""
        shape = (*part.noise.shape, part.count)
        strata = self.rng.permuted(np.broadcast_to(np.arange(part.count), shape), axis=-1)
        return np.asarray((strata + self.rng.random(shape)) / part.count)


def _flat(z: Array) -> Array:
    """(C, n, D) -> (1, n, C D)."""
    return z.transpose(1, 0, 2).reshape(1, z.shape[1], -1)


def weigh(value: Array, weight: Array) -> Array:
    """Values times positive weights; negative values are divided by them.

    So a larger weight is never worse, and equal weights do not change the order.
    """
    if (value >= 0).all():
        return value * weight
    return np.where(value < 0, value / np.maximum(weight, 1e-300), value * weight)
