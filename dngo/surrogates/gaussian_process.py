"""Exact Gaussian process regression. Its hyperparameters are integrated over by slice sampling.

The model of Snoek, Larochelle and Adams (2012, section 3): a stationary kernel with automatic relevance
determination, a constant mean, Gaussian noise. It is the better surrogate while observations are
few. Its cost is cubic in their number.

GPyTorch is not used, for three reasons. A few hundred observations need only a kernel matrix and
its Cholesky factor. Torch would take longer to start than the fit takes. And the sampler keeps our
random stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import factorial

from dngo.rules import current
from dngo.surrogates.apart import apart
from dngo.surrogates.component import Component
from dngo.surrogates.evidence import Evidence
from dngo.surrogates.kernels import Covariance, correlation, squared_distances, with_slope
from dngo.surrogates.numerics import with_task
from dngo.surrogates.problem import Fit, Problem
from dngo.surrogates.slice_sampling import slice_sample
from dngo.surrogates.storage import stored_as
from dngo.types import Array, Group, Progress, Rows

Single = NDArray[np.float32]

# degrees of freedom of the Student t that is the spectral density
DEGREES = {"matern52": 5, "matern32": 3}
GIVEN = ("x", "targets", "log_lengthscales", "signal", "noise")  # of a process, in files
STEPS = 60  # most steps of L-BFGS-B to a mode
REPORTED = "relative_noise"  # only where noise was reported
FACTORS = ("reduction", "readout")  # of a sparse one


@stored_as("gaussian_process")
@dataclass(frozen=True)
class GaussianProcess(Component):
    """One component of a posterior over functions: a Gaussian process, at H samples of its
    hyperparameters.

    x: (n, d) unit cube, targets: (n,): the data on which it is conditioned; no targets if it is
    sparse.
    log_lengthscales: (H, d); signal: (H,) variance; noise: (H,) variance of an observation.
    relative_noise: (n,) factor on each observation's noise; empty: all have the same.
    weight: of the component in the mixture that is the posterior.
    reduction: (H, n, n) and readout: (H, n). With v = reduction k(X, x) the posterior mean is
    readout^T v, and the variance is the prior's minus v^T v. By default reduction is the inverse
    Cholesky factor, and readout is that times the targets. In a sparse process x are inducing
    inputs, and reduction and readout come from more observations.

    The constant mean is integrated out, as a constant in the kernel (`ProcessRules.constant`).
    """

    x: Array
    targets: Array
    log_lengthscales: Array
    signal: Array
    noise: Array
    kernel: str = "matern52"
    weight: float = 1.0
    reduction: Array = field(default_factory=lambda: np.empty(0), repr=False)
    readout: Array = field(default_factory=lambda: np.empty(0), repr=False)
    relative_noise: Array = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        if self.is_sparse:
            return
        n = len(self.x)
        factors = np.empty((len(self.noise), n, n))
        for h, covariance in enumerate(self.covariance(self.x, self.x)):
            covariance[np.diag_indices(n)] += self.noise_of_rows(h)
            factors[h] = inverse_cholesky(covariance)
        object.__setattr__(self, "reduction", factors)
        object.__setattr__(self, "readout", factors @ self.targets)

    def save(self, group: Group) -> None:
        """When an exact process is loaded, its factors are computed again: the bits are the same,
        and the file is smaller."""
        group.attrs["kernel"], group.attrs["weight"] = self.kernel, self.weight
        reported = (REPORTED,) if len(self.relative_noise) else ()
        for name in (*GIVEN, *reported, *(FACTORS if self.is_sparse else ())):
            group.create_dataset(name, data=getattr(self, name))

    @classmethod
    def load(cls, group: Group) -> GaussianProcess:
        arrays = {name: group[name][()] for name in (*GIVEN, REPORTED, *FACTORS) if name in group}
        weight = float(group.attrs.get("weight", 1.0))
        return cls(**arrays, kernel=str(group.attrs["kernel"]), weight=weight)

    @property
    def is_sparse(self) -> bool:
        """Whether it holds fewer points than it was fitted to."""
        return len(self.targets) < len(self.x)

    def noise_of_rows(self, h: int) -> Array:
        """Variance of each observation's noise, of sample h: (n,)."""
        ones = np.ones(len(self.x))
        return self.noise[h] * (self.relative_noise if len(self.relative_noise) else ones)

    def covariance(self, a: Array, b: Array) -> Array:
        """Prior covariance of the function: a (n, d), b (m, d) -> (H, n, m)."""
        constant = current().process.constant * self.signal
        return self.stationary(a, b) + constant[:, None, None]

    def stationary(self, a: Array, b: Array, h: int | slice = slice(None)) -> Array:
        """The part of the covariance that falls with distance, for all samples, or for sample h:
        (n, m)."""
        scales = np.exp(-self.log_lengthscales[h])[..., None, :]
        # Of a thousand levels most are never seen, and a column of zeros adds nothing to any
        # product.
        kept = b.any(axis=0)
        further: Array | float = 0.0
        if not kept.all():
            further = np.square(a[:, ~kept]) @ np.square(scales[..., ~kept]).swapaxes(-1, -2)
            a, b, scales = a[:, kept], b[:, kept], scales[..., kept]
        found = correlation(self.kernel, a * scales, b * scales, further)
        found *= self.signal[h][..., None, None]
        return found

    def basis(self, x: Array, h: int) -> Array:
        """Features whose products are the rest of the covariance, for sample h: x (n, d) -> (n,
        1)."""
        return np.full((len(x), 1), np.sqrt(current().process.constant * self.signal[h]))

    def stationary_slopes(self, x: Array, weights: Array, h: int) -> Array:
        """Gradients at x (n, d): (n, d). For each row, the function is a weighted sum of sample h's
        stationary covariances with the process's inputs. weights: (n, N)."""
        scales = np.exp(-self.log_lengthscales[h])
        a, b = x * scales, self.x * scales
        _, slope = with_slope(self.kernel, squared_distances(a, b))
        slope *= self.signal[h] * weights
        return (slope @ b - slope.sum(axis=1)[:, None] * a) * scales

    def basis_slopes(self, x: Array, weights: Array, h: int) -> Array:
        """The same for the basis: x (n, d), weights (n, 1) -> (n, d)."""
        return np.zeros_like(x)

    def prior_variance(self, x: Array) -> Array:
        """The function's variance before any observation: x (n, d) -> (H, n), or (H, 1) if constant."""
        return self.signal[:, None] * (1.0 + current().process.constant)

    def features(self, x: Array) -> Array:
        """x: (n, d) -> z: (n, d + H x N): the inputs, and L^-1 k(X, x) for each sample."""
        x = with_task(x, self.x.shape[1])
        whitened = self.covariance(x, self.x) @ self.reduction.transpose(0, 2, 1)
        return np.concatenate([x, whitened.transpose(1, 0, 2).reshape(len(x), -1)], axis=1)

    def split(self, z: Array) -> tuple[Array, Array]:
        """The two kinds of features: inputs (n, d), and whitened covariances with the observations
        (H, n, N)."""
        d = self.x.shape[1]
        return z[:, :d], z[:, d:].reshape(len(z), len(self.noise), -1).transpose(1, 0, 2)

    def latent(self, z: Array) -> tuple[Array, Array]:
        """Mean and variance of the function, without noise: two (H, n)."""
        x, whitened = self.split(z)
        mean = np.einsum("hnk,hk->hn", whitened, self.readout)
        variance = self.prior_variance(x) - np.einsum("hnk,hnk->hn", whitened, whitened)
        return mean, np.maximum(variance, 0.0)

    def posterior_covariance(self, a: Array, b: Array) -> Array:
        """Covariance of the function between features a (n, .) and b (m, .): (H, n, m)."""
        (xa, va), (xb, vb) = self.split(a), self.split(b)
        return self.covariance(xa, xb) - va @ vb.transpose(0, 2, 1)

    def draw(self, h: int, boldness: Array, rng: np.random.Generator) -> Paths:
        return Paths.draw(self, h, boldness, rng)

    def left_out(self, fold: Rows) -> tuple[Array, Array]:
        """The prediction of each fold's rows from the other folds, noise included: two (n, H).

        It is exact and needs no new fit: blocks of the inverse covariance are enough. Only the
        hyperparameters have seen all rows. fold: (n,) labels.
        """
        mean = np.empty((len(self.x), len(self.noise)))
        variance = np.empty_like(mean)
        for h, factor in enumerate(self.reduction):
            pull = factor.T @ self.readout[h]
            for k in np.unique(fold):
                rows = np.flatnonzero(fold == k)
                block = factor[:, rows].T @ factor[:, rows]
                covariance = np.linalg.inv(block)
                mean[rows, h] = self.targets[rows] - covariance @ pull[rows]
                variance[rows, h] = np.diag(covariance)
        return mean, np.maximum(variance, 1e-300)


