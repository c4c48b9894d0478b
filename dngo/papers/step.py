"""The paper's step function as the likelihood of a constraint's flag, for constraints without
chance.

It has no curvature anywhere, so Laplace's approximation does not exist. Expectation propagation is
used instead: it matches the moments of each truncated Gaussian exactly. None of these numbers was
measured.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr

from dngo.surrogates.classifier import Gaussian
from dngo.surrogates.storage import stored_as
from dngo.types import Array

# Share of labels on the wrong side: the basis cannot draw every boundary.
FLIPPED = 5e-3
MOST_SWEEPS = 100
DAMPING = 0.5  # share of a step that is taken: all sites move at once, so whole steps may oscillate
# A site has settled once its precision changes by less than this, in units of its margin's
# precision.
SETTLED = 1e-4


@stored_as("step")
class Step(Gaussian):
    """With the step function, only the sign of the margin counts."""

    @classmethod
    def fit(cls, phi: Array, labels: Array, precision: Array, start: Array | None = None) -> Step:
        """Expectation propagation (Minka 2001), all sites at once, damped.

        phi: (n, D), labels: (n,) 0 or 1, precision: (D,) of the zero-mean Gaussian prior. A label's
        likelihood is `FLIPPED` if the margin is on the wrong side of zero, and the rest of 1 on its
        own side. A sweep costs n D^2. start is not used, since the result does not depend on it.
        """
        signed = phi * (2.0 * labels - 1.0)[:, None]
        tau, nu = np.zeros(len(phi)), np.zeros(len(phi))  # natural parameters of the sites
        for _ in range(MOST_SWEEPS):
            mean, covariance = _gaussian(signed, tau, nu, precision)
            variance = np.einsum("nd,nd->n", signed @ covariance, signed)
            # Each margin without its own site, and its moments after it is multiplied by the
            # likelihood.
            cavity = 1.0 / np.maximum(1.0 / variance - tau, 1e-12)
            middle = cavity * (signed @ mean / variance - nu)
            z = middle / np.sqrt(cavity)
            mass = FLIPPED + (1.0 - 2.0 * FLIPPED) * ndtr(z)
            density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
            slope = (1.0 - 2.0 * FLIPPED) * density / (mass * np.sqrt(cavity))
            # If a label counts as flipped, its site would get a negative precision.
            curve = np.clip(slope * (slope + z / np.sqrt(cavity)), 0.0, 0.999 / cavity)
            new = curve / (1.0 - curve * cavity)
            moved = float(np.max(np.abs(new - tau) * variance))
            tau += DAMPING * (new - tau)
            nu += DAMPING * ((slope + middle * curve) / (1.0 - curve * cavity) - nu)
            if moved < SETTLED:
                break
        return cls(*_gaussian(signed, tau, nu, precision))

    def probability(self, phi: Array) -> Array:
        """Equation (10), exact for the Gaussian: phi (n, D) -> (n,)."""
        variance = np.einsum("nd,nd->n", phi @ self.covariance, phi)
        on_its_side: Array = ndtr(phi @ self.mean / np.sqrt(variance))
        return FLIPPED + (1.0 - 2.0 * FLIPPED) * on_its_side


def _gaussian(a: Array, tau: Array, nu: Array, precision: Array) -> tuple[Array, Array]:
    """Mean and covariance of the weights, given sites on the margins a (n, D)."""
    factor = cho_factor((a * tau[:, None]).T @ a + np.diag(precision))
    covariance = cho_solve(factor, np.eye(len(precision)))
    covariance = 0.5 * (covariance + covariance.T)
    return covariance @ (a.T @ nu), covariance
