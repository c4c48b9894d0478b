"""BOHAMIANN: a neural network whose weights are sampled (Springenberg et al. 2016).

The samples are a finite basis. The outputs f_1(x) ... f_M(x) of M networks have a mean and a
variance, the moments (5); rotated so that the first axis is the mean's, they are features of
uncorrelated weights whose linear model has the same moments, jointly at any set of points.
Conditioning on a pending point is then an exact rank-one update of the ensemble's moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dngo.surrogates.linear import FiniteBasis
from dngo.surrogates.network import chunks, inputs_of
from dngo.surrogates.numerics import child
from dngo.surrogates.problem import Fit, Problem
from dngo.surrogates.settings import Bohamiann
from dngo.surrogates.sghmc import Sampler
from dngo.types import Array, Progress

Single = NDArray[Any]  # float32

EMBEDDING = 5  # L, inputs that tell the tasks apart
# Log-normal prior of the noise variance, as a share of the targets'.
LOG_NOISE, LOG_NOISE_DEVIATION = float(np.log(1e-2)), 2.0
# Gamma prior of the weights' precision in each layer, over the layer's inputs.
SHAPE, RATE = 1.0, 1.0
GIBBS_EVERY = 20  # steps
ROWS = 512  # of which all networks' hidden layers are held at once


@dataclass(frozen=True)
class SampledNetworks:
    """M networks drawn from the posterior: the basis functions.

    weights[l]: (M, inputs, outputs), biases[l]: (M, 1, outputs), the output layer among them. It
    has one column; or two, the second being the logarithm of the noise variance at a point.
    """

    weights: tuple[Single, ...]
    biases: tuple[Single, ...]
    activation: str = "tanh"

    def outputs(self, x: Array) -> Single:
        """x: (n, d) unit cube -> (M, n, 1 or 2)."""
        return _forward(inputs_of(x).astype(np.float32)[None], self.weights, self.biases)[-1]

    def features(self, x: Array) -> Array:
        """x: (n, d) unit cube -> (n, M), each network's function; or (n, 2 M), then its noise."""
        out = np.empty((len(x), self.biases[-1].shape[-1], len(self.biases[-1])))
        for rows in chunks(len(x), ROWS):
            out[rows] = self.outputs(x[rows]).transpose(1, 2, 0)
        return out.reshape(len(x), -1)


class SampledBasis(FiniteBasis):
    """The moments of sampled networks as a component of the posterior.

    Its features are the networks' outputs, rotated, and last, if the noise depends on x, the noise
    variance at x over `noise`, which has no weight in the function.
    """

    @classmethod
    def of(cls, network: SampledNetworks, noise: float, weight: float = 1.0) -> SampledBasis:
        """noise: variance of an observation, the average over the samples (and over x)."""
        m = len(network.weights[0])
        more = network.biases[-1].shape[-1] - 1
        mean, variance = np.zeros((1, m + more)), np.zeros((1, m + more))
        mean[0, 0] = 1.0 / np.sqrt(m)
        variance[0, 1:m] = 1.0 / max(m - 1, 1)
        # The reflection that takes (1, ..., 1) / sqrt(M) to the first axis.
        axis = np.full(m, -1.0 / np.sqrt(m))
        axis[0] += 1.0
        length = float(axis @ axis)
        rotation = np.eye(m) - (2.0 / length if length > 0 else 0.0) * np.outer(axis, axis)
        return cls(network, rotation, mean, variance, np.array([noise]), weight)

    @property
    def heteroscedastic(self) -> bool:
        return self.network.biases[-1].shape[-1] == 2

    def features(self, x: Array) -> Array:
        """x: (n, d) unit cube -> z: (n, M), or (n, M + 1) if the noise depends on x."""
        found, m = self.network.features(x), len(self.rotation)
        z = found[:, :m] @ self.rotation
        if not self.heteroscedastic:
            return z
        return np.column_stack([z, np.exp(found[:, m:]).mean(axis=1) / self.noise])

    def predict(self, z: Array) -> tuple[Array, Array]:
        """Predictive mean and variance (5), noise included: z (n, .) -> two (n, 1)."""
        mean, variance = super().predict(z)
        if self.heteroscedastic:
            variance = variance + self.noise * (z[:, -1:] - 1.0)
        return mean, variance


