"""Training a basis on the marginal likelihood of its Bayesian head (section 3.1.2).

The alternative to the point estimate of all weights that the paper names and decides against. It
costs a D x D factorisation at each step, and does not cure overconfidence: a basis that is free to
fit makes the evidence as large as it likes.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dngo.surrogates.network import Network, is_relu
from dngo.surrogates.settings import TrainedNetworkSettings
from dngo.types import Array

LOG_LIMIT = 12.0  # of log alpha and log beta: noise-free data would drive beta to infinity


def train_on_evidence(
    network: Network, x: Array, targets: Array, settings: TrainedNetworkSettings
) -> Network:
    """All of a basis's weights, and alpha and beta, by Adam up the evidence (8).

    x: (n, d) unit cube, targets: (n,) standardised. Starts from `network`; full batches, as the
    evidence is not a sum over observations.
    """
    if len(x) == 0:
        return network
    sizes = [w.shape for w in network.weights] + [b.shape for b in network.biases]
    ends = np.cumsum([int(np.prod(shape)) for shape in sizes])
    layers = len(network.weights)
    vector = np.concatenate(
        [*(w.ravel() for w in network.weights), *network.biases, np.array([0.0, 2.0])]
    )
    decay = np.zeros_like(vector)
    decay[: ends[layers - 1]] = settings.weight_decay
    first, second = np.zeros_like(vector), np.zeros_like(vector)

    def unpack(v: Array) -> Network:
        parts = [
            part.reshape(shape)
            for part, shape in zip(np.split(v[:-2], ends[:-1]), sizes, strict=True)
        ]
        return Network(tuple(parts[:layers]), tuple(parts[layers:]), network.activation)

    for step in range(settings.steps):
        _, gradient = evidence_gradient(unpack(vector), x, targets, vector[-2], vector[-1])
        gradient /= len(x)
        rate = 0.5 * settings.learning_rate * (1 + np.cos(np.pi * step / settings.steps))
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        corrected = np.sqrt(second / (1 - 0.99 ** (step + 1))) + 1e-8
        vector += rate * (first / (1 - 0.9 ** (step + 1)) / corrected - decay * vector)
        vector[-2:] = np.clip(vector[-2:], -LOG_LIMIT, LOG_LIMIT)
    return unpack(vector)


def evidence_gradient(
    network: Network, x: Array, targets: Array, log_alpha: float, log_beta: float
) -> tuple[float, Array]:
    """Evidence (8) and its gradient by all weights, all biases, log alpha and log beta, flat."""
    hidden = [2.0 * x - 1.0]
    depth = len(network.weights)
    for layer, (w, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        h = hidden[-1] @ w + b
        hidden.append(np.maximum(h, 0) if is_relu(network.activation, layer, depth) else np.tanh(h))
    phi = np.hstack([hidden[-1], np.ones((len(x), 1))])
    alpha, beta, size = np.exp(log_alpha), np.exp(log_beta), phi.shape[1]
    factor = cho_factor(beta * phi.T @ phi + alpha * np.eye(size), lower=True)
    inverse = cho_solve(factor, np.eye(size))
    mean = beta * inverse @ (phi.T @ targets)
    residual = targets - phi @ mean
    misfit, norm = float(residual @ residual), float(mean @ mean)
    value = 0.5 * (
        size * log_alpha + len(x) * (log_beta - np.log(2 * np.pi)) - beta * misfit - alpha * norm
    ) - float(np.sum(np.log(np.diag(factor[0]))))
    # At the mode of the weights only the explicit dependence counts.
    delta = beta * (np.outer(residual, mean) - phi @ inverse)[:, :-1]
    trace = float(np.trace(inverse))
    by_log_alpha = 0.5 * (size - alpha * norm - alpha * trace)
    by_log_beta = 0.5 * (len(x) - beta * misfit - (size - alpha * trace))
    by_weights, by_biases = [], []
    for layer in range(depth - 1, -1, -1):
        h = hidden[layer + 1]
        delta = delta * ((h > 0) if is_relu(network.activation, layer, depth) else 1.0 - h * h)
        by_weights.append((hidden[layer].T @ delta).ravel())
        by_biases.append(delta.sum(axis=0))
        delta = delta @ network.weights[layer].T
    tail = np.array([by_log_alpha, by_log_beta])
    return value, np.concatenate([*by_weights[::-1], *by_biases[::-1], tail])
