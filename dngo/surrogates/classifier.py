"""Classifiers of constraints: adaptive bases with Bayesian classification as the last layer.

Section 3.2, equation (10): the posterior of the weights is approximated by a Gaussian, and the probability
that a constraint holds is integrated over it. With the logistic likelihood, for noisy constraints, this is
Laplace's approximation. The step function, for noiseless constraints, is in `dngo.papers.step`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from dngo.surrogates.network import Network
from dngo.surrogates.storage import read, stored_as
from dngo.types import Array, Group

MOST_NEWTON_STEPS = 100  # most steps; a convex function needs some ten


@dataclass(frozen=True)
class Gaussian:
    """Gaussian approximation to the posterior of a classifier's weights.

    mean: (D,), covariance: (D, D).
    """

    stored_as: ClassVar[str]
    mean: Array
    covariance: Array

    def save(self, group: Group) -> None:
        group.create_dataset("mean", data=self.mean)
        group.create_dataset("covariance", data=self.covariance)

    @classmethod
    def load(cls, group: Group) -> Self:
        return cls(group["mean"][()], group["covariance"][()])

    @classmethod
    def fit(cls, phi: Array, labels: Array, precision: Array, start: Array | None = None) -> Self:
        """phi: (n, D), labels: (n,) 0 or 1, precision: (D,) of the zero-mean Gaussian prior. start:
        (D,) where the search may begin."""
        raise NotImplementedError

    def probability(self, phi: Array) -> Array:
        """Equation (10): phi (n, D) -> (n,)."""
        raise NotImplementedError


@stored_as("logistic")
class Laplace(Gaussian):
    """For logistic regression: the mode, and the inverse Hessian there."""

    @classmethod
    def fit(cls, phi: Array, labels: Array, precision: Array, start: Array | None = None) -> Self:
        """Newton's method with step halving, on a strictly convex function."""
        w = np.zeros(phi.shape[1]) if start is None else start.copy()
        value = _negative_log_posterior(w, phi, labels, precision)
        for _ in range(MOST_NEWTON_STEPS):
            p = expit(phi @ w)
            gradient = phi.T @ (p - labels) + precision * w
            step = cho_solve(cho_factor(_hessian(phi, p, precision)), gradient)
            decrement = float(gradient @ step)
            if decrement < 1e-16:
                break
            size = 1.0
            while size > 1e-10:
                moved = w - size * step
                new = _negative_log_posterior(moved, phi, labels, precision)
                if new <= value - 1e-4 * size * decrement:
                    break
                size *= 0.5
            else:
                break  # in floating point nothing is lower
            w, value = moved, new
        hessian = _hessian(phi, expit(phi @ w), precision)
        covariance = cho_solve(cho_factor(hessian), np.eye(len(w)))
        return cls(w, 0.5 * (covariance + covariance.T))

    def probability(self, phi: Array) -> Array:
        """Equation (10) by MacKay's probit adjustment: phi (n, D) -> (n,)."""
        variance = np.einsum("nd,nd->n", phi @ self.covariance, phi)
        return expit(phi @ self.mean / np.sqrt(1.0 + np.pi / 8.0 * variance))


@dataclass(frozen=True)
class Classifier:
    """P(constraint holds | x): the average over an ensemble, or a constant.

    constant: the value everywhere if `members` is empty, because only one class (or nothing) has been seen:
    the mean (satisfied + 1) / (seen + 2) under a uniform prior.
    log_density: mean log probability of left-out labels, NaN if there are none.
    """

    members: tuple[tuple[Network, Gaussian], ...]
    constant: float
    log_density: float = float("nan")

    @property
    def is_constant(self) -> bool:
        return not self.members

    def save(self, group: Group) -> None:
        group.attrs["constant"] = self.constant
        group.attrs["log_density"] = self.log_density
        group.attrs["members"] = len(self.members)
        for j, (network, head) in enumerate(self.members):
            member = group.create_group(str(j))
            group.attrs["likelihood"] = head.stored_as
            network.save(member)
            head.save(member)

    @classmethod
    def load(cls, group: Group) -> Classifier:
        likelihood = group.attrs.get("likelihood", "logistic")
        parts = [group[str(j)] for j in range(int(group.attrs["members"]))]
        members = tuple((Network.load(part), read(part, likelihood)) for part in parts)
        return cls(members, float(group.attrs["constant"]), float(group.attrs["log_density"]))

    def probability(self, x: Array) -> Array:
        """x: (n, d) unit cube -> (n,)."""
        if self.is_constant:
            return np.full(len(x), self.constant)
        return np.mean([head.probability(net.features(x)) for net, head in self.members], axis=0)

    def log_progress(self, x: Array) -> Array:
        """Its logarithm, x (n, d) unit cube -> (n,): a flag has no half-way."""
        return np.log(np.maximum(self.probability(x), 1e-300))


def _hessian(phi: Array, p: Array, precision: Array) -> Array:
    return (phi * (p * (1 - p))[:, None]).T @ phi + np.diag(precision)


def _negative_log_posterior(w: Array, phi: Array, labels: Array, precision: Array) -> float:
    a = phi @ w
    return float(np.sum(np.logaddexp(0.0, a) - labels * a) + 0.5 * np.sum(precision * w * w))
