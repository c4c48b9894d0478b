"""Trains networks with torch: an ensemble as one batch of matrices, on a CPU or a GPU.

Training is in float32, on one thread: a second thread brings such small networks nothing, and would
change the order of sums and so the bits. Trained networks become NumPy arrays, so only a fit
imports torch.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Literal

import numpy as np
import torch

from dngo.errors import UserError
from dngo.rules import current
from dngo.surrogates.network import Network, inputs_of, is_relu
from dngo.surrogates.optimizer import Optimizer, Rotated, views
from dngo.surrogates.sections import TrainedNetworkSettings
from dngo.types import Array, Progress, Rows

Tensors = Sequence[torch.Tensor]
# steps whose minibatches go to the device together, because each transfer has a latency
AT_ONCE = 200


@contextmanager
def deterministic(device: str) -> Iterator[torch.device]:
    """A device on which the same steps give the same bits: with one thread and deterministic
    algorithms.

    Raises UserError if it is "cuda" and there is no GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            f"networks.device: cuda, and PyTorch {torch.__version__} sees no GPU on "
            f"{socket.gethostname()}; give the fit a GPU (resources.fit), or set device: cpu"
        )
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it
    threads, flag = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    # On one CPU thread all operations here are deterministic anyway. Asking torch for it would load
    # its compiler: 2 CPU seconds, as much as a fit takes.
    if device == "cuda":
        torch.use_deterministic_algorithms(True)
    try:
        yield torch.device(device)
    finally:
        torch.set_num_threads(threads)
        if device == "cuda":
            torch.use_deterministic_algorithms(flag)


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

    x: (n, d) unit cube. targets: (n,), of zero mean and unit variance for the squared loss, 0 or 1 for the
    logistic one. A network without rows keeps its random initial weights. If the training diverges, it is
    repeated at half the learning rate; UserError if that never helps.

    The output layer is trained as well, and then replaced by a Bayesian one (section 3). The paper trains
    by SGD with momentum, `optimizer: sgd`. Adam reaches a lower loss in the same number of steps,
    and its learning rate suits all problems. With many observations `Rotated` needs only a part of
    these steps.
    """
    sizes = [x.shape[1], *[settings.width] * settings.layers, 1]
    start = _initial(len(training_rows), sizes, rng)
    trained = np.array([len(rows) > 0 for rows in training_rows], dtype=bool)
    result = start
    if trained.any():
        # A network without rows is trained on another network's rows, and gets its initial weights
        # back at the end.
        some = training_rows[int(np.argmax(trained))]
        rows_of = [rows if len(rows) > 0 else some for rows in training_rows]
        # An input with one value teaches nothing. Its weights stay as drawn, and during training the
        # bias contains what they add. Most of a thousand levels are such inputs.
        varies, first = np.ptp(x, axis=0) > 0, settings.layers + 1
        constant = (inputs_of(x[:1, ~varies]) @ start[0][:, ~varies]).astype(np.float32)
        begin, every, varying = [*start], start[0].copy(), np.compress(varies, x, axis=1)
        begin[0], begin[first] = np.compress(varies, start[0], axis=1), start[first] + constant
        after = _descend(varying, targets, rows_of, begin, settings, loss, rng, progress)
        every[:, varies] = after[0]
        after[0], after[first] = every, after[first] - constant
        result = [np.where(trained[:, None, None], a, s) for a, s in zip(after, start, strict=True)]
    if not all(np.isfinite(part).all() for part in result):
        if settings.learning_rate < 1e-6:  # nothing helps
            raise UserError(
                f"networks: the training diverges; {settings.optimizer} is of no use here"
            )
        half = settings.model_copy(update={"learning_rate": 0.5 * settings.learning_rate})
        return train_networks(
            x, targets, training_rows, half, loss=loss, rng=rng, progress=progress
        )
    weights, biases = result[: settings.layers], result[settings.layers + 1 : -1]
    return [
        Network(
            tuple(w[i].astype(float) for w in weights),
            tuple(b[i, 0].astype(float) for b in biases),
            settings.activation,
        )
        for i in range(len(training_rows))
    ]


def _initial(k: int, sizes: list[int], rng: np.random.Generator) -> list[np.ndarray]:
    """Weights (k, inputs, outputs) of all layers, then biases (k, 1, outputs), in float32."""
    layers = list(pairwise(sizes))
    weights = [
        rng.standard_normal((k, a, b)) * current().training.initial_gain / np.sqrt(a)
        for a, b in layers
    ]
    biases = [rng.uniform(-1, 1, (k, 1, b)) / np.sqrt(a) for a, b in layers]
    return [parameter.astype(np.float32) for parameter in [*weights, *biases]]


def _descend(
    x: Array,
    targets: Array,
    rows_of: list[Rows],
    start: list[np.ndarray],
    settings: TrainedNetworkSettings,
    loss: Literal["squared", "logistic"],
    rng: np.random.Generator,
    progress: Progress | None,
) -> list[np.ndarray]:
    """The parameters after all steps of the optimizer."""
    lengths = [len(rows) for rows in rows_of]
    batch = min(settings.minibatch, min(lengths))
    passed, rules = max(lengths), current().training
    rotated = Rotated.pays(settings, passed)
    if rotated:
        most = rules.most_passed if loss == "squared" else rules.most_classified
        passed = min(passed, most)
    elif loss == "logistic":
        passed = min(passed, rules.most_straight)
    steps = max(settings.steps, settings.epochs * -(-passed // batch))
    draws = [_minibatches(rows, batch, rng) for rows in rows_of]
    with deterministic(settings.device) as device:
        inputs = torch.as_tensor(inputs_of(x), dtype=torch.float32, device=device)
        wanted = torch.as_tensor(targets, dtype=torch.float32, device=device)
        flat = torch.tensor(np.concatenate([p.ravel() for p in start]), device=device)
        parts = [p.shape for p in start]
        decayed = sum(p.size for p in start[: len(start) // 2])
        parameters, gradient = views(flat, parts), torch.zeros_like(flat)
        gradients = views(gradient, parts)
        given = flat, decayed, settings
        optimizer = Rotated(*given, parts) if rotated else Optimizer(*given)
        for first in range(0, steps, AT_ONCE):
            some = min(AT_ONCE, steps - first)
            drawn = np.stack([[next(draw) for draw in draws] for _ in range(some)])
            rows = torch.as_tensor(drawn, device=device)
            for i in range(some):
                seen, values = inputs[rows[i]], wanted[rows[i]]
                backpropagate(seen, values, parameters, gradients, settings.activation, loss)
                optimizer.step(gradient, (first + i) / steps)
            if progress is not None:
                progress((first + some) / steps, "training networks")
        return [parameter.cpu().numpy() for parameter in parameters]


def backpropagate(
    x: torch.Tensor,
    targets: torch.Tensor,
    parameters: Tensors,
    gradients: Tensors,
    activation: str,
    loss: Literal["squared", "logistic"],
) -> None:
    """The gradient of half the squared error, or of the logistic loss. It is the mean over rows and
    the sum over networks.

    x (k, n, d) in [-1, 1]^d, targets (k, n). parameters: weights of all layers, then biases, as in
    `_initial`; gradients: written here. Autograd would take 1.5 times as long.
    """
    layers = len(parameters) // 2
    weights, biases = parameters[:layers], parameters[layers:]
    slopes: list[torch.Tensor] = []
    hidden = hidden_layers(x, weights[:-1], biases[:-1], activation, slopes)
    output = torch.baddbmm(biases[-1], hidden[-1], weights[-1])[..., 0]
    predicted = output if loss == "squared" else torch.sigmoid(output)
    error = ((predicted - targets) / targets.shape[1])[..., None]
    for layer in reversed(range(layers)):
        h = hidden[layer]
        torch.sum(error, 1, keepdim=True, out=gradients[layers + layer])
        if layer == layers - 1:  # with one column, these forms are seven times as fast
            torch.bmm(error.mT, h, out=gradients[layer].mT)
            error = error * weights[layer].mT
        else:
            torch.bmm(h.mT, error, out=gradients[layer])
            if layer == 0:
                return
            error = torch.bmm(error, weights[layer].mT)
        if slopes:
            error.mul_(slopes[layer - 1])
        elif is_relu(activation, layer - 1, layers - 1):
            error.mul_(h > 0)
        else:
            error.addcmul_(error * h, h, value=-1)  # the derivative of tanh is 1 - tanh^2


def _minibatches(rows: Rows, size: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Rows without replacement, shuffled again when fewer than a minibatch are left."""
    while True:
        rows = rng.permutation(rows)
        for i in range(0, len(rows) - size + 1, size):
            yield rows[i : i + size]


def hidden_layers(
    x: torch.Tensor,
    weights: Tensors,
    biases: Tensors,
    activation: str,
    slopes: list[torch.Tensor] | None = None,
) -> Tensors:
    """x (k, n, d) in [-1, 1]^d, then the hidden layers of k networks, (k, n, width) each.

    slopes: a list for the slopes of silu, which its values do not tell.
    """
    hidden = [x]
    for layer, (w, b) in enumerate(zip(weights, biases, strict=True)):
        if activation == "silu":
            z = torch.baddbmm(b, hidden[-1], w)
            gate = torch.sigmoid(z)
            hidden.append(z * gate)
            if slopes is not None:
                slopes.append(gate + hidden[-1] * (1 - gate))
        elif is_relu(activation, layer, len(weights)):
            hidden.append(torch.relu(torch.baddbmm(b, hidden[-1], w)))
        else:
            hidden.append(affine_tanh(b, hidden[-1], w))
    return hidden


def affine_tanh(b: torch.Tensor, h: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """tanh(h w + b), as 2 sigmoid(2 (h w + b)) - 1: torch's own tanh takes four times as long."""
    return torch.sigmoid(torch.baddbmm(b, h, w, alpha=2, beta=2)) * 2 - 1
