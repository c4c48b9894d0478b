"""The quadratic prior mean, equation (9), integrated over by slice sampling.

eta(x) = lambda + (x - c)^T Lambda (x - c), with Lambda diagonal and positive, is linear in the features
q(x) = (1, x, x^2): eta(x) = theta^T q(x). The evidence (8) of y - eta then needs only products of Phi, q
and y from the data. An evaluation costs the same with any number of observations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import exp1

from dngo.surrogates.linear import Regression
from dngo.types import Array


@dataclass(frozen=True, kw_only=True)
class QuadraticRules:
    """Priors of (9). The paper gives no numbers, and these were not measured."""

    centre: float = 0.5  # deviation of c: Gaussian around the middle of the cube
    centre_deviation: float = 0.25
    offset_deviation: float = 1.0  # deviation of lambda, in deviations of the targets
    # scale of Lambda, in deviations of the targets by the cube's side squared
    horseshoe_scale: float = 1.0
    # Bound of lambda, c and log Lambda, which prevents overflow.
    limit: float = 30.0


RULES = QuadraticRules()


def quadratic_features(x: Array) -> Array:
    """x: (n, d) -> (n, 1 + 2 d): 1, x and x^2."""
    return np.hstack([np.ones((len(x), 1)), x, x * x])


def coefficients(hyper: Array) -> Array:
    """theta (1 + 2 d,) of hyper = (lambda, c (d), log Lambda (d))."""
    d = (len(hyper) - 1) // 2
    centre, curvature = hyper[1 : 1 + d], np.exp(hyper[1 + d :])
    offset = hyper[0] + float(np.sum(curvature * centre**2))
    return np.concatenate([[offset], -2.0 * curvature * centre, curvature])


def log_horseshoe(value: Array) -> Array:
    """Log density of the half-horseshoe (Carvalho, Polson and Scott 2009), elementwise.

    Exactly: exp(z) E1(z) sqrt(2 / pi^3) / scale at z = (value / scale)^2 / 2. The horseshoe itself
    allows negative curvature; its positive half keeps Lambda positive.
    """
    z = 0.5 * (value / RULES.horseshoe_scale) ** 2
    near = np.minimum(np.maximum(z, 1e-300), 50.0)
    far = np.maximum(z, 50.0)
    log_scaled = np.where(
        z <= 50.0, near + np.log(exp1(near)), -np.log(far) + np.log1p(-1 / far + 2 / far**2)
    )
    return np.asarray(log_scaled + 0.5 * np.log(2.0 / np.pi**3) - np.log(RULES.horseshoe_scale))


def log_prior(hyper: Array) -> float:
    """Unnormalised log prior of (lambda, c, log Lambda), with the slope of the logarithm of Lambda."""
    d = (len(hyper) - 1) // 2
    if np.max(np.abs(hyper)) > RULES.limit:
        return -np.inf
    offset = (hyper[0] / RULES.offset_deviation) ** 2
    centre = float(np.sum(((hyper[1 : 1 + d] - RULES.centre) / RULES.centre_deviation) ** 2))
    log_curvature = hyper[1 + d :]
    shrink = float(np.sum(log_horseshoe(np.exp(log_curvature)) + log_curvature))
    return -0.5 * (offset + centre) + shrink


@dataclass(frozen=True)
class QuadraticStatistics:
    """Sufficient statistics of (Phi, q, y) for the evidence of y - q theta.

    head: regression of y on Phi. across: (D, p) U^T Phi^T q. unreached: (p + 1, p + 1) triangle R:
    ||R (theta, -1)|| is the norm of the part of q theta - y that no weights reach.
    """

    head: Regression
    across: Array
    unreached: Array

    @classmethod
    def fit(cls, phi: Array, q: Array, y: Array) -> QuadraticStatistics:
        head = Regression.fit(phi, y)
        present = head.eigenvalues > 0
        across = np.where(present[:, None], head.rotation.T @ (phi.T @ q), 0.0)
        inverse = np.where(present, 1.0 / np.where(present, head.eigenvalues, 1.0), 0.0)
        reach = phi @ head.rotation * inverse
        both = np.hstack([q - reach @ across, (y - reach @ head.projection)[:, None]])
        return cls(head, across, np.asarray(np.linalg.qr(both, mode="r")))

    def given(self, theta: Array) -> Regression:
        """The regression of y - q theta on Phi."""
        missed = self.unreached @ np.append(theta, -1.0)
        return Regression(
            self.head.rotation,
            self.head.eigenvalues,
            self.head.projection - self.across @ theta,
            float(missed @ missed),
            self.head.n,
        )
