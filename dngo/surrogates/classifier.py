"""Constraint classifiers: adaptive basis with Bayesian classification as the last layer.

Section 3.2, equation (10): the weights have a Gaussian approximation to their posterior, and the
probability that a constraint holds is integrated over it. With the logistic likelihood, for noisy
constraints, it is Laplace's. The step function that the paper names for noiseless ones has no
curvature anywhere, so that Laplace's is not defined: there it is expectation propagation's, which
matches the moments of each truncated Gaussian exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, ndtr

from dngo.surrogates.network import Network, train_networks
from dngo.surrogates.numerics import child
from dngo.surrogates.settings import ClassifierSettings
from dngo.types import Array, Progress, Rows

PRECISIONS = np.geomspace(0.01, 10.0, 7)  # prior precisions of the weights to choose among
INTERCEPT_PRECISION = 0.05  # of the constant feature: base rates from 1e-4 to 1 - 1e-4 are likely
MAX_NEWTON = 100
# Share of the labels that the step function gets wrong: the basis cannot draw every boundary.
FLIPPED = 5e-3
MAX_SWEEPS, DAMPING, SETTLED = 100, 0.5, 1e-4


@dataclass(frozen=True)
class Laplace:
    """Gaussian approximation to the posterior of logistic regression weights.

    mean: (D,) the mode; covariance: (D, D) inverse Hessian there.
    """

    mean: Array
    covariance: Array

    @classmethod
    def fit(
        cls, phi: Array, labels: Array, precision: Array, start: Array | None = None
    ) -> Laplace:
        """Newton's method with step halving, on a strictly convex function.

        phi: (n, D), labels: (n,) 0 or 1, precision: (D,) of the zero-mean Gaussian prior.
        """
        w = np.zeros(phi.shape[1]) if start is None else start.copy()
        value = _negative_log_posterior(w, phi, labels, precision)
        for _ in range(MAX_NEWTON):
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
                break  # no descent left that floating point can see
            w, value = moved, new
        hessian = _hessian(phi, expit(phi @ w), precision)
        covariance = cho_solve(cho_factor(hessian), np.eye(len(w)))
        return cls(w, 0.5 * (covariance + covariance.T))

    def probability(self, phi: Array) -> Array:
        """Equation (10) by MacKay's probit adjustment: phi (n, D) -> (n,)."""
        variance = np.einsum("nd,nd->n", phi @ self.covariance, phi)
        return expit(phi @ self.mean / np.sqrt(1.0 + np.pi / 8.0 * variance))


@dataclass(frozen=True)
class Step:
    """Gaussian approximation to the posterior of weights whose sign alone decides.

    mean: (D,), covariance: (D, D).
    """

    mean: Array
    covariance: Array

    @classmethod
    def fit(cls, phi: Array, labels: Array, precision: Array, start: Array | None = None) -> Step:
        """Expectation propagation (Minka 2001), all sites at once, damped.

        phi: (n, D), labels: (n,) 0 or 1, precision: (D,) of the zero-mean Gaussian prior. The
        likelihood of a label is 1 - FLIPPED on its side of zero and FLIPPED on the other. A sweep
        costs n D^2. start is not used: the sites' fixed point does not depend on it.
        """
        signed = phi * (2.0 * labels - 1.0)[:, None]
        tau, nu = np.zeros(len(phi)), np.zeros(len(phi))  # natural parameters of the sites
        for _ in range(MAX_SWEEPS):
            mean, covariance = _gaussian(signed, tau, nu, precision)
            variance = np.einsum("nd,nd->n", signed @ covariance, signed)
            # Each margin without its own site, and the moments of that times the likelihood.
            cavity = 1.0 / np.maximum(1.0 / variance - tau, 1e-12)
            middle = cavity * (signed @ mean / variance - nu)
            z = middle / np.sqrt(cavity)
            mass = FLIPPED + (1.0 - 2.0 * FLIPPED) * ndtr(z)
            density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
            slope = (1.0 - 2.0 * FLIPPED) * density / (mass * np.sqrt(cavity))
            # Where a label is taken for flipped the site would have a negative precision.
            curve = np.clip(slope * (slope + z / np.sqrt(cavity)), 0.0, 0.999 / cavity)
            new = curve / (1.0 - curve * cavity)
            moved = float(np.max(np.abs(new - tau) * variance))
            tau += DAMPING * (new - tau)
            nu += DAMPING * ((slope + middle * curve) / (1.0 - curve * cavity) - nu)
            if moved < SETTLED:
                break
        return cls(*_gaussian(signed, tau, nu, precision))

    def probability(self, phi: Array) -> Array:
        """Equation (10), exactly for the Gaussian: phi (n, D) -> (n,)."""
        variance = np.einsum("nd,nd->n", phi @ self.covariance, phi)
        on_its_side: Array = ndtr(phi @ self.mean / np.sqrt(variance))
        return FLIPPED + (1.0 - 2.0 * FLIPPED) * on_its_side


