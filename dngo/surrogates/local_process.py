"""A Gaussian process for a small region: it resolves a few hundred points as finely as they allow.

The surrogate of the whole space spends its capacity on the whole space. Near an optimum, a kernel
method on the nearest few hundred points is sharper, and cheap. Its kernel is a sum of three parts:

- a Matern 5/2 with a lengthscale for each input, for anything smooth
- a Fourier series in each input alone, since many objectives are nearly sums over their parameters,
  and a sum is learnt from far fewer points
- all quadratics: objectives are quadratic near their minima, in valleys of any length and direction

A high outcome may have an error in proportion to its height. Otherwise, an objective over many
orders of magnitude would look like noise near its minimum. The marginal likelihood decides how
large each part is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from dngo.rules import current
from dngo.surrogates.evidence import Solved
from dngo.surrogates.gaussian_process import GaussianProcess
from dngo.surrogates.kernels import by_lengthscale, squared_distances, with_slope
from dngo.surrogates.problem import ReportedNoise
from dngo.types import Array


@dataclass(frozen=True)
class LocalProcess(GaussianProcess):
    """A process with one sample of its hyperparameters, on inputs in about [-1, 1]^d. It is never
    stored.

    signal: (1,) variance of the Matern part. additive: (harmonics,) variances of the series' parts, over
    all inputs. quadratic: variance of the quadratics, 0 without any. reported: what was reported of
    the noise. error: a further variance, relative to the height. logarithms: of all hyperparameters; a
    later fit starts from them.
    """

    additive: Array = field(default_factory=lambda: np.empty(0))
    quadratic: float = 0.0
    reported: ReportedNoise = field(default=ReportedNoise(np.nan, np.empty(0)), repr=False)
    error: float = 0.0
    logarithms: Array = field(default_factory=lambda: np.empty(0), repr=False)

    @classmethod
    def sketch(
        cls, t: Array, targets: Array, reported: ReportedNoise, *, rng: np.random.Generator
    ) -> LocalProcess:
        """The first stage of a fit, on few points, at a fifth of the cost. `refined` does the
        others.

        t: (n, d) in about [-1, 1]^d; targets: (n,) of about zero mean and unit variance.
        """
        rules = current().local
        # The additive part starts with half of the variance. The share hardly matters, since most
        # fits end alike.
        theta = _logarithms(t.shape[1], (0.5, 0.5, *rules.medians[2:]))
        theta = _stage(t, targets, reported, theta, *rules.stages[0], rng)
        return cls.of(t, targets, reported, theta)

    def refined(self, rng: np.random.Generator) -> LocalProcess:
        """Completes a sketch by the later stages of its fit."""
        t, targets, reported, theta = self.x, self.targets, self.reported, self.logarithms
        for points, steps in current().local.stages[1:]:
            theta = _stage(t, targets, reported, theta, points, steps, rng)
        return self.of(t, targets, reported, theta)

    def with_noise(self, noise: float, reported: ReportedNoise) -> LocalProcess:
        """The same with another variance of the noise, and other factors on each row's noise."""
        theta = self.logarithms.copy()
        theta[-2] = np.clip(np.log(max(noise, 1e-300)), *current().local.bounds[-2])
        return self.of(self.x, self.targets, reported, theta)

    @classmethod
    def of(cls, t: Array, targets: Array, reported: ReportedNoise, theta: Array) -> LocalProcess:
        """The process whose hyperparameters have the logarithms theta, ordered as in
        `LocalLikelihood`."""
        d = t.shape[1]
        smooth, additive, quadratic, length, noise, error = np.exp(theta[d:])
        return cls(
            t,
            targets,
            theta[None, :d],
            np.array([smooth]),
            np.array([noise + current().local.jitter]),
            additive=additive * spectrum(length, d),
            quadratic=float(quadratic) if d <= current().local.most_quadratic else 0.0,
            relative_noise=reported.relative + error / noise * heights(targets) ** 2,
            reported=reported,
            error=float(error),
            logarithms=theta,
        )

    @property
    def log_evidence(self) -> float:
        """Log density of the targets, given the hyperparameters, up to a constant."""
        (reduction,), (readout,) = self.reduction, self.readout
        return float(np.log(np.diag(reduction)).sum() - 0.5 * readout @ readout)

    def evidence_by_mean(self) -> float:
        """Like `log_evidence`, with the error in proportion to the heights of the mean.

        If the error is proportional to the outcome's own height, every high outcome is likely. That
        helps to find a minimum, but does not show whether the noise is proportional to the height.
        """
        mean, _ = self.at_rows()
        height = np.maximum(mean - np.quantile(self.targets, current().selection.low), 0.0)
        relative = self.reported.relative + self.error / self.noise[0] * height**2
        return replace(self, relative_noise=relative).log_evidence

    def at_rows(self) -> tuple[Array, Array]:
        """Mean and variance of the function at the rows that it is conditioned on: two (n,).

        This needs no new covariance: with noise N they are y - N K^-1 y and N - N K^-1 N.
        """
        (reduction,), (readout,) = self.reduction, self.readout
        noise = self.noise_of_rows(0)
        mean = self.targets - noise * (reduction.T @ readout)
        variance = noise - noise**2 * np.einsum("ij,ij->j", reduction, reduction)
        return mean, np.maximum(variance, 0.0)

    def left_out_density(self) -> Array:
        """Log density of each target given all others, noise included, up to a constant: (n,).

        Rasmussen and Williams (2006), equations (5.10) to (5.12).
        """
        missed, variance = self.left_out_errors()
        return -0.5 * (np.log(variance) + missed**2 / variance)

    def left_out_errors(self) -> tuple[Array, Array]:
        """How far each target lies above what all others predict, and the variance of that: two (n,)."""
        (reduction,), (readout,) = self.reduction, self.readout
        variance = 1.0 / np.einsum("ij,ij->j", reduction, reduction)
        return variance * (reduction.T @ readout), variance

    def axes(self) -> Array | None:
        """Axes along which the mean's quadratic part is a sum: columns of a rotation (d, d).

        None without such a part, or with one input.
        """
        d = self.x.shape[1]
        if d == 1 or not self.quadratic:
            return None
        correction = self.reduction[0].T @ self.readout[0]
        return np.linalg.eigh(forms((products(self.x).T @ correction)[None], d)[0, 1:, 1:])[1]

    def prior_variance(self, x: Array) -> Array:
        return self.signal[:, None] + np.square(self.basis(x)).sum(axis=1)

    def basis(self, x: Array, h: int = 0) -> Array:
        """The features of the series and of the quadratics: x (n, d) -> (n, 2 d harmonics + q)."""
        weights = np.sqrt(self.additive / x.shape[1])
        found = (series(x) * np.repeat(weights, 2)).reshape(len(x), -1)
        if not self.quadratic:
            return found
        return np.hstack([found, np.sqrt(self.quadratic) * products(x)])

    def basis_slopes(self, x: Array, weights: Array, h: int = 0) -> Array:
        n, d = x.shape
        of_series, of_products = np.split(weights, [2 * d * harmonics(d)], axis=1)
        frequency = 0.5 * np.pi * np.arange(1, harmonics(d) + 1)
        amplitude = frequency * np.sqrt(self.additive / d)
        of_cosines, of_sines = np.moveaxis(of_series.reshape(n, d, -1, 2), -1, 0)
        cosines, sines = np.moveaxis(series(x).reshape(n, d, -1, 2), -1, 0)
        found = (cosines * of_sines - sines * of_cosines) @ amplitude
        if self.quadratic:
            one = np.hstack([np.ones((n, 1)), x])
            both = forms(of_products, d)
            found += np.sqrt(self.quadratic) * np.einsum("nij,nj->ni", both, one)[:, 1:]
        return found

    def covariance(self, a: Array, b: Array) -> Array:
        return self.stationary(a, b) + self.basis(a) @ self.basis(b).T


