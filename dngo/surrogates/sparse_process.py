"""A Gaussian process on inducing inputs. Its cost is linear in the observations.

A random part of the observations is enough to sample lengthscales. All observations determine the
signal, the noise and the posterior, by Bayesian linear regression on the kernel's features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dngo.rules import current
from dngo.surrogates.apart import apart
from dngo.surrogates.gaussian_process import GaussianProcess, fit_process, inverse_cholesky
from dngo.surrogates.kernels import Covariance
from dngo.surrogates.linear import Regression, equally_precise
from dngo.surrogates.problem import Fit, Problem, Trial
from dngo.surrogates.slice_sampling import slice_sample
from dngo.types import Array, Rows


def fit_sparse_process(
    problem: Problem,
    covariance: Covariance,
    samples: int,
    size: int,
    trial: tuple[Rows, Rows] | None = None,
    *,
    rng: np.random.Generator,
) -> Fit[GaussianProcess]:
    """One component, a process on `size` inducing inputs.

    trial: labels (n,) of folds, and rows (m,) to predict from the other folds. The prior variance
    at a point is not approximated, so the process is uncertain far from the inducing inputs
    (Titsias 2009).
    """
    x, targets = problem.x, problem.targets
    streams = rng.spawn(3)
    some = apart(x, size, streams[0], problem.groups)
    samples = min(samples, current().sparse.samples)
    lengths = fit_process(problem.at(some), covariance, samples, rng=streams[1])
    (exact,), found = lengths.components, lengths.diagnostics
    inducing = _inducing(x, targets, some, size, streams[0])
    fits = [_Head.fit(problem, exact, h, inducing, rng=streams[2]) for h in range(samples)]
    signal, noise = (np.array([getattr(fit, name) for fit in fits]) for name in ("signal", "noise"))
    process = GaussianProcess(
        inducing,
        np.empty(0),
        exact.log_lengthscales,
        signal,
        noise,
        exact.kernel,
        reduction=np.array([fit.reduction for fit in fits]),
        readout=np.array([fit.readout for fit in fits]),
    )
    found |= {
        "gp_log_noise": float(np.mean(np.log(noise))),
        "gp_log_signal": float(np.mean(np.log(signal))),
    }
    if trial is None:
        return Fit((process,), found)
    densities = [_left_out(fit, problem, *trial) for fit in fits]
    density = np.logaddexp.reduce(densities, axis=0) - np.log(len(densities))
    return Fit((process,), found, Trial(trial[1], density))


def _inducing(x: Array, targets: Array, some: Rows, size: int, rng: np.random.Generator) -> Array:
    """`size` inducing inputs: some of the best observations, the rest from rows `some`."""
    best = np.argsort(targets, kind="stable")[: size // current().sparse.near_optimum]
    others = rng.permutation(np.setdiff1d(some, best))[: size - len(best)]
    return x[np.sort(np.concatenate([best, others]))]


@dataclass(frozen=True)
class _Head:
    """Bayesian linear regression on the features of one sample's kernel.

    phi: (n, m) the observations' features; reduction (m, m) and readout (m,): as of
    `GaussianProcess`.
    """

    phi: Array
    signal: float
    noise: float
    reduction: Array
    readout: Array

    @classmethod
    def fit(
        cls,
        problem: Problem,
        exact: GaussianProcess,
        h: int,
        inducing: Array,
        *,
        rng: np.random.Generator,
    ) -> _Head:
        """With the lengthscales of sample h of a process; signal and noise are redrawn."""
        nothing = np.empty(0)
        lengthscales, one = exact.log_lengthscales[h : h + 1], np.ones(1)
        unit = GaussianProcess(inducing[:0], nothing, lengthscales, one, one, exact.kernel)
        covariance = unit.covariance(inducing, inducing)[0]
        whitening = inverse_cholesky(covariance + current().sparse.jitter * np.eye(len(inducing)))
        phi = unit.covariance(problem.x, inducing)[0] @ whitening.T
        head = Regression.fit(phi, problem.targets, problem.relative_noise)
        # The prior is on the noise as a share of the signal, or, if noise is reported, on its
        # level.
        rules = current().process
        noise, width, of_signal = np.log(rules.noise), rules.noise_deviation, 1.0
        if problem.noise is not None:
            noise, width, of_signal = np.log(problem.noise.level), current().noise.deviation, 0.0

        def log_posterior(log: Array) -> float:
            away = (log[1] - of_signal * log[0] - noise) / width
            if np.max(np.abs(log)) > 20.0 or abs(away) > 6.0:
                return -np.inf
            prior = -0.5 * ((log[0] / rules.signal_deviation) ** 2 + away**2)
            return prior + head.log_evidence(np.exp(-log[0]), np.exp(-log[1]))

        start = np.log([exact.signal[h], exact.noise[h]])
        if not np.isfinite(log_posterior(start)):
            start = np.array([0.0, noise])
        chain = slice_sample(
            log_posterior,
            start,
            width=1.0,
            samples=1,
            burn_in=current().sparse.burn_in,
            thin=1,
            rng=rng,
        )
        signal, level = np.exp(chain[0])
        (mean,), (variance,) = head.posterior(1 / np.array([signal]), 1 / np.array([level]))
        gained = np.sqrt(np.maximum(signal - variance, 1e-12 * signal))
        reduction = (gained / signal)[:, None] * (head.rotation.T @ whitening)
        return cls(phi, signal, level, reduction, mean / gained)


def _left_out(head: _Head, problem: Problem, fold: Rows, rows: Rows) -> Array:
    """Log density of each of `rows` given the other folds: (m,)."""
    phi, targets, signal, noise = head.phi, problem.targets, head.signal, head.noise
    density, relative = np.empty(len(rows)), problem.relative_noise
    scaled, values = equally_precise(phi, targets, relative)
    gram, projection = scaled.T @ scaled, scaled.T @ values
    for k in np.unique(fold):
        out, here = scaled[fold == k], fold[rows] == k
        precision = (gram - out.T @ out) / noise + np.eye(len(gram)) / signal
        factor = inverse_cholesky(precision)
        new = phi[rows[here]]
        mean = new @ (factor.T @ (factor @ (projection - out.T @ values[fold == k]))) / noise
        variance = np.sum((new @ factor.T) ** 2, axis=1) + noise * relative[rows[here]]
        left = 1.0 + current().process.constant - np.sum(new * new, axis=1)
        variance += signal * np.maximum(left, 0.0)
        error = (targets[rows[here]] - mean) ** 2 / variance
        density[here] = -0.5 * (error + np.log(2 * np.pi * variance))
    return density
