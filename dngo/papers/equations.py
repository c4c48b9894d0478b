"""Equations (5) to (8) of both versions of Snoek et al. (2015), at sampled values of alpha and
beta."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dngo.surrogates.linear import Regression
from dngo.types import Array


class Equations(Protocol):
    """The evidence and the posterior of a regression with given alpha and beta."""

    def log_evidence(self, head: Regression, alpha: float, beta: float) -> float:
        """Equation (8), for the targets minus the prior mean."""

    def posterior(self, head: Regression, alpha: Array, beta: Array) -> tuple[Array, Array]:
        """(6) and (7) in the eigenbasis, for alpha and beta (H,): means and variances, both (H, D)."""

    def noise(self, alpha: Array, beta: Array) -> Array:
        """What (5) adds to the variance of the function: (H,)."""


class Final:
    """The paper at ICML: alpha is the weights' precision, beta the noise's."""

    def log_evidence(self, head: Regression, alpha: float, beta: float) -> float:
        return head.log_evidence(alpha, beta)

    def posterior(self, head: Regression, alpha: Array, beta: Array) -> tuple[Array, Array]:
        return head.posterior(alpha, beta)

    def noise(self, alpha: Array, beta: Array) -> Array:
        return 1.0 / beta


class Preprint:
    """arXiv:1502.05700v1, to the letter, except that y means the targets minus the prior mean.

    No probability model leads to these equations. In (8) alpha is the noise's variance and beta the
    weights'. In (6) and (7) beta is the noise's precision and alpha^2 the weights'. In (5) alpha^2
    is the noise's variance.
    """

    def log_evidence(self, head: Regression, alpha: float, beta: float) -> float:
        (mean,), (variance,) = self.posterior(head, np.array([alpha]), np.array([beta]))
        present = head.eigenvalues > 0
        reached = head.projection / np.where(present, head.eigenvalues, 1.0) - mean
        misfit = head.residual + float(np.sum(head.eigenvalues * reached**2))
        size = head.n * np.log(2 * np.pi * alpha) + np.log(len(mean) * beta)
        log_det = -float(np.sum(np.log(variance)))
        return -0.5 * (size + log_det + misfit / alpha + float(mean @ mean) / beta)

    def posterior(self, head: Regression, alpha: Array, beta: Array) -> tuple[Array, Array]:
        return head.posterior(alpha**2, beta)

    def noise(self, alpha: Array, beta: Array) -> Array:
        return alpha**2


VERSIONS: dict[str, Equations] = {"final": Final(), "preprint": Preprint()}
