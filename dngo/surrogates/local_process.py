"""A Gaussian process for a small region: few hundred points, resolved as finely as they allow.

The surrogate of the whole space spends its capacity on the whole space. Near an optimum a kernel
method on the nearest points is sharper, and on a few hundred of them it is cheap. Its kernel is a
sum: a Matern 5/2 with a length for each input, for anything smooth, and a Fourier series in each
input alone, for objectives that are mostly sums over their parameters, which many are and which are
then learnt from far fewer points. The marginal likelihood decides how much of each there is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from dngo.surrogates.kernels import matern52, squared_distances
from dngo.types import Array

HARMONICS = 16  # of the Fourier series in each input, whose period is twice the region
FREQUENCIES = 256  # random ones, for a sample of the Matern part
# Points that the hyperparameters are fitted to, and steps: most of the way goes with few points, at a
# tenth of the cost.
STAGES = ((128, 30), (400, 15))
JITTER = 1e-8


@dataclass(frozen=True)
class Kernel:
    """Hyperparameters on inputs t in [-1, 1]^d and standardised targets.

    lengths: (d,) of the Matern part. smooth, additive: variances of the two parts.
    spectrum: (HARMONICS,) shares of the additive variance, summing to one. noise: variance.
    """

    lengths: Array
    smooth: float
    additive: float
    spectrum: Array
    noise: float

    @classmethod
    def unpack(cls, theta: Array, d: int) -> Kernel:
        smooth, additive, length, noise = np.exp(theta[d:])
        return cls(np.exp(theta[:d]), smooth, additive, _spectrum(length), noise)

    def __call__(self, a: Array, b: Array) -> Array:
        """Covariance of the function between a (n, d) and b (m, d): (n, m)."""
        return self.matern(a, b) + self.waves(a) @ self.waves(b).T

    def matern(self, a: Array, b: Array) -> Array:
        """The part of the covariance that is a Matern 5/2: (n, m)."""
        correlation, _ = matern52(squared_distances(a / self.lengths, b / self.lengths))
        correlation *= self.smooth
        return correlation

    def waves(self, t: Array) -> Array:
        """Features whose products are the additive part: t (n, d) -> (n, 2 d HARMONICS)."""
        weights = np.sqrt(self.additive * self.spectrum / t.shape[1])
        return (_waves(t) * np.repeat(weights, 2)).reshape(len(t), -1)


@dataclass(frozen=True)
class LocalModel:
    """The posterior given t (n, d) and targets (n,).

    factor: lower Cholesky factor of the covariance of the observations. weights: (n,) its inverse
    times the targets.
    """

    kernel: Kernel
    t: Array
    targets: Array
    factor: Array
    weights: Array

    @classmethod
    def fit(
        cls, t: Array, targets: Array, *, rng: np.random.Generator, share: float = 0.5
    ) -> LocalModel:
        """t: (n, d) in about [-1, 1]^d; targets: (n,) of about zero mean and unit variance.

        share: of the variance that the additive part starts with. The posterior of the
        hyperparameters has several modes; fits from different starts to different rows, side by
        side, stand in for an average over it.
        """
        d = t.shape[1]
        theta = np.concatenate(
            [np.full(d, 0.5 * np.log(d) - 0.3), np.log([1.0 - share, share, 0.3, 0.01])]
        )
        bounds = [(-3.0, 5.0)] * d + [(-9.0, 4.0), (-9.0, 4.0), (-3.0, 1.5), (-14.0, 1.0)]
        # Half of the points the best: there the function must be resolved.
        order = np.argsort(targets, kind="stable")
        for points, steps in STAGES:
            best, others = np.split(order, [points // 2])
            rows = np.sort(np.concatenate([best, rng.permutation(others)[: points - len(best)]]))
            found = minimize(
                _Likelihood(t[rows], targets[rows]),
                theta,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": steps, "maxfun": steps + steps // 4},
            )
            theta = found.x
        kernel = Kernel.unpack(theta, d)
        covariance = kernel(t, t)
        covariance[np.diag_indices(len(t))] += kernel.noise + JITTER
        factor: Array = np.linalg.cholesky(covariance).astype(np.float64, copy=False)
        weights = cho_solve((factor, True), targets)
        return cls(kernel, t, targets, factor, weights)

    def predict(self, t: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the function, without noise, at t (m, d): two (m,)."""
        cross = self.kernel(t, self.t)
        explained = solve_triangular(self.factor, cross.T, lower=True)
        variance = self.kernel.smooth + self.kernel.additive - np.sum(explained**2, axis=0)
        return cross @ self.weights, np.sqrt(np.maximum(variance, 0.0))

    def paths(self, boldness: Array, rng: np.random.Generator) -> Paths:
        """Functions drawn from the posterior, by Matheron's rule: one for each of `boldness`.

        A function of the prior, plus the kernel's correction for where it missed the data. Its
        deviation from the posterior's mean is multiplied by its boldness: 1 is a draw, 0 the mean.
        """
        count = len(boldness)
        d = self.t.shape[1]
        # The spectral density of a Matern 5/2 is a Student t of 5 degrees of freedom.
        tails = np.sqrt(rng.chisquare(5, (FREQUENCIES, 1)) / 5)
        frequencies = rng.standard_normal((FREQUENCIES, d)) / tails / self.kernel.lengths
        phases = rng.uniform(0, 2 * np.pi, FREQUENCIES)
        scale = np.sqrt(2 * self.kernel.smooth / FREQUENCIES)
        smooth = scale * rng.standard_normal((FREQUENCIES, count))
        additive = rng.standard_normal((2 * HARMONICS * d, count))
        noise = np.sqrt(self.kernel.noise) * rng.standard_normal((len(self.t), count))
        prior = Paths(self, frequencies, phases, smooth, additive, np.zeros_like(noise))
        # The correction is linear, so that the mean may be mixed in before it.
        missed = self.targets[:, None] - boldness * (prior(self.t) + noise)
        smooth, additive = boldness * smooth, boldness * additive
        correction = cho_solve((self.factor, True), missed)
        # The additive part has finitely many weights: its correction is one of theirs.
        additive = additive + self.kernel.waves(self.t).T @ correction
        return Paths(self, frequencies, phases, smooth, additive, correction)


