"""The basis functions: hidden layers of trained networks. They are always computed in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit

from dngo.surrogates.numerics import cosine
from dngo.surrogates.storage import read, stored_as
from dngo.types import Array, Group, Rows

CHUNK = 4096  # rows whose hidden layers are in memory at once: 20 MB for a layer of 600 units


@stored_as("network")
@dataclass(frozen=True)
class Network:
    """The hidden layers of one trained network: the basis functions phi of the paper.

    weights[l]: (inputs, outputs), biases[l]: (outputs,), one pair for each hidden layer.
    """

    stored_as: ClassVar[str]
    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: str

    @property
    def inputs(self) -> int:
        """Inputs of the first layer, tasks included."""
        return self.weights[0].shape[-2]

    def save(self, group: Group) -> None:
        """The weights, biases and activation, layer by layer."""
        group.attrs["activation"] = self.activation
        group.attrs["layers"] = len(self.weights)
        for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            group.create_dataset(f"weights{layer}", data=w)
            group.create_dataset(f"biases{layer}", data=b)

    @classmethod
    def load(cls, group: Group) -> Self:
        layers = range(int(group.attrs["layers"]))
        return cls(
            tuple(group[f"weights{layer}"][()] for layer in layers),
            tuple(group[f"biases{layer}"][()] for layer in layers),
            str(group.attrs["activation"]),
        )

    def features(self, x: Array) -> Array:
        """x: (n, d) in the unit cube -> (n, width + 1): the last hidden layer and a constant 1."""
        out = np.empty((len(x), self.biases[-1].shape[0] + 1))
        out[:, -1] = 1.0
        for rows in chunks(len(x)):
            h = inputs_of(x[rows])
            for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
                h = h @ w
                h += b
                if self.activation == "silu":
                    h *= 0.5 + 0.5 * np.tanh(0.5 * h)  # faster than the logistic function
                elif is_relu(self.activation, layer, len(self.weights)):
                    np.maximum(h, 0.0, out=h)
                else:
                    np.tanh(h, out=h)
            out[rows, :-1] = h
        return out

    def slopes(self, x: Array) -> Array:
        """How much the features change along each input, at the points x (n, d): (d,), mean absolute."""
        h = inputs_of(x)
        slope = np.full((len(x), 1, 1), 2.0) * np.eye(x.shape[1])
        for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            z = h @ w + b
            if self.activation == "silu":
                gate = expit(z)
                h = z * gate
                own = gate + h * (1.0 - gate)
            elif is_relu(self.activation, layer, len(self.weights)):
                h, own = np.maximum(z, 0.0), (z > 0).astype(float)
            else:
                h = np.tanh(z)
                own = 1.0 - h * h
            slope = (slope @ w) * own[:, None]
        return np.asarray(np.abs(slope).mean(axis=(0, 2)))


@stored_as("network_and_cosines")
@dataclass(frozen=True)
class WithCosines:
    """A network's features, and cosines of single inputs beside them.

    A sum over inputs is what most functions have much of, and what a network learns last. In the
    Bayesian head it costs nothing to learn, and where there is none its weights are small.

    network: of any number of inputs. waves: the inputs that have cosines; count: of each.
    """

    stored_as: ClassVar[str]
    network: Network
    waves: Rows
    count: int

    @classmethod
    def of(cls, network: Network, x: Array, count: int, most: int) -> Network | WithCosines:
        """The network with cosines of the inputs that have more than two values among x (n, d).

        count: of each input, fewer where there would be more than `most` in all. A choice has
        none, since its levels are sums already.
        """
        waves = np.array([j for j in range(x.shape[1]) if len(np.unique(x[:, j])) > 2], dtype=int)
        count = min(count, most // max(len(waves), 1))
        return cls(network, waves, count) if count and len(waves) else network

    @property
    def inputs(self) -> int:
        return self.network.inputs

    def save(self, group: Group) -> None:
        """The network, and which cosines."""
        self.network.save(group)
        group.attrs["cosines"] = self.count
        group.create_dataset("waves", data=self.waves)

    @classmethod
    def load(cls, group: Group) -> Self:
        return cls(Network.load(group), group["waves"][()], int(group.attrs["cosines"]))

    def features(self, x: Array) -> Array:
        """x: (n, d) in the unit cube -> (n, width + 1 + cosines): cos(pi j x), j = 1 ... count."""
        first = np.cos(np.pi * x[:, self.waves])
        waves = [np.ones_like(first), first]
        for _ in range(1, self.count):  # Chebyshev's recurrence costs less than a cosine
            waves.append(2.0 * first * waves[-1] - waves[-2])
        return np.hstack([self.network.features(x), *waves[1:]])


@stored_as("network_and_waves")
@dataclass(frozen=True)
class WithWaves:
    """Learnt features, and random waves of all inputs beside them (Rahimi and Recht 2007, Random Features
    for Large-Scale Kernel Machines).

    A network's features say little where it has not been taught, so a head on them alone is sure there. The
    waves stand for a smooth function of which nothing is learnt but its size and its length.

    learnt: a network, with cosines or without. frequencies: (inputs, m) of the unit cube; phases: (m,);
    amplitude: of the function, in units of a learnt feature's weight.
    """

    stored_as: ClassVar[str]
    learnt: Network | WithCosines
    frequencies: Array
    phases: Array
    amplitude: float

    @property
    def inputs(self) -> int:
        return self.learnt.inputs

    def save(self, group: Group) -> None:
        """What is learnt, and the waves."""
        group.attrs["learnt"], group.attrs["amplitude"] = self.learnt.stored_as, self.amplitude
        group.create_dataset("frequencies", data=self.frequencies)
        group.create_dataset("phases", data=self.phases)
        self.learnt.save(group.create_group("of"))

    @classmethod
    def load(cls, group: Group) -> Self:
        return cls(
            read(group["of"], group.attrs["learnt"]),
            group["frequencies"][()],
            group["phases"][()],
            float(group.attrs["amplitude"]),
        )

    def features(self, x: Array) -> Array:
        """x: (n, d) in the unit cube -> (n, D + m)."""
        waves = cosine(x @ self.frequencies + self.phases)
        waves *= self.amplitude * np.sqrt(2.0 / len(self.phases))
        return np.hstack([self.learnt.features(x), waves])


def inputs_of(x: Array) -> Array:
    """From the unit cube to [-1, 1]^d."""
    return 2.0 * x - 1.0


def is_relu(activation: str, layer: int, depth: int) -> bool:
    """Whether a hidden layer is rectified linear (otherwise tanh)."""
    return activation == "relu" or (activation == "relu_tanh" and layer < depth - 1)


def chunks(n: int, size: int = CHUNK) -> list[slice]:
    """Slices of at most `size` rows that cover n rows."""
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