def fit_bohamiann(
    problem: Problem,
    settings: Bohamiann,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Fit:
    """One component, of networks sampled from the posterior (3).

    Where there are several tasks, a network is told by an embedding which one it sees.
    """
    rng = child(rng)
    chains = min(settings.chains, settings.posterior_samples)
    posterior = _Posterior(problem, settings, chains, rng)
    sampler = Sampler(
        posterior.gradient, posterior.start(), rng=child(rng), noisy=posterior.minibatches
    )

    def each(step: int) -> None:
        if step % GIBBS_EVERY == 0:
            posterior.gibbs(sampler.theta)
        if progress is not None and step % 200 == 0:
            progress(step / max(settings.burn_in, step + 1), "sampling networks")

    sampler.burn_in(settings.burn_in, each)
    count = -(-settings.posterior_samples // chains)
    states = sampler.samples(count, settings.thin, each)
    theta = np.concatenate(states)[: settings.posterior_samples]
    component, found = posterior.component(theta, states)
    return Fit((component,), found)


class _Posterior:
    """The log posterior of C networks' parameters, one network a row, and its gradient."""

    def __init__(
        self,
        problem: Problem,
        settings: Bohamiann,
        chains: int,
        rng: np.random.Generator,
    ) -> None:
        x, targets, task, networks = problem.x, problem.targets, problem.task, settings.networks
        n, d = x.shape
        self.rng, self.chains, self.n, self.d = rng, chains, n, d
        self.x = inputs_of(x).astype(np.float32)
        self.targets = targets.astype(np.float32)
        self.task = None if task is None else np.eye(int(task.max()) + 1, dtype=np.float32)[task]
        tasks = 0 if self.task is None else self.task.shape[1]
        # The noise of a minibatch costs accuracy: what is hardly more than one is taken whole.
        self.minibatches = n > 2 * networks.minibatch
        self.batch = networks.minibatch if self.minibatches else n
        outputs = 2 if settings.heteroscedastic else 1
        sizes = [d + (EMBEDDING if tasks else 0), *[networks.width] * networks.layers, outputs]
        self.shapes: list[tuple[int, int]] = []
        for fan_in, fan_out in pairwise(sizes):
            self.shapes += [(fan_in, fan_out), (1, fan_out)]
        self.shapes += [(tasks, EMBEDDING if tasks else 0), (1, 1)]  # embeddings, log noise
        self.ends = np.cumsum([a * b for a, b in self.shapes])
        # The precision of the priors of all parameters, and their means.
        self.precision = np.ones((chains, int(self.ends[-1])), dtype=np.float32)
        self.centre = np.zeros(int(self.ends[-1]), dtype=np.float32)
        self.precision[:, -1], self.centre[-1] = 1.0 / LOG_NOISE_DEVIATION**2, LOG_NOISE
        for (fan_in, _), block in zip(
            self.shapes[:-2:2], self._split(self.precision)[:-2:2], strict=True
        ):
            block[...] = fan_in

    def start(self) -> Single:
        """A state for each chain, drawn from the prior but for the noise."""
        shape = self.precision.shape
        theta = self.rng.standard_normal(shape, dtype=np.float32) / np.sqrt(self.precision)
        theta[:, -1] = LOG_NOISE
        return theta

    def _split(self, theta: Single) -> list[Single]:
        """Views (C, rows, columns) of every parameter."""
        starts = [0, *self.ends[:-1]]
        return [
            theta[:, a:b].reshape(len(theta), *shape)
            for a, b, shape in zip(starts, self.ends, self.shapes, strict=True)
        ]

    def gibbs(self, theta: Single) -> None:
        """Draw the precision of each layer's weights given the weights."""
        for (fan_in, fan_out), w, block in zip(
            self.shapes[:-2:2],
            self._split(theta)[:-2:2],
            self._split(self.precision)[:-2:2],
            strict=True,
        ):
            squares = (w * w).sum(axis=(1, 2), dtype=float) * fan_in
            shape, rate = SHAPE + 0.5 * fan_in * fan_out, RATE + 0.5 * squares
            block[...] = (fan_in * self.rng.standard_gamma(shape, len(w)) / rate)[:, None, None]

    def gradient(self, theta: Single) -> Single:
        """Of U = -log p(data, theta), by backpropagation; of a random minibatch, if that is less."""
        gradient = self.precision * (theta - self.centre)
        x, t, task = self.x, self.targets, self.task
        if self.minibatches:
            rows = self.rng.choice(self.n, self.batch, replace=False, shuffle=False)
            x, t = x[rows], t[rows]
            task = None if task is None else task[rows]
        scale = np.float32(self.n / len(x))
        *layers, embedding, log_noise = self._split(theta)
        *grads, d_embedding, d_noise = self._split(gradient)
        inputs = self._inputs(x, task, embedding)
        hidden = _forward(inputs, layers[::2], layers[1::2])
        out = hidden[-1]
        residual = out[..., :1] - t[:, None]
        log_variance = np.broadcast_to(log_noise, residual.shape)
        if out.shape[-1] == 2:
            log_variance = log_variance + out[..., 1:]
        delta = residual * np.exp(-log_variance)
        by_noise = 0.5 * (1.0 - residual * delta)
        d_noise += scale * by_noise.sum(axis=1, keepdims=True)
        if out.shape[-1] == 2:
            delta = np.concatenate([delta, by_noise], axis=-1)
        delta *= scale
        for layer in range(len(layers) // 2 - 1, -1, -1):
            h = inputs if layer == 0 else hidden[layer - 1]
            grads[2 * layer] += h.transpose(0, 2, 1) @ delta
            grads[2 * layer + 1] += delta.sum(axis=1, keepdims=True)
            if layer > 0:
                delta = delta @ layers[2 * layer].transpose(0, 2, 1)
                delta *= 1 - h * h
            elif task is not None:
                delta = delta @ layers[0][:, self.d :].transpose(0, 2, 1)
                d_embedding += task.T @ delta
        return gradient

    def _inputs(self, x: Single, task: Single | None, embedding: Single) -> Single:
        """What the networks see: (1 or C, n, d + L)."""
        if task is None:
            return x[None]
        told = task @ embedding
        return np.concatenate([np.broadcast_to(x, (len(told), *x.shape)), told], axis=2)

    def component(
        self, theta: Single, states: Sequence[Single]
    ) -> tuple[SampledBasis, dict[str, float]]:
        """Task 0 of the networks sampled, and diagnostics.

        theta: (M, P), the samples; states: the same, apart by time: (C, P) each.
        """
        *layers, embedding, log_noise = self._split(theta.copy())
        weights, biases = layers[::2], layers[1::2]
        if self.task is not None:
            # What the embedding adds to the first layer of one task is a bias.
            biases[0] = biases[0] + embedding[:, :1] @ weights[0][:, self.d :]
            weights[0] = np.ascontiguousarray(weights[0][:, : self.d])
        log_noise = log_noise.astype(float)
        network = SampledNetworks(tuple(weights), tuple(biases))
        if biases[-1].shape[-1] == 2:
            biases[-1][..., 1:] += log_noise
            own = slice(None) if self.task is None else self.task[:, 0] == 1
            found = network.features(0.5 * (self.x[own].astype(float) + 1.0))
            noise = float(np.exp(found[:, len(theta) :]).mean())
        else:
            noise = float(np.exp(log_noise).mean())
        component = SampledBasis.of(network, noise)
        return component, {
            "bnn_log_noise": float(np.log(noise)),
            "bnn_mixing": self._mixing(states),
        }

    def _mixing(self, states: Sequence[Single]) -> float:
        """How far the chains disagree: the potential scale reduction of their predictions.

        Gelman and Rubin's, at the observations, averaged; 1 where all chains sample the same.
        """
        if len(states) < 2 or self.chains < 2:
            return float("nan")
        some = slice(0, 64)
        task = None if self.task is None else self.task[some]
        found = []
        for theta in states:
            *layers, embedding, _ = self._split(theta)
            inputs = self._inputs(self.x[some], task, embedding)
            found.append(_forward(inputs, layers[::2], layers[1::2])[-1][..., 0])
        f = np.array(found, dtype=float)  # (samples, C, rows)
        within = f.var(axis=0, ddof=1).mean(axis=0)
        between = f.mean(axis=0).var(axis=0, ddof=1)
        return float(np.sqrt(1.0 + np.mean(between / np.maximum(within, 1e-300))))


def _forward(inputs: Single, weights: Sequence[Single], biases: Sequence[Single]) -> list[Single]:
    """The hidden layers and the output of all networks: inputs (1 or C, n, .) -> (C, n, .) each."""
    layers: list[Single] = []
    h = inputs
    for layer, (w, b) in enumerate(zip(weights, biases, strict=True)):
        h = h @ w
        h += b
        if layer < len(weights) - 1:
            np.tanh(h, out=h)
        layers.append(h)
    return layers