@dataclass(frozen=True)
class Paths:
    """Functions of one sample of a process, drawn path-wise. Evaluating one costs as much as a
    mean.

    Each is a function drawn from the prior (by random Fourier features), plus a correction that
    makes it fit the data (Wilson and others 2020, "Efficiently sampling functions from Gaussian
    process posteriors"). The correction is exact. Only the prior is approximated, which matters
    where there are no data.

    frequencies: (F, d), of unscaled inputs; waves: (2 F, count) weights of their cosines and sines;
    weights: (p, count) of the process's basis; correction: (N, count) of its stationary kernel.
    """

    process: GaussianProcess
    h: int
    frequencies: Array
    waves: Single
    weights: Array
    correction: Array

    @classmethod
    def draw(
        cls, process: GaussianProcess, h: int, boldness: Array, rng: np.random.Generator
    ) -> Paths:
        number, count, d = current().paths.frequencies, len(boldness), process.x.shape[1]
        frequencies = rng.standard_normal((number, d)) * np.exp(-process.log_lengthscales[h])
        variance = np.full(number, process.signal[h] / number)
        if process.kernel in DEGREES:
            # The spectrum is a Student t: a normal over the root of a gamma variable. This variable
            # is drawn in strata of an exponential, and weighted. Its smallest values give the few
            # highest frequencies, which make up most of what the data leave open.
            shape = 0.5 * DEGREES[process.kernel]
            gamma = -np.log1p(-(np.arange(number) + rng.random(number)) / number)
            frequencies /= np.sqrt(gamma / shape)[:, None]
            variance *= gamma ** (shape - 1.0) / factorial(shape - 1.0)
        waves = rng.standard_normal((2 * number, count), dtype=np.float32)
        waves *= np.sqrt(np.tile(variance, 2), dtype=np.float32)[:, None]
        basis = process.basis(process.x, h)
        weights = rng.standard_normal((basis.shape[1], count))
        prior = _waves(process.x, frequencies) @ waves + basis @ weights
        reduction = process.reduction[h]
        # With v = reduction k(X, x), the prior's function has a white v, up to a rest. The rest is
        # the observations' noise, and in a sparse process all that the inducing inputs leave open.
        rest = _rest(process, h) @ rng.standard_normal((len(reduction), count))
        missed = reduction @ prior + rest
        correction = reduction.T @ (process.readout[h][:, None] - boldness * missed)
        # The basis has finitely many weights, so there the correction changes the weights.
        weights = boldness * weights + basis.T @ correction
        waves = (boldness * waves).astype(np.float32)
        return cls(process, h, frequencies, waves, weights, correction)

    def __call__(self, x: Array) -> Array:
        x = with_task(x, self.process.x.shape[1])
        waves, basis, kernel = self._features(x)
        value: Array = waves @ self.waves + basis @ self.weights + kernel @ self.correction
        return value.T

    def own(self, x: Array) -> Array:
        flat = with_task(x.reshape(-1, x.shape[-1]), self.process.x.shape[1])
        waves, basis, kernel = (z.reshape(*x.shape[:2], -1) for z in self._features(flat))
        value: Array = np.matmul(waves, self.waves.T[:, :, None]).astype(float)
        value += np.matmul(basis, self.weights.T[:, :, None])
        value += np.matmul(kernel, self.correction.T[:, :, None])
        return value[..., 0]

    def slopes(self, x: Array) -> Array:
        d = x.shape[1]
        x, p, h = with_task(x, self.process.x.shape[1]), self.process, self.h
        cosines, sines = np.split(_waves(x, self.frequencies), 2, axis=1)
        of_cosines, of_sines = np.split(self.waves.T, 2, axis=1)
        found = (cosines * of_sines - sines * of_cosines) @ self.frequencies
        found += p.basis_slopes(x, self.weights.T, h)
        found += p.stationary_slopes(x, self.correction.T, h)
        return found[:, :d]

    def _features(self, x: Array) -> tuple[Single, Array, Array]:
        """The features that waves, weights and correction multiply: x (n, inputs) -> (n, .) each."""
        p, h = self.process, self.h
        return _waves(x, self.frequencies), p.basis(x, h), p.stationary(x, p.x, h)


