"""Bayesian linear regression on fixed features: equations (4) to (8), diagonalised.

One eigendecomposition, Phi^T Phi = U diag(lambda) U^T, makes K = beta Phi^T Phi + alpha I diagonal
for every alpha and beta. So each evaluation of the evidence costs only O(D).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

import numpy as np
from scipy.linalg.blas import dger

from dngo.surrogates.component import Component, Conditioned
from dngo.surrogates.numerics import with_task
from dngo.surrogates.storage import read, stored_as
from dngo.types import Array, Group

ARRAYS = ("rotation", "mean", "variance", "noise")  # name of a finite basis in files


@dataclass(frozen=True)
class Regression:
    """Sufficient statistics of (Phi, y) in the eigenbasis of Phi^T Phi.

    rotation: (D, D) eigenvectors U; eigenvalues: (D,); projection: (D,) U^T Phi^T y;
    residual: squared norm of the part of y that no weights reach; n: observations.
    """

    rotation: Array
    eigenvalues: Array
    projection: Array
    residual: float
    n: int

    @classmethod
    def fit(cls, phi: Array, y: Array, relative_noise: Array | None = None) -> Regression:
        """phi: (n, D) features, y: (n,) targets; n may be smaller than D, or zero.

        relative_noise: (n,) factors on the variance 1 / beta of each row's noise; with them the
        evidence lacks a constant.
        """
        if relative_noise is not None:
            phi, y = equally_precise(phi, y, relative_noise)
        eigenvalues, rotation = np.linalg.eigh(phi.T @ phi)
        floor = eigenvalues[-1] * len(eigenvalues) * np.finfo(float).eps
        present = eigenvalues > max(floor, np.finfo(float).tiny)
        eigenvalues = np.where(present, eigenvalues, 0.0)
        projection = np.where(present, rotation.T @ (phi.T @ y), 0.0)
        least_squares = projection / np.where(present, eigenvalues, 1.0)
        residual = float(np.sum((y - phi @ (rotation @ least_squares)) ** 2))
        return cls(rotation, eigenvalues, projection, residual, len(y))

    def log_evidence(self, alpha: float, beta: float) -> float:
        """log p(y | X, alpha, beta), equation (8).

        beta ||y - Phi m||^2 + alpha m^T m is computed as the unreachable residual plus positive
        terms. The textbook's y^T y - m^T Phi^T y would lose all digits for a network that
        interpolates its data.
        """
        precision = beta * self.eigenvalues + alpha
        reachable = self.projection**2 / np.where(self.eigenvalues > 0, self.eigenvalues, 1.0)
        misfit = beta * self.residual + beta * alpha * float(np.sum(reachable / precision))
        return 0.5 * (
            len(precision) * np.log(alpha)
            + self.n * np.log(beta / (2 * np.pi))
            - misfit
            - float(np.sum(np.log(precision)))
        )

    def posterior(self, alpha: Array, beta: Array) -> tuple[Array, Array]:
        """Weights in the eigenbasis, equations (6) and (7): means and variances, both (H, D).

        alpha, beta: (H,). The covariance is diagonal there: 1 / (beta lambda + alpha).
        """
        variance = 1.0 / (beta[:, None] * self.eigenvalues + alpha[:, None])
        return beta[:, None] * self.projection * variance, variance


def equally_precise(phi: Array, y: Array, relative_noise: Array) -> tuple[Array, Array]:
    """Rows divided by the relative deviations of their noise, so that plain least squares give them
    the right weight."""
    if np.all(relative_noise == 1.0):
        return phi, y
    deviation = np.sqrt(relative_noise)
    return phi / deviation[:, None], y / deviation


class Basis(Protocol):
    """Basis functions of points with `inputs` numbers, tasks included, that can be stored."""

    stored_as: ClassVar[str]

    @property
    def inputs(self) -> int: ...

    def features(self, x: Array) -> Array:
        """x: (n, d) unit cube -> phi: (n, D)."""

    def save(self, group: Group) -> None: ...


@stored_as("finite_basis")
@dataclass(frozen=True)
class FiniteBasis(Component):
    """One component of a posterior over functions: f(x) = w^T z(x) with Gaussian w, for H samples
    of the hyperparameters.

    network, rotation: the feature map z(x) = U^T phi(x). `quadratic` appends 1, x and x^2: their
    weights are known in each sample and make up the prior mean (9).
    mean, variance: (H, D) of the weights, uncorrelated, for each hyperparameter sample.
    noise: (H,) variance of an observation of f, on the model's scale.
    weight: of the component in the mixture that is the posterior.
    """

    network: Basis
    rotation: Array
    mean: Array
    variance: Array
    noise: Array
    weight: float = 1.0
    quadratic: bool = False

    def save(self, group: Group) -> None:
        """Write into an empty group, with the basis functions."""
        group.attrs["basis"] = self.network.stored_as
        group.attrs["weight"], group.attrs["quadratic"] = self.weight, self.quadratic
        for name in ARRAYS:
            group.create_dataset(name, data=getattr(self, name))
        self.network.save(group)

    @classmethod
    def load(cls, group: Group) -> FiniteBasis:
        return cls(
            read(group, group.attrs.get("basis", "network")),
            **{name: group[name][()] for name in ARRAYS},
            weight=float(group.attrs.get("weight", 1.0)),
            quadratic=bool(group.attrs.get("quadratic", False)),
        )

    def features(self, x: Array) -> Array:
        """x: (n, d) unit cube -> z: (n, D)."""
        phi = self.basis(x)
        m = len(self.rotation)
        return np.hstack([phi[:, :m] @ self.rotation, phi[:, m:]])

    def basis(self, x: Array) -> Array:
        """The basis functions as they are, not rotated: x (n, d) unit cube -> (n, D)."""
        x = with_task(x, self.network.inputs)
        phi = self.network.features(x)
        return np.hstack([phi, np.ones((len(x), 1)), x, x * x]) if self.quadratic else phi

    def predict(self, z: Array) -> tuple[Array, Array]:
        """Predictive mean and variance, (4) and (5), noise included: z (n, D) -> two (n, H)."""
        return z @ self.mean.T, (z * z) @ self.variance.T + self.noise

    def latent(self, z: Array) -> tuple[Array, Array]:
        """Mean and variance of the function, without noise: z (n, D) -> two (H, n)."""
        return self.mean @ z.T, self.variance @ (z * z).T

    def posterior_covariance(self, a: Array, b: Array) -> Array:
        """Covariance of the function between features a (n, D) and b (m, D): (H, n, m)."""
        return np.asarray((a * self.variance[:, None]) @ b.T)

    @property
    def stack(self) -> Hashable:
        return FiniteBasis, self.mean.shape

    def conditioned(self, components: Sequence[Component]) -> Bases:
        return Bases(cast(Sequence[FiniteBasis], components))

    def draw(self, h: int, boldness: Array, rng: np.random.Generator) -> Weights:
        deviation = np.sqrt(self.variance[h]) * rng.standard_normal(
            (len(boldness), self.mean.shape[1])
        )
        weights, m = self.mean[h] + boldness[:, None] * deviation, len(self.rotation)
        return Weights(self, np.hstack([weights[:, :m] @ self.rotation.T, weights[:, m:]]))


@dataclass(frozen=True)
class Weights:
    """Functions drawn from one sample of a finite basis. weights: (count, D) of its functions as they
    are: to rotate every point would cost more than all else."""

    basis: FiniteBasis
    weights: Array

    def __call__(self, x: Array) -> Array:
        return self.weights @ self.basis.basis(x).T

    def own(self, x: Array) -> Array:
        z = self.basis.basis(x.reshape(-1, x.shape[-1]))
        return np.matmul(z.reshape(*x.shape[:2], -1), self.weights[:, :, None])[..., 0]


class Bases(Conditioned):
    """Finite bases of one shape, given everything pending: means (S x D) and a covariance (D x D)
    of weights.

    The cost of a candidate does not grow with the number of pending points.
    """

    def __init__(self, components: Sequence[FiniteBasis]) -> None:
        self.components = components
        self.noise = np.stack([c.noise for c in components])
        self.weight = np.array([c.weight for c in components])
        variance = np.stack([c.variance for c in components])  # (C, H, D)
        self.features_each = variance.shape[2]
        self.diagonal: Array | None = variance  # until the first pending point
        self.covariance = np.empty(0)  # (C, H, D, D)
        # Until the first pending point, all fantasies have the same mean.
        self.means = np.stack([c.mean for c in components])[:, :, None, :]  # (C, H, 1 or S, D)

    def features(self, x: Array) -> Array:
        return np.stack([c.features(x) for c in self.components])

    def moments(self, z: Array) -> tuple[Array, Array]:
        """z: (C, n, D) -> means (C, H, S, n), variances (C, H, n)."""
        mean = self.means @ z.transpose(0, 2, 1)[:, None]
        if self.diagonal is not None:
            return mean, self.diagonal @ (z * z).transpose(0, 2, 1)
        return mean, np.vecdot(z[:, None] @ self.covariance, z[:, None])

    def at(self, z: Array) -> tuple[Array, Array, Array]:
        """z: (C, 1, D) -> means (C, H, S), variances (C, H), weights' covariances with it (C, H, D)."""
        if self.diagonal is not None:
            taken = self.diagonal * z
        else:
            taken = (self.covariance @ z[:, 0, None, :, None])[..., 0]
        mean = (self.means @ z[:, 0, None, :, None])[..., 0]
        return mean, np.vecdot(taken, z), taken

    def noise_at(self, z: Array) -> Array:
        return np.stack([c.noise_at(own) for c, own in zip(self.components, z, strict=True)])

    def condition(self, z: Array, taken: Array, surprise: Array, deviation: Array) -> None:
        """z: (C, 1, D), taken: (C, H, D), surprise: (C, H, S), deviation: (C, H)."""
        if self.diagonal is not None:
            self.covariance = self.diagonal[..., None] * np.eye(self.features_each)
            self.diagonal = None
        pushed = taken / deviation[..., None]
        self.means = self.means + surprise[..., None] * pushed[:, :, None, :]
        # One by one and in place: all at once would need twice the memory and twice the time.
        for c, h in np.ndindex(self.noise.shape):
            one, covariance = pushed[c, h], self.covariance[c, h].T
            dger(-1.0, one, one, a=covariance, overwrite_a=1)
