"""Functions drawn path-wise from a Gaussian process: each can be evaluated anywhere, at the cost of a mean.

A function of the prior, by random Fourier features, and the kernel's correction for where that function
missed the data (Wilson and others 2020, "Efficiently sampling functions from Gaussian process
posteriors"). The correction is exact, so that only the prior is approximate, where there are no data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import factorial

from dngo.rules import current
from dngo.surrogates.numerics import with_task
from dngo.types import Array

if TYPE_CHECKING:
    from dngo.surrogates.gaussian_process import GaussianProcess

Single = NDArray[np.float32]

DEGREES = {"matern52": 5, "matern32": 3}  # of freedom of the Student t that is the spectral density


@dataclass(frozen=True)
class Paths:
    """Functions of one sample of a process.

    frequencies: (F, d), of inputs as they are; waves: (2 F, count) weights of
    their cosines and sines; weights: (p, count) of the process's basis; correction: (N, count) of
    its stationary kernel.
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
        count, d = len(boldness), process.x.shape[1]
        frequencies = rng.standard_normal((current().paths.frequencies, d)) * np.exp(
            -process.log_lengthscales[h]
        )
        variance = np.full(
            current().paths.frequencies, process.signal[h] / current().paths.frequencies
        )
        if process.kernel in DEGREES:
            # The spectrum is a Student t: a normal over the root of a gamma variable. That is drawn
            # in strata from an exponential, and weighted: what the data leave open of a function is
            # mostly in its few highest waves, which are the variable's smallest values.
            shape = 0.5 * DEGREES[process.kernel]
            strata = (
                np.arange(current().paths.frequencies) + rng.random(current().paths.frequencies)
            ) / current().paths.frequencies
            gamma = -np.log1p(-strata)
            frequencies /= np.sqrt(gamma / shape)[:, None]
            variance *= gamma ** (shape - 1.0) / factorial(shape - 1.0)
        waves = rng.standard_normal((2 * current().paths.frequencies, count), dtype=np.float32)
        waves *= np.sqrt(np.tile(variance, 2), dtype=np.float32)[:, None]
        basis = process.basis(process.x, h)
        weights = rng.standard_normal((basis.shape[1], count))
        prior = _waves(process.x, frequencies) @ waves + basis @ weights
        reduction = process.reduction[h]
        # With v = reduction k(X, x), what the prior's function has of v is white but for a rest: the
        # observations' noise, or, of a sparse process, all that its inducing inputs leave open.
        missed = reduction @ prior + _rest(process, h) @ rng.standard_normal(
            (len(reduction), count)
        )
        correction = reduction.T @ (process.readout[h][:, None] - boldness * missed)
        # The basis has finitely many weights, so its correction is one of weights.
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
    """Cosines and sines: (n, 2 F), in single precision.

    NumPy takes 1 ns for a cosine of that, and 20 to 40 in double; a prior needs no more digits.
    """
    angles = x.astype(np.float32) @ frequencies.T.astype(np.float32)
    found = np.empty((len(x), 2 * len(frequencies)), dtype=np.float32)
    np.cos(angles, out=found[:, : len(frequencies)])
    np.sin(angles, out=found[:, len(frequencies) :])
    return found


def _rest(process: GaussianProcess, h: int) -> Array:
    """A root of I - R K R^T, R the reduction and K the prior covariance at the process's inputs."""
    reduction = process.reduction[h]
    if not process.is_sparse:
        return reduction * np.sqrt(process.noise_of_rows(h))
    known = reduction @ process.covariance(process.x, process.x)[h] @ reduction.T
    values, vectors = np.linalg.eigh(np.eye(len(known)) - known)
    return vectors * np.sqrt(np.maximum(values, 0.0))