def _waves(x: Array, frequencies: Array) -> Single:
    """Cosines and sines in single precision: (n, 2 F).

    A prior needs no more digits. NumPy needs 1 ns for such a cosine, and 20 to 40 ns in double
    precision.
    """
    angles = x.astype(np.float32) @ frequencies.T.astype(np.float32)
    found = np.empty((len(x), 2 * len(frequencies)), dtype=np.float32)
    np.cos(angles, out=found[:, : len(frequencies)])
    np.sin(angles, out=found[:, len(frequencies) :])
    return found


def _rest(process: GaussianProcess, h: int) -> Array:
    """A root of I - R K R^T, where R is the reduction and K the prior covariance at the process's
    inputs."""
    reduction = process.reduction[h]
    if not process.is_sparse:
        return reduction * np.sqrt(process.noise_of_rows(h))
    known = reduction @ process.covariance(process.x, process.x)[h] @ reduction.T
    values, vectors = np.linalg.eigh(np.eye(len(known)) - known)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def fit_process(
    problem: Problem,
    covariance: Covariance,
    samples: int,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    teachers: int | None = None,
) -> Fit[GaussianProcess]:
    """One component: a process with this many samples of its hyperparameters; 0: at their mode.

    teachers: at most so many observations, far apart, teach the lengthscales; None: all do. All of them
    teach the noise and the signal, and all are in the process.
    """

    def learn(some: Problem, own: np.random.Generator) -> tuple[Array, float]:
        return _hyperparameters(some, covariance, samples, own, progress, teachers or len(some.x))

    chain, highest = problem.learn(f"process {covariance} {samples} {teachers}", learn, rng)
    evidence = Evidence(problem, covariance)
    signal = np.exp(chain[:, -1])
    process = GaussianProcess(
        problem.x,
        problem.targets,
        np.ascontiguousarray(chain[:, :-2][:, evidence.groups]),  # as when it is read from a file
        signal,
        signal * np.exp(chain[:, -2]),
        evidence.kernel,
        relative_noise=np.empty(0) if problem.noise is None else problem.noise.relative,
    )
    found = {
        "gp_log_evidence": highest,
        "gp_log_noise": float(np.mean(np.log(process.noise))),
        "gp_log_signal": float(np.mean(chain[:, -1])),
    }
    return Fit((process,), found)


