"""An ensemble of small multilayer perceptrons, trained together as one batch of matrices.

Written out in NumPy, backward pass included: for networks of 50 units the bookkeeping of an
automatic-differentiation library costs more than the arithmetic, and importing one costs more
than a whole fit; `device` trains with one on a GPU. Training is in float32, features are computed
in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dngo.surrogates.settings import TrainedNetworkSettings
from dngo.types import Array, Progress, Rows

# Weights start as N(0, (gain / sqrt(inputs))^2). Under 1 the network starts as a smooth, nearly
# linear function of x, which generalises better from few observations.
INITIAL_GAIN = 0.577
CHUNK = 4096  # rows whose hidden layers are held at once


@dataclass(frozen=True)
class Network:
    """The hidden layers of one trained network: the basis functions phi of the paper.

    weights[l]: (inputs, outputs), biases[l]: (outputs,), one pair for each hidden layer.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: str

    def features(self, x: Array) -> Array:
        """x: (n, d) in the unit cube -> (n, width + 1): the last hidden layer and a constant 1."""
        out = np.empty((len(x), self.biases[-1].shape[0] + 1))
        out[:, -1] = 1.0
        for rows in chunks(len(x)):
            h = inputs_of(x[rows])
            for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
                h = h @ w
                h += b
                if is_relu(self.activation, layer, len(self.weights)):
                    np.maximum(h, 0.0, out=h)
                else:
                    np.tanh(h, out=h)
            out[rows, :-1] = h
        return out