def _gaussian(a: Array, tau: Array, nu: Array, precision: Array) -> tuple[Array, Array]:
    """Mean and covariance of weights with sites on their margins a (n, D)."""
    factor = cho_factor((a * tau[:, None]).T @ a + np.diag(precision))
    covariance = cho_solve(factor, np.eye(len(precision)))
    covariance = 0.5 * (covariance + covariance.T)
    return covariance @ (a.T @ nu), covariance


Head = Laplace | Step
HEADS: dict[str, type[Laplace] | type[Step]] = {"logistic": Laplace, "step": Step}


@dataclass(frozen=True)
class Classifier:
    """P(constraint holds | x): the average over an ensemble, or a constant.

    constant: what is returned everywhere when `members` is empty, because only one class (or
    nothing) has been seen: the mean (satisfied + 1) / (seen + 2) under a uniform prior.
    log_density: mean out-of-fold log probability of the labels, NaN where there is none.
    """

    members: tuple[tuple[Network, Head], ...]
    constant: float
    log_density: float = float("nan")

    @property
    def is_constant(self) -> bool:
        return not self.members

    def probability(self, x: Array) -> Array:
        """x: (n, d) unit cube -> (n,)."""
        if self.is_constant:
            return np.full(len(x), self.constant)
        return np.mean([head.probability(net.features(x)) for net, head in self.members], axis=0)


def fit_classifier(
    x: Array,
    labels: Array,
    settings: ClassifierSettings,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Classifier:
    """x: (n, d) unit cube; labels: (n,) 1 satisfied, 0 violated, NaN unknown and left out.

    As in the regression, network k leaves out a fold, and the prior precision of the weights is
    the one that predicts best what was left out: on the points it was trained on a network
    separates the classes perfectly, and would be certain everywhere.
    """
    known = ~np.isnan(labels)
    x, labels = x[known], labels[known]
    constant = (labels.sum() + 1.0) / (len(labels) + 2.0)
    if len(np.unique(labels)) < 2:
        return Classifier((), float(constant))
    fold = _stratified_folds(labels, settings.networks.ensemble, child(rng))
    if settings.calibration == "out_of_fold":
        training = [np.flatnonzero(fold != k) for k in range(settings.networks.ensemble)]
    else:
        training = [np.arange(len(x))] * settings.networks.ensemble
    networks = train_networks(
        x, labels, training, settings.networks, loss="logistic", rng=child(rng), progress=progress
    )
    heads = HEADS[settings.likelihood]
    precision, score = 1.0, float("nan")
    features = [network.features(x) for network in networks]
    if settings.calibration == "out_of_fold":
        scores = np.zeros(len(PRECISIONS))
        for k, phi in enumerate(features):
            seen, unseen = fold != k, fold == k
            start = None
            for i in reversed(range(len(PRECISIONS))):
                head = heads.fit(
                    phi[seen], labels[seen], _prior(PRECISIONS[i], phi.shape[1]), start
                )
                start = head.mean
                p = np.clip(head.probability(phi[unseen]), 1e-12, 1 - 1e-12)
                scores[i] += float(np.sum(np.log(np.where(labels[unseen] == 1, p, 1 - p))))
        precision = float(PRECISIONS[np.argmax(scores)])
        score = float(scores.max() / len(labels))
    members = tuple(
        (network, heads.fit(phi, labels, _prior(precision, phi.shape[1])))
        for network, phi in zip(networks, features, strict=True)
    )
    return Classifier(members, float(constant), score)


def _prior(precision: float, size: int) -> Array:
    vector = np.full(size, precision)
    vector[-1] = INTERCEPT_PRECISION
    return vector


def _stratified_folds(labels: Array, networks: int, rng: np.random.Generator) -> Rows:
    """Folds that share out the rows of each class evenly: (n,)."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.intp)
    fold[order] = np.arange(len(labels)) % networks
    return fold


def _hessian(phi: Array, p: Array, precision: Array) -> Array:
    return (phi * (p * (1 - p))[:, None]).T @ phi + np.diag(precision)


def _negative_log_posterior(w: Array, phi: Array, labels: Array, precision: Array) -> float:
    a = phi @ w
    return float(np.sum(np.logaddexp(0.0, a) - labels * a) + 0.5 * np.sum(precision * w * w))
