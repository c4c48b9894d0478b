"""The evidence of a Gaussian process's hyperparameters: their priors, its value and slope, its mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from dngo.rules import current
from dngo.surrogates.kernels import Covariance, by_lengthscale, squared_distances, with_slope
from dngo.surrogates.numerics import LOG_LIMIT
from dngo.surrogates.problem import Problem
from dngo.types import Array


class Evidence:
    """log p(targets, hyperparameters) as a function of the logarithms of the hyperparameters.

    Coordinates: log lengthscales (one for each parameter, or 1 shared), log of the noise's share of the
    signal, log signal. If the others are fixed, the signal only scales the covariance, so its
    density costs nothing. If noise is reported, its prior is on the level instead of the share.
    """

    def __init__(self, problem: Problem, covariance: Covariance) -> None:
        self.targets, self.noise, (self.n, d) = problem.targets, problem.noise, problem.x.shape
        self._relative = problem.relative_noise
        self.kernel, ard = covariance.kernel, covariance.ard
        groups = np.arange(d) if problem.groups is None else problem.groups
        rules, widths = current().process, np.bincount(groups)
        # Two levels differ in two columns.
        median = rules.lengthscale * max(len(widths), 1) ** 0.5
        medians = median * np.where(widths > 1, 2**0.5, 1.0) if ard else np.array([median])
        self.groups, lengths = groups if ard else np.zeros_like(groups), len(medians)
        # An input with one value adds nothing to a distance. Most of a thousand levels are such.
        varies = np.ptp(problem.x, axis=0) > 0
        self.x, self._of = np.compress(varies, problem.x, axis=1), self.groups[varies]
        self.size = lengths + 2
        self.prior_mean = np.log(np.r_[medians, rules.noise, rules.signal])
        deviations = [rules.lengthscale_deviation, rules.noise_deviation, rules.signal_deviation]
        self.prior_deviation = np.repeat(deviations, [lengths, 1, 1])
        if self.noise is not None:
            self.prior_mean[-2] = np.log(np.clip(self.noise.level, 10 * rules.least_noise, 1e4))
            self.prior_deviation[-2] = current().noise.deviation
        self._key: bytes | None = None
        self._value = (0.0, 0.0)

    def log_prior(self, log: Array) -> float:
        rules = current().process
        far = np.abs(log - self.prior_mean) > LOG_LIMIT
        if log[-2] < np.log(rules.least_noise) or far.any():
            return -np.inf
        return -0.5 * float(np.sum((self._away(log) / self.prior_deviation) ** 2))

    def _away(self, log: Array) -> Array:
        """Deviations from the priors' medians."""
        away: Array = log - self.prior_mean
        if self.noise is not None:
            away[-2] += log[-1]
        return away

    def __call__(self, log: Array) -> float:
        prior = self.log_prior(log)
        if not np.isfinite(prior):
            return -np.inf
        key = log[:-1].tobytes()
        if key != self._key:
            factor, info = lapack.dpotrf(self._matrix(log)[0].T, lower=1, overwrite_a=1)
            if info != 0:
                return -np.inf
            white, _ = lapack.dtrtrs(factor, self.targets, lower=1)
            self._value = (float(white @ white), 2.0 * float(np.sum(np.log(np.diag(factor)))))
            self._key = key
        misfit, log_det = self._value
        return prior - 0.5 * (
            misfit * np.exp(-log[-1]) + log_det + self.n * (log[-1] + np.log(2 * np.pi))
        )

    def with_gradient(self, log: Array) -> tuple[float, Array]:
        """The value and its gradient."""
        prior = self.log_prior(log)
        matrix, slope, scaled = self._matrix(log)
        solved = Solved.of(matrix, self.targets)
        if solved is None or not np.isfinite(prior):
            return -np.inf, np.zeros_like(log)
        scale = np.exp(-log[-1])
        misfit, constant = solved.misfit * scale, self.n * (log[-1] + np.log(2 * np.pi))
        weight = solved.slope(scale)
        gradient = -self._away(log) / self.prior_deviation**2
        gradient[-1] += gradient[-2] if self.noise is not None else 0.0
        each = by_lengthscale(scaled, weight * slope)
        gradient[:-2] += np.bincount(self._of, each, minlength=self.size - 2)
        gradient[-2] += np.exp(log[-2]) * float(np.sum(np.diag(weight) * self._relative))
        gradient[-1] += 0.5 * (misfit - self.n)
        return prior - 0.5 * (misfit + solved.log_det + constant), gradient

    def mode(self, start: Array | None, steps: int) -> tuple[Array, float]:
        """The mode that quasi-Newton finds from `start`, or from the prior's medians, in so many steps."""
        rules = current().process
        low = np.maximum(self.prior_mean - LOG_LIMIT, -LOG_LIMIT)
        low[-2] = np.log(rules.least_noise) + 1e-9
        bounds = list(zip(low, self.prior_mean + LOG_LIMIT - 1e-9, strict=True))

        def descend(log: Array) -> tuple[float, Array]:
            value, gradient = self.with_gradient(log)
            return (-value, -gradient) if np.isfinite(value) else (1e25, gradient)

        found = minimize(
            descend,
            self.prior_mean if start is None else start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": steps},
        )
        return found.x, float(-found.fun)

    def _matrix(self, log: Array) -> tuple[Array, Array, Array]:
        """The covariance divided by the signal, and the kernel's slope, both (n, n); and the scaled
        inputs."""
        scaled = self.x * np.exp(-log[:-2])[self._of]
        squares = squared_distances(scaled, scaled)
        matrix, slope = with_slope(self.kernel, squares)
        matrix = matrix + current().process.constant
        matrix[np.diag_indices(self.n)] += np.exp(log[-2]) * self._relative
        return matrix, slope, scaled


@dataclass(frozen=True)
class Solved:
    """The parts of a Gaussian density of targets y (n,) with covariance K (n, n).

    misfit: y^T K^-1 y; log_det: `ln |K|`; pull: (n,) K^-1 y; inverse: (n, n) K^-1.
    """

    misfit: float
    log_det: float
    pull: Array
    inverse: Array

    @classmethod
    def of(cls, matrix: Array, targets: Array) -> Solved | None:
        """None unless the matrix is positive definite. It is overwritten."""
        factor, info = lapack.dpotrf(matrix.T, lower=1, overwrite_a=1)
        if info != 0:
            return None
        log_det = 2.0 * float(np.sum(np.log(np.diag(factor))))
        # This takes a third of the operations of solving for an identity, but fills only half of
        # the matrix.
        half, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        inverse = half + half.T
        inverse[np.diag_indices(len(half))] *= 0.5
        pull = inverse @ targets
        return cls(float(targets @ pull), log_det, pull, inverse)

    def slope(self, scale: float = 1.0) -> Array:
        """Derivative of the log density by the covariance: (n, n). scale: factor on the misfit."""
        return 0.5 * (scale * np.outer(self.pull, self.pull) - self.inverse)