def train_networks(
    x: Array,
    targets: Array,
    training_rows: list[Rows],
    settings: TrainedNetworkSettings,
    *,
    loss: Literal["squared", "logistic"],
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> list[Network]:
    """Train one network on each set of rows by minibatches, with backpropagation.

    x: (n, d) unit cube. targets: (n,), of zero mean and unit variance for the squared loss,
    0 or 1 for the logistic one. A network without rows keeps its random initial weights: its
    features are then as good as any.

    The output layer that is trained along is thrown away; a Bayesian one takes its place
    (section 3). The paper trains by SGD with momentum, `optimizer: sgd`; Adam reaches a lower loss
    in the same number of steps without a learning rate for each problem.
    """
    k, d = len(training_rows), x.shape[1]
    sizes = [d, *[settings.width] * settings.layers, 1]
    # All parameters of all networks lie in one vector, so that Adam is a handful of calls.
    shapes: list[tuple[int, ...]] = []
    for fan_in, fan_out in pairwise(sizes):
        shapes += [(k, fan_in, fan_out), (k, 1, fan_out)]
    vector = np.zeros(sum(int(np.prod(s)) for s in shapes), dtype=np.float32)
    gradient = np.zeros_like(vector)
    decay = np.zeros_like(vector)
    params, grads, decays = (_views(v, shapes) for v in (vector, gradient, decay))
    for w, flag in zip(params[::2], decays[::2], strict=True):
        w[...] = rng.standard_normal(w.shape) * INITIAL_GAIN / np.sqrt(w.shape[1])
        flag[...] = settings.weight_decay
    for w, b in zip(params[::2], params[1::2], strict=True):
        b[...] = rng.uniform(-1, 1, b.shape) / np.sqrt(w.shape[1])

    trained = np.array([len(rows) > 0 for rows in training_rows], dtype=bool)
    if trained.any():
        sizes_of = [len(rows) for rows in training_rows if len(rows) > 0]
        batch = min(settings.minibatch, min(sizes_of))
        steps = max(settings.steps, settings.epochs * -(-max(sizes_of) // batch))
        spare = next(rows for rows in training_rows if len(rows) > 0)
        draws = [
            _Minibatches(rows if len(rows) > 0 else spare, batch, rng) for rows in training_rows
        ]
        inputs = inputs_of(x).astype(np.float32)
        wanted = targets.astype(np.float32)
        untrained = [p[~trained].copy() for p in params]
        rates = 0.5 * settings.learning_rate * (1 + np.cos(np.pi * np.arange(steps) / steps))

        def draw() -> Rows:
            return np.stack([next_rows() for next_rows in draws])

        def report(done: int) -> None:
            if progress is not None:
                progress(done / steps, "training networks")

        if settings.device != "cpu":
            from dngo.surrogates import device

            device.train(
                params,
                decays,
                inputs,
                wanted,
                draw,
                rates,
                settings,
                loss=loss,
                device=settings.device,
                progress=report,
            )
        else:
            first, second = np.zeros_like(vector), np.zeros_like(vector)
            for step, rate in enumerate(rates.tolist()):
                rows = draw()
                _gradient(params, grads, inputs[rows], wanted[rows][..., None], settings, loss)
                if settings.optimizer == "sgd":
                    _momentum(vector, gradient, first, decay, rate, settings.momentum or 0.0)
                else:
                    _adam(vector, gradient, first, second, decay, rate, step + 1)
                if step % 100 == 99:
                    report(step + 1)
        for p, start in zip(params, untrained, strict=True):
            p[~trained] = start

    hidden = range(settings.layers)
    return [
        Network(
            tuple(params[2 * layer][i].astype(float) for layer in hidden),
            tuple(params[2 * layer + 1][i, 0].astype(float) for layer in hidden),
            settings.activation,
        )
        for i in range(k)
    ]


def _gradient(
    params: list[NDArray[np.float32]],
    grads: list[NDArray[np.float32]],
    x: NDArray[np.float32],
    t: NDArray[np.float32],
    settings: TrainedNetworkSettings,
    loss: str,
) -> None:
    """Mean-loss gradient of every network into `grads`. x: (k, b, d), t: (k, b, 1)."""
    depth = settings.layers
    layers = [x]
    for layer in range(depth):
        h = layers[-1] @ params[2 * layer]
        h += params[2 * layer + 1]
        if is_relu(settings.activation, layer, depth):
            np.maximum(h, 0, out=h)
        else:
            np.tanh(h, out=h)
        layers.append(h)
    output = layers[-1] @ params[-2] + params[-1]
    if loss == "logistic":
        output = 0.5 * (1 + np.tanh(0.5 * output))
    delta = (output - t) / np.float32(x.shape[1])
    for layer in range(depth, -1, -1):
        np.matmul(layers[layer].transpose(0, 2, 1), delta, out=grads[2 * layer])
        np.sum(delta, axis=1, keepdims=True, out=grads[2 * layer + 1])
        if layer > 0:
            h = layers[layer]
            delta = delta @ params[2 * layer].transpose(0, 2, 1)
            delta *= (h > 0) if is_relu(settings.activation, layer - 1, depth) else 1 - h * h


def _adam(
    vector: NDArray[np.float32],
    gradient: NDArray[np.float32],
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    decay: NDArray[np.float32],
    rate: float,
    step: int,
) -> None:
    """One step of Adam with decoupled weight decay, in place."""
    first *= np.float32(0.9)
    first += np.float32(0.1) * gradient
    second *= np.float32(0.99)
    second += np.float32(0.01) * gradient * gradient
    corrected = np.sqrt(second * np.float32(1 / (1 - 0.99**step))) + np.float32(1e-8)
    vector -= np.float32(rate / (1 - 0.9**step)) * first / corrected
    vector -= np.float32(rate) * decay * vector


def _momentum(
    vector: NDArray[np.float32],
    gradient: NDArray[np.float32],
    velocity: NDArray[np.float32],
    decay: NDArray[np.float32],
    rate: float,
    momentum: float,
) -> None:
    """One step of SGD with momentum and an l2 penalty, in place."""
    velocity *= np.float32(momentum)
    velocity -= np.float32(rate) * (gradient + decay * vector)
    vector += velocity


class _Minibatches:
    """Rows without replacement, reshuffled when fewer than a minibatch of them are left."""

    def __init__(self, rows: Rows, size: int, rng: np.random.Generator) -> None:
        self.rows, self.size, self.rng = rows, size, rng
        self.at = len(rows)

    def __call__(self) -> Rows:
        if self.at + self.size > len(self.rows):
            self.rows, self.at = self.rng.permutation(self.rows), 0
        self.at += self.size
        return self.rows[self.at - self.size : self.at]


def _views(vector: NDArray[np.float32], shapes: list[tuple[int, ...]]) -> list[NDArray[np.float32]]:
    ends = np.cumsum([int(np.prod(s)) for s in shapes])
    return [v.reshape(s) for v, s in zip(np.split(vector, ends[:-1]), shapes, strict=True)]


def inputs_of(x: Array) -> Array:
    """The unit cube to [-1, 1]^d."""
    return 2.0 * x - 1.0


def is_relu(activation: str, layer: int, depth: int) -> bool:
    """Whether a hidden layer is rectified linear rather than tanh."""
    return activation == "relu" or (activation == "relu_tanh" and layer < depth - 1)


def chunks(n: int, size: int = CHUNK) -> list[slice]:
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