@dataclass(frozen=True)
class Paths:
    """`count` sampled functions.

    smooth: (FREQUENCIES, count) and additive: (2 d HARMONICS, count) weights; correction: (n,
    count) of the smooth part's kernel with the data.
    """

    model: LocalModel
    frequencies: Array
    phases: Array
    smooth: Array
    additive: Array
    correction: Array

    def __call__(self, t: Array) -> Array:
        """Every function at every point: t (m, d) -> (m, count)."""
        a, b, cross = self._bases(t)
        value: Array = a @ self.smooth + b @ self.additive + cross @ self.correction
        return value

    def own(self, t: Array) -> Array:
        """Each function at points of its own: t (count, m, d) -> (count, m)."""
        count, m, d = t.shape
        a, b, cross = (z.reshape(count, m, -1) for z in self._bases(t.reshape(-1, d)))
        value: Array = (
            np.matmul(a, self.smooth.T[:, :, None])
            + np.matmul(b, self.additive.T[:, :, None])
            + np.matmul(cross, self.correction.T[:, :, None])
        )[:, :, 0]
        return value

    def _bases(self, t: Array) -> tuple[Array, Array, Array]:
        angles = t @ self.frequencies.T
        angles += self.phases
        kernel = self.model.kernel
        return np.cos(angles, out=angles), kernel.waves(t), kernel.matern(t, self.model.t)


class _Likelihood:
    """Negative log posterior of the hyperparameters and its gradient, divided by n."""

    def __init__(self, t: Array, targets: Array) -> None:
        self.t, self.targets = t, targets
        waves = _waves(t)
        self.waves = np.stack(
            [
                waves[:, :, 2 * f : 2 * f + 2].reshape(len(t), -1)
                @ waves[:, :, 2 * f : 2 * f + 2].reshape(len(t), -1).T
                for f in range(HARMONICS)
            ]
        )
        self.waves /= t.shape[1]
        self.centre = np.concatenate(
            [np.full(t.shape[1], 0.5 * np.log(t.shape[1]) - 0.3), np.log([0.3, 0.3, 0.3, 0.01])]
        )
        self.width = np.concatenate([np.full(t.shape[1], 1.2), [2.0, 2.0, 1.0, 3.0]])

    def __call__(self, theta: Array) -> tuple[float, Array]:
        n, d = self.t.shape
        kernel = Kernel.unpack(theta, d)
        scaled = self.t / kernel.lengths
        matern, slope = matern52(squared_distances(scaled, scaled))
        additive = kernel.additive * np.tensordot(kernel.spectrum, self.waves, axes=1)
        covariance = kernel.smooth * matern + additive
        covariance[np.diag_indices(n)] += kernel.noise + JITTER
        factor, failed = dpotrf(covariance.T, lower=0, clean=1)
        if failed:
            return 1e10, np.zeros_like(theta)
        value = float(np.sum(np.log(np.diag(factor))))
        # A third of the operations of solving for an identity; half of the matrix is filled.
        half, _ = dpotri(factor, lower=0, overwrite_c=1)
        inverse = half + half.T
        inverse[np.diag_indices(n)] *= 0.5
        weights = inverse @ self.targets
        value += 0.5 * float(self.targets @ weights)
        # dL/dK = (K^-1 - w w^T) / 2
        outer = inverse
        outer -= np.outer(weights, weights)
        outer *= 0.5
        gradient = np.empty_like(theta)
        gradient[d] = kernel.smooth * np.vdot(outer, matern)
        gradient[d + 1] = np.vdot(outer, additive)
        weighted = slope
        weighted *= outer
        weighted *= kernel.smooth
        gradient[:d] = 2.0 * (
            np.sum(scaled * scaled * weighted.sum(1)[:, None], axis=0)
            - np.sum(scaled * (weighted @ scaled), axis=0)
        )
        by_harmonic = kernel.additive * np.tensordot(self.waves, outer, axes=2)
        step = 1e-4
        moved = _spectrum(np.exp(theta[d + 2] + step)) - _spectrum(np.exp(theta[d + 2] - step))
        gradient[d + 2] = by_harmonic @ (moved / (2 * step))
        gradient[d + 3] = kernel.noise * np.trace(outer)
        away = (theta - self.centre) / self.width
        return (
            (value + 0.5 * float(away @ away)) / n,
            (gradient + away / self.width) / n,
        )


def _waves(t: Array) -> Array:
    """Cosines and sines of each input: t (n, d) in [-1, 1] -> (n, d, 2 HARMONICS)."""
    first = np.exp(0.5j * np.pi * t)
    powers = np.cumprod(np.broadcast_to(first[..., None], (*t.shape, HARMONICS)), axis=-1)
    return powers.view(np.float64)


def _spectrum(length: float) -> Array:
    """Shares of the harmonics for a function of one input that varies over this length."""
    frequency = 0.5 * np.pi * np.arange(1, HARMONICS + 1)
    density = (1.0 + (frequency * length) ** 2 / 3.0) ** -2.0  # a Matern 3/2
    shares: Array = density / density.sum()
    return shares
