"""Networks whose weights are sampled, as a component of the posterior, in NumPy.

The samples are a finite basis. The outputs f_1(x) ... f_M(x) of M networks have a mean and a variance, the
moments (5) of Springenberg et al. (2016). They are rotated so that the mean lies along the first
axis. A linear model on these features, with uncorrelated weights, has the same joint moments at any
points. So a pending point needs only a rank-one update, which is exact for these moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dngo.surrogates.linear import FiniteBasis
from dngo.surrogates.network import Network, chunks, inputs_of
from dngo.surrogates.storage import stored_as
from dngo.types import Array, Group

Single = NDArray[Any]  # float32

ROWS = 512  # rows for which the hidden layers of all networks are in memory at once


@stored_as("sampled_networks")
@dataclass(frozen=True)
class SampledNetworks(Network):
    """M networks drawn from the posterior: the basis functions.

    weights[l]: (M, inputs, outputs), biases[l]: (M, 1, outputs), with the output layer. That has one
    column, or two: the second is the logarithm of the noise variance at a point.
    """

    activation: str = "tanh"

    def outputs(self, x: Array) -> Single:
        """x: (n, d) unit cube -> (M, n, 1 or 2)."""
        h: Single = inputs_of(x).astype(np.float32)[None]
        for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = h @ w
            h += b
            if layer < len(self.weights) - 1:
                np.tanh(h, out=h)
        return h

    def features(self, x: Array) -> Array:
        """x: (n, d) unit cube -> (n, M), each network's function; or (n, 2 M), with its noise behind."""
        out = np.empty((len(x), self.biases[-1].shape[-1], len(self.biases[-1])))
        for rows in chunks(len(x), ROWS):
            out[rows] = self.outputs(x[rows]).transpose(1, 2, 0)
        return out.reshape(len(x), out.shape[1] * out.shape[2])  # -1 is unknown of no points


@stored_as("sampled_basis")
class SampledBasis(FiniteBasis):
    """The moments of sampled networks as a component of the posterior.

    Its features are the rotated outputs of the networks. If the noise depends on x, the last
    feature is the noise variance at x, divided by `noise`; it has no weight in the function.
    """

    network: SampledNetworks

    def save(self, group: Group) -> None:
        """The rotation and the weights' moments are the same for all ensembles of a size."""
        group.attrs["weight"], group.attrs["divisor"] = self.weight, self.divisor
        group.create_dataset("noise", data=self.noise)
        self.network.save(group)

    @classmethod
    def load(cls, group: Group) -> SampledBasis:
        network, weight = SampledNetworks.load(group), float(group.attrs.get("weight", 1.0))
        # Older files have no divisor. Their moments were divided by one less than the number of networks.
        divisor = int(group.attrs.get("divisor", max(len(network.weights[0]) - 1, 1)))
        return cls.of(network, float(group["noise"][0]), weight, divisor=divisor)

    @classmethod
    def of(
        cls,
        network: SampledNetworks,
        noise: float,
        weight: float = 1.0,
        *,
        divisor: int | None = None,
    ) -> SampledBasis:
        """noise: variance of an observation, averaged over the samples (and over x). divisor: of
        the sum of squares in the function's variance; by default the number of networks, M, as in
        (5)."""
        m = len(network.weights[0])
        more = network.biases[-1].shape[-1] - 1
        mean, variance = np.zeros((1, m + more)), np.zeros((1, m + more))
        mean[0, 0] = 1.0 / np.sqrt(m)
        variance[0, 1:m] = 1.0 / (divisor or m)
        # The reflection that takes (1, ..., 1) / sqrt(M) to the first axis.
        axis = np.full(m, -1.0 / np.sqrt(m))
        axis[0] += 1.0
        length = float(axis @ axis)
        rotation = np.eye(m) - (2.0 / length if length > 0 else 0.0) * np.outer(axis, axis)
        return cls(network, rotation, mean, variance, np.array([noise]), weight)

    @property
    def divisor(self) -> int:
        """The divisor of the sum of squares in the function's variance."""
        return round(1.0 / self.variance[0, 1]) if len(self.rotation) > 1 else 1

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

    def noise_at(self, z: Array) -> Array:
        """Variance of an observation: z (n, .) -> (1, n), or (1, 1) if it does not depend on x."""
        return self.noise[:, None] * z[:, -1] if self.heteroscedastic else self.noise[:, None]

    def predict(self, z: Array) -> tuple[Array, Array]:
        """Predictive mean and variance (5), noise included: z (n, .) -> two (n, 1)."""
        mean, variance = self.latent(z)
        return mean.T, (variance + self.noise_at(z)).T