def _logarithms(d: int, others: Sequence[float]) -> Array:
    """Of hyperparameters: a median length for each of d inputs, then the others."""
    length = 0.5 * np.log(d) + np.log(current().local.length)
    return np.concatenate([np.full(d, length), np.log(others)])


def _stage(
    t: Array,
    targets: Array,
    reported: ReportedNoise,
    theta: Array,
    points: int,
    steps: int,
    rng: np.random.Generator,
) -> Array:
    """Logarithms of the hyperparameters after this many steps from theta, with this many of the
    points."""
    d = t.shape[1]
    bounds = [current().local.bounds[0]] * d + list(current().local.bounds[1:])
    if d > current().local.most_quadratic:
        bounds[d + 2] = (theta[d + 2], theta[d + 2])
    # Half of the points are the best ones, where the function must be resolved.
    best, others = np.split(np.argsort(targets, kind="stable"), [points // 2])
    rows = np.sort(np.concatenate([best, rng.permutation(others)[: points - len(best)]]))
    found: Array = minimize(
        LocalLikelihood(t[rows], targets[rows], heights(targets)[rows], reported.at(rows)),
        theta,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": steps, "maxfun": steps + steps // 4},
    ).x
    return found


class LocalLikelihood:
    """Negative log posterior of the hyperparameters and its gradient, divided by n.

    The logarithms are: d lengths, the variances of the Matern part, of the series and of the quadratics,
    the length in the series, the variances of the noise and of the relative error.
    """

    def __init__(self, t: Array, targets: Array, height: Array, reported: ReportedNoise) -> None:
        self.t, self.targets, self.squares, self.relative = t, targets, height**2, reported.relative
        n, d = t.shape
        by_harmonic = series(t).reshape(n, d, -1, 2).transpose(2, 0, 1, 3).reshape(-1, n, 2 * d)
        self.series = by_harmonic @ by_harmonic.transpose(0, 2, 1) / d
        z = products(t) if d <= current().local.most_quadratic else np.zeros((n, 1))
        self.quadratics = z @ z.T
        self.centre = _logarithms(d, current().local.medians)
        self.width = np.repeat(current().local.deviations, [d, 1, 1, 1, 1, 1, 1])
        if np.isfinite(reported.level):
            self.centre[-2], self.width[-2] = np.log(reported.level), current().noise.deviation

    def __call__(self, theta: Array) -> tuple[float, Array]:
        n, d = self.t.shape
        smooth, variance, quadratic, length, noise, error = np.exp(theta[d:])
        scaled = self.t * np.exp(-theta[:d])
        matern, slope = with_slope("matern52", squared_distances(scaled, scaled))
        additive = variance * np.tensordot(spectrum(length, d), self.series, axes=1)
        covariance = smooth * matern + additive + quadratic * self.quadratics
        own = noise * self.relative + error * self.squares + current().local.jitter
        covariance[np.diag_indices(n)] += own
        solved = Solved.of(covariance, self.targets)
        if solved is None:
            return 1e10, np.zeros_like(theta)
        outer = -solved.slope()
        gradient = np.empty_like(theta)
        gradient[:d] = by_lengthscale(scaled, smooth * slope * outer)
        gradient[d] = smooth * np.vdot(outer, matern)
        by_harmonic = variance * np.tensordot(self.series, outer, axes=2)
        gradient[d + 1] = by_harmonic @ spectrum(length, d)
        gradient[d + 2] = quadratic * np.vdot(outer, self.quadratics)
        step = 1e-4
        moved = spectrum(length * np.exp(step), d) - spectrum(length * np.exp(-step), d)
        gradient[d + 3] = by_harmonic @ (moved / (2 * step))
        gradient[d + 4] = noise * np.sum(np.diag(outer) * self.relative)
        gradient[d + 5] = error * np.sum(np.diag(outer) * self.squares)
        away = (theta - self.centre) / self.width
        value = 0.5 * (solved.log_det + solved.misfit + float(away @ away))
        return value / n, (gradient + away / self.width) / n


def heights(targets: Array) -> Array:
    """How far each of the targets (n,) lies above the low ones: (n,), 0 for low ones."""
    return np.maximum(targets - np.quantile(targets, current().selection.low), 0.0)


def products(t: Array) -> Array:
    """All products of two of (1, t), scaled to squares of about 1 in sum: t (n, d) in [-1, 1] ->
    (n, (d + 1) (d + 2) / 2). Their kernel, (1 + t^T t')^2, contains all quadratics.
    """
    n, d = t.shape
    one = np.hstack([np.ones((n, 1)), t])
    i, j = np.triu_indices(d + 1)
    return one[:, i] * one[:, j] * np.where(i == j, 1.0, np.sqrt(2.0)) / (1.0 + d / 3.0)


@dataclass(frozen=True)
class Quadratic:
    """The axes along which a quadratic is a sum, in columns (d, d), and its log evidence."""

    axes: Array
    log_evidence: float


def likeliest_quadratic(t: Array, targets: Array) -> Quadratic | None:
    """The likeliest one for points t (n, d) and targets (n,), or None with one input or too many.

    Its error is the likeliest mixture of noise and a part in proportion to the targets' heights. It
    is fitted to whitened points, because the low points of a steep function lie in a thin slab, in
    which the plain inputs hardly show the axes. Nothing here is random. Taken from a process that
    was fitted to a few of the points, axes were missed by chance in one fit of six
    (benchmarks/tried.md, the axes of the likeliest quadratic).
    """
    n, d = t.shape
    if not 1 < d <= current().local.most_turned:
        return None
    middle, white = t.mean(axis=0), np.eye(d)
    _, sizes, rotation = np.linalg.svd(t - middle, full_matrices=False)
    if n > d and sizes[-1] > 1e-9 * sizes[0]:
        white = rotation.T * (0.5 * np.sqrt(n) / sizes)
    z, squares = products((t - middle) @ white), heights(targets) ** 2
    fits = (
        _weights(z, targets, noise + error * squares)
        for noise in current().local.noise_of_axes
        for error in current().local.error_of_axes
    )
    evidence, weights = max(fits, key=lambda fit: fit[0])
    turn = np.linalg.eigh(forms(weights[None], d)[0, 1:, 1:])[1]
    return Quadratic(white @ turn, evidence)


def _weights(z: Array, targets: Array, variance: Array) -> tuple[float, Array]:
    """Bayesian linear regression with a prior of unit variance: the log evidence, and the weights'
    mean.

    z: (n, q); targets and variance of their noise: (n,). Bishop (2006), equations (3.53) and (3.86).
    """
    scaled = z / variance[:, None]
    form = z.T @ scaled
    # Added to the prior's covariance: what rounding takes from the smallest eigenvalue.
    form[np.diag_indices(len(form))] += 1.0 + 1e-13 * np.trace(form)
    precision = cho_factor(form)
    weights: Array = cho_solve(precision, scaled.T @ targets)
    misfit = targets / variance @ (targets - z @ weights)
    log_det = 2.0 * np.log(np.diag(precision[0])).sum() + np.log(variance).sum()
    return -0.5 * (misfit + log_det), weights


def forms(weights: Array, d: int) -> Array:
    """Second derivatives by (1, t) of weighted sums of `products`: (n, .) -> (n, d + 1, d + 1)."""
    one, i, j = np.zeros((len(weights), d + 1, d + 1)), *np.triu_indices(d + 1)
    one[:, i, j] = weights * np.where(i == j, 1.0, np.sqrt(2.0)) / (1.0 + d / 3.0)
    return one + one.transpose(0, 2, 1)


def series(t: Array) -> Array:
    """Cosines and sines of each input: t (n, d) in [-1, 1] -> (n, d, 2 harmonics)."""
    first = np.exp(0.5j * np.pi * t)
    powers = np.cumprod(
        np.broadcast_to(first[..., None], (*t.shape, harmonics(t.shape[1]))), axis=-1
    )
    return powers.view(np.float64)


def harmonics(d: int) -> int:
    """The number of harmonics for each of d inputs; lower if there are hundreds."""
    rules = current().local
    return max(2, min(rules.harmonics, rules.most_harmonics // max(d, 1)))


def spectrum(length: float, d: int) -> Array:
    """Shares of the harmonics, for a function of one of d inputs with this length."""
    frequency = 0.5 * np.pi * np.arange(1, harmonics(d) + 1)
    density = (1.0 + (frequency * length) ** 2 / 3.0) ** -2.0  # a Matern 3/2
    shares: Array = density / density.sum()
    return shares
