"""The basis functions: hidden layers of trained networks, computed in NumPy wherever they are used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dngo.surrogates.storage import stored_as
from dngo.types import Array, Rows

if TYPE_CHECKING:
    import h5py


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

    def save(self, group: h5py.Group) -> None:
        """The weights, biases and activation, layer by layer."""
        group.attrs["activation"] = self.activation
        group.attrs["layers"] = len(self.weights)
        for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            group.create_dataset(f"weights{layer}", data=w)
            group.create_dataset(f"biases{layer}", data=b)

    @classmethod
    def load(cls, group: h5py.Group) -> Self:
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
                if is_relu(self.activation, layer, len(self.weights)):
                    np.maximum(h, 0.0, out=h)
                else:
                    np.tanh(h, out=h)
            out[rows, :-1] = h
        return out


def inputs_of(x: Array) -> Array:
    """From the unit cube to [-1, 1]^d."""
    return 2.0 * x - 1.0


@dataclass(frozen=True)
class ByParameter:
    """Inputs for training networks: a parameter counts the same with one column as with many.

    Two levels of a category are as far apart as the ends of a range, and the first layer's weights start as
    if each parameter had one input. Unseen levels are left out. Without categories nothing changes.
    factor, shift: (d,); known: (d,) bool, inputs that are not left out.
    """

    factor: Array
    shift: Array
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, groups: Rows | None, x: Array) -> ByParameter:
        """groups: (d,) as in `Problem`; x: (n, d) training inputs of the network."""
        widths = np.ones(x.shape[1]) if groups is None else np.bincount(groups)[groups]
        levels = widths > 1
        known = ~levels | x.any(axis=0)
        root = np.sqrt(known.sum() / np.sum(1.0 / widths)) if len(widths) else 1.0
        factor = root * np.where(levels, 0.5**0.5, 1.0)
        return cls(factor, np.where(levels, factor, 0.0), known)

    @property
    def changes(self) -> bool:
        return bool(np.any(self.factor != 1.0))

    def seen(self, x: Array) -> Array:
        """x (n, d) in the unit cube, shifted: `inputs_of` turns it into the network's inputs."""
        if not self.changes:
            return x
        seen: Array = 0.5 * (1.0 + self.factor * inputs_of(x) + self.shift)[:, self.known]
        return seen

    def undone(self, network: Network) -> Network:
        """A network trained on such inputs, changed to take points in the unit cube."""
        if not self.changes:
            return network
        bias, first = network.biases[0], np.zeros((len(self.known), network.weights[0].shape[1]))
        first[self.known] = network.weights[0]
        return replace(
            network,
            weights=(first * self.factor[:, None], *network.weights[1:]),
            biases=(bias + self.shift @ first, *network.biases[1:]),
        )


def is_relu(activation: str, layer: int, depth: int) -> bool:
    """Whether a hidden layer is rectified linear rather than tanh."""
    return activation == "relu" or (activation == "relu_tanh" and layer < depth - 1)


def chunks(n: int, size: int = CHUNK) -> list[slice]:
    """Slices of at most `size` rows that cover n rows."""
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
