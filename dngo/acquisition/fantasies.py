"""Monte Carlo acquisition over fantasies of everything pending (section 3.3, (11), (12)).

Every hyperparameter sample of every component is Gaussian. A pending point is conditioned on by a
rank-one update; the covariance does not depend on the fantasised outcome, so all fantasies share
its update and differ in their means alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dger
from scipy.special import ndtri

from dngo.acquisition.measures import Measure, expected_improvement
from dngo.surrogates.gaussian_process import GaussianProcess
from dngo.surrogates.linear import FiniteBasis
from dngo.types import Array

Component = FiniteBasis | GaussianProcess
# Fantasies of all samples of a kind of component together: a sparse process with two samples had twenty.
FEWEST = 50
# Points evaluated at once: what a block of them takes stays within a processor's cache. With points
# pending each has the means of all fantasies.
BLOCK, BLOCK_PENDING = 2048, 256


class Fantasies:
    """The posterior given everything pending, over fantasies of the outcomes.

    components: finite bases and Gaussian processes in any mixture, by their weights. The bases have
    the same number H of hyperparameter samples and D of features; each process has its own H.
    best: lowest observed target, the incumbent that fantasies start from.
    count: S, fantasies for each hyperparameter sample of each component; more of them where all
    samples of a kind together would have fewer than FEWEST.
    measure: how improvement is measured; its expectation if not given.
    noisy: whether improvement is that of an observation, noise included, as in (5), or that of
    the function itself.

    The incumbent of each fantasy includes its own fantasised outcomes. With a fixed one the tower
    property turns the average over fantasies back into plain expected improvement, and a batch
    piles up on one point.
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
        bases = [c for c in components if isinstance(c, FiniteBasis)]
        processes = [c for c in components if isinstance(c, GaussianProcess)]
        self.rng, self.noisy, self.measure = rng, noisy, measure
        self.parts: list[_Bases | _Process] = [_Bases(bases)] if bases else []
        self.parts += [_Process(process) for process in processes]
        total = sum(c.weight for c in components)
        for part in self.parts:
            part.weight = part.weight / total
            part.best = np.full((*part.noise.shape, 1), best)
            part.count = max(count, -(-FEWEST // part.noise.size))
        self.pending = 0

    @property
    def incumbent(self) -> float:
        """The incumbent on average over fantasies."""
        return float(sum(part.weight @ part.best.mean(axis=(1, 2)) for part in self.parts))

    def features(self, x: Array) -> Array:
        """x: (n, d) -> z, what the other methods take: n points along its second axis.

        (C, n, D) where all components are finite bases; else (1, n, .), the features of all
        components side by side.
        """
        z = [part.features(x) for part in self.parts]
        return z[0] if len(z) == 1 else np.concatenate([_flat(part) for part in z], axis=2)

    def moments(self, z: Array) -> list[tuple[Array, Array]]:
        """Of the function, without noise, for all bases and for each process, in this order.

        Means (C, H, S, n) and variances (C, H, 1, n); of a process, C is 1. The means' third axis
        has length 1 while nothing is pending.
        """
        found = [part.moments(own) for part, own in self._split(z)]
        return [(m, np.maximum(v, 0.0)[:, :, None, :]) for m, v in found]

    def improvement(self, z: Array) -> Array:
        """Acquisition (12): the average over components, samples and fantasies. z -> (n,)."""
        average = np.zeros(z.shape[1])
        for part, (mean, variance) in zip(self.parts, self.moments(z), strict=True):
            if self.noisy:
                variance = variance + part.noise[..., None, None]
            values = self.measure(part.best[..., None], mean, np.sqrt(variance))
            average += part.weight @ values.mean(axis=(1, 2))
        return average

    def weighted(self, z: Array, weight: Array) -> Array:
        """Acquisition times weights that are positive: z, (n,) -> (n,)."""
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
        feasibility: the probability that the outcome holds all constraints. Only where it is drawn
        to hold them does the point become the incumbent; as an infeasible outcome has no
        objective, the means are updated either way with the value that it would have had. The
        classifiers are not updated with the fantasised constraint outcomes.
        """
        for part, own in self._split(z[:, None]):
            mean, latent, taken = part.at(own)
            latent = np.maximum(latent, 0.0)
            value = mean + np.sqrt(latent)[..., None] * self._normal(part)
            outcome = value + np.sqrt(part.noise)[..., None] * self._normal(part)
            # In units of its predictive deviation, each outcome's surprise moves the means.
            deviation = np.sqrt(latent + part.noise)
            part.condition(own, taken, (outcome - mean) / deviation[..., None], deviation)
            found = outcome if self.noisy else value
            holds = self.rng.random(outcome.shape) < feasibility
            part.best = np.where(holds, np.minimum(part.best, found), part.best)
        self.pending += 1

    def _split(self, z: Array) -> list[tuple[_Bases | _Process, Array]]:
        if len(self.parts) == 1:
            return [(self.parts[0], z)]
        ends = np.cumsum([part.width for part in self.parts])[:-1]
        pieces = np.split(z, ends, axis=2)
        return [(part, part.unflat(piece)) for part, piece in zip(self.parts, pieces, strict=True)]

    def _normal(self, part: _Bases | _Process) -> Array:
        """Standard normals (C, H, S), one in each of S equally likely strata, in random order."""
        shape = (*part.noise.shape, part.count)
        strata = self.rng.permuted(np.broadcast_to(np.arange(part.count), shape), axis=-1)
        uniform = (strata + self.rng.random(shape)) / part.count
        return ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))


class _Part:
    """Components of one kind given what is pending, and the incumbents of their fantasies.

    noise: (C, H); weight: (C,), a share of one; best: (C, H, 1 or S); count: S.
    """

    noise: Array
    weight: Array
    best: Array
    count: int


class _Bases(_Part):
    """Finite bases given what is pending: means (S x D) and a covariance (D x D) of the weights.

    The cost of a candidate does not grow with what is pending.
    """

    def __init__(self, components: Sequence[FiniteBasis]) -> None:
        self.components = components
        self.noise = np.stack([c.noise for c in components])
        self.weight = np.array([c.weight for c in components])
        variance = np.stack([c.variance for c in components])  # (C, H, D)
        self.size, _, self.features_each = variance.shape
        self.width = self.size * self.features_each
        self.diagonal: Array | None = variance  # until the first pending point
        self.covariance = np.empty(0)  # (C, H, D, D)
        # One mean serves all fantasies until the first pending point tells them apart.
        self.means = np.stack([c.mean for c in components])[:, :, None, :]  # (C, H, 1 or S, D)

    def features(self, x: Array) -> Array:
        return np.stack([c.features(x) for c in self.components])

    def unflat(self, z: Array) -> Array:
        return z[0].reshape(-1, self.size, self.features_each).transpose(1, 0, 2)

    def moments(self, z: Array) -> tuple[Array, Array]:
        """z: (C, n, D) -> means (C, H, S, n), variances (C, H, n)."""
        mean = self.means @ z.transpose(0, 2, 1)[:, None]
        if self.diagonal is not None:
            return mean, self.diagonal @ (z * z).transpose(0, 2, 1)
        return mean, np.vecdot(z[:, None] @ self.covariance, z[:, None])

    def at(self, z: Array) -> tuple[Array, Array, Array]:
        """z: (C, 1, D) -> means (C, H, S), variances (C, H), weights' covariances with it (C, H, D)."""
        if self.diagonal is not None:
            taken = self.diagonal * z
        else:
            taken = (self.covariance @ z[:, 0, None, :, None])[..., 0]
        mean = (self.means @ z[:, 0, None, :, None])[..., 0]
        return mean, np.vecdot(taken, z), taken

    def condition(self, z: Array, taken: Array, surprise: Array, deviation: Array) -> None:
        """z: (C, 1, D), taken: (C, H, D), surprise: (C, H, S), deviation: (C, H)."""
        if self.diagonal is not None:
            self.covariance = self.diagonal[..., None] * np.eye(self.features_each)
            self.diagonal = None
        pushed = taken / deviation[..., None]
        self.means = self.means + surprise[..., None] * pushed[:, :, None, :]
        # One by one and in place, as all at once ask for as much memory again: twice as fast.
        for c, h in np.ndindex(self.noise.shape):
            one, covariance = pushed[c, h], self.covariance[c, h].T
            dger(-1.0, one, one, a=covariance, overwrite_a=1)


class _Process(_Part):
    """A Gaussian process given what is pending, by its Cholesky factor bordered at each pick.

    What a candidate needs are its mean and variance before, and its covariances with the pending
    points, which the factor turns into what each of them takes from its variance. The cost of a
    candidate grows with the square of what is pending.
    """

    def __init__(self, process: GaussianProcess) -> None:
        self.process = process
        self.noise = process.noise[None]
        self.weight = np.array([process.weight])
        h, n = len(process.noise), len(process.x)
        self.width = process.x.shape[1] + h * n
        self.pending = np.empty((0, self.width))
        self.inverse = np.empty((h, 0, 0))  # of the factor of the pending points' covariance
        self.surprise = np.empty((h, 0, 0))  # (H, J, S)

    def features(self, x: Array) -> Array:
        return self.process.features(x)[None]

    def unflat(self, z: Array) -> Array:
        return z

    def moments(self, z: Array) -> tuple[Array, Array]:
        """z: (1, n, .) -> means (1, H, S, n), variances (1, H, n)."""
        mean, variance = self.process.latent(z[0])
        if len(self.pending) == 0:
            return mean[None, :, None], variance[None]
        taken = self._taken(z[0])
        means = mean[:, None] + self.surprise.transpose(0, 2, 1) @ taken
        return means[None], (variance - np.einsum("hjn,hjn->hn", taken, taken))[None]

    def at(self, z: Array) -> tuple[Array, Array, Array]:
        """z: (1, 1, .) -> means (1, H, S), variances (1, H), the pending points' share (1, H, J)."""
        mean, variance = self.process.latent(z[0])
        if len(self.pending) == 0:
            return mean[None], variance.T, np.empty((1, len(mean), 0))
        taken = self._taken(z[0])[None, :, :, 0]
        means = mean[None] + (taken[..., None, :] @ self.surprise)[..., 0, :]
        return means, variance.T - np.vecdot(taken, taken), taken

    def condition(self, z: Array, taken: Array, surprise: Array, deviation: Array) -> None:
        """z: (1, 1, .), taken: (1, H, J), surprise: (1, H, S), deviation: (1, H)."""
        h, j = len(self.inverse), len(self.pending)
        bordered = np.zeros((h, j + 1, j + 1))
        bordered[:, :j, :j] = self.inverse
        bordered[:, j, j] = 1.0 / deviation[0]
        row = (taken[0][:, None] @ self.inverse)[:, 0]
        bordered[:, j, :j] = -row / deviation[0][:, None]
        self.inverse = bordered
        before = self.surprise if j else np.empty((h, 0, surprise.shape[2]))
        self.surprise = np.concatenate([before, surprise[0][:, None]], axis=1)
        self.pending = np.concatenate([self.pending, z[0]])

    def _taken(self, z: Array) -> Array:
        """L^-1 times the covariance of the pending points with z (n, .): (H, J, n)."""
        return self.inverse @ self.process.posterior_covariance(self.pending, z)


def _flat(z: Array) -> Array:
    """(C, n, D) -> (1, n, C D)."""
    return z.transpose(1, 0, 2).reshape(1, z.shape[1], -1)


def weigh(value: Array, weight: Array) -> Array:
    """Values times positive weights; divided by them where a value is negative.

    So that more weight is never worse, and equal weights change no order.
    """
    if (value >= 0).all():
        return value * weight
    return np.where(value < 0, value / np.maximum(weight, 1e-300), value * weight)