def _hyperparameters(
    problem: Problem,
    covariance: Covariance,
    samples: int,
    rng: np.random.Generator,
    progress: Progress | None,
    teachers: int,
) -> tuple[Array, float]:
    """Samples (H, p) of the logarithms of the hyperparameters, and the highest evidence."""
    x = problem.x
    rows = apart(x, teachers, rng, problem.groups)
    rules, near, steps = current().process, None, STEPS
    evidence = Evidence(problem.at(rows), covariance)
    if len(rows) > 1.5 * rules.sketch:
        some = np.sort(rng.permutation(rows)[: rules.sketch])
        near, _ = Evidence(problem.at(some), covariance).mode(None, STEPS)
        steps = rules.steps_after_sketch
    start, highest = evidence.mode(near, steps)
    if progress is not None:
        progress(0.3, "sampling the hyperparameters of a Gaussian process")
    if not np.isfinite(evidence(start)):
        start = evidence.prior_mean
    chain = _sampled(evidence, start, samples, len(rows), rng) if samples else start[None]
    if len(rows) < len(x):
        everything = Evidence(problem, covariance)
        for log in chain:
            _resample_noise(everything, log, rng)
            if len(x) > teachers:
                _resample_signal(everything, log, rng)
    return chain, highest


def _sampled(
    evidence: Evidence, mode: Array, samples: int, n: int, rng: np.random.Generator
) -> Array:
    """Samples (H, p) of the logarithms of the hyperparameters, by a chain from the mode.

    If there are very many lengthscales, these stay at the mode. n: observations.
    """
    rules, moving = current().process, np.arange(len(mode))
    if len(mode) - 2 > rules.most_alone:
        samples, moving = min(samples, rules.samples_of_many), moving[-2:]

    def density(some: Array) -> float:
        log = mode.copy()
        log[moving] = some
        return evidence(log)

    found = np.tile(mode, (samples, 1))
    found[:, moving] = slice_sample(
        density,
        mode[moving],
        width=1.0,
        samples=samples,
        burn_in=rules.burn_in,
        thin=int(np.clip(rules.thin * rules.thin_up_to // n, 1, rules.thin)),
        rng=rng,
    )
    return found


def _resample_noise(evidence: Evidence, log: Array, rng: np.random.Generator) -> None:
    """Redraw the noise of a sample, in place, from all observations, since replicates show the
    noise best."""

    def density(noise: Array) -> float:
        return evidence(np.r_[log[:-2], noise, log[-1]])

    if np.isfinite(density(log[-2:-1])):
        log[-2] = slice_sample(
            density, log[-2:-1], width=2.0, samples=1, burn_in=1, thin=1, rng=rng
        )[0, 0]


def _resample_signal(evidence: Evidence, log: Array, rng: np.random.Generator) -> None:
    """Redraw the signal of a sample, in place, from all observations."""

    def density(signal: Array) -> float:
        return evidence(np.r_[log[:-1], signal])

    log[-1:] = slice_sample(density, log[-1:], width=1.0, samples=1, burn_in=3, thin=1, rng=rng)[0]


def inverse_cholesky(covariance: Array) -> Array:
    """L^-1 where covariance = L L^T; if rounding requires it, a little is added to the diagonal."""
    n = len(covariance)
    if n == 0:
        return covariance
    jitter = 0.0
    while True:
        factor, info = lapack.dpotrf(covariance, lower=1)
        if info == 0:
            break
        more = max(10 * jitter, 1e-12 * float(np.trace(covariance)) / n)
        covariance = covariance + (more - jitter) * np.eye(n)
        jitter = more
    # LAPACK leaves the zeros above the diagonal.
    inverse, _ = lapack.dtrtri(factor, lower=1, overwrite_c=1)
    return inverse
