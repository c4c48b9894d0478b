"""Adaptive basis regression as published: the evidence (8) is computed from the points that trained
the networks.

Snoek et al. 2015, section 3: slice sampling of the marginal likelihood of the training data integrates
over alpha, beta and the quadratic prior mean (9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dngo.papers.equations import VERSIONS
from dngo.papers.quadratic import RULES as QUADRATIC
from dngo.papers.quadratic import QuadraticStatistics, coefficients, quadratic_features
from dngo.papers.quadratic import log_prior as log_hyperprior
from dngo.streams import Streams
from dngo.surrogates.linear import FiniteBasis
from dngo.surrogates.network import Network
from dngo.surrogates.problem import Fit, Problem
from dngo.surrogates.regression import Ensemble, fit_regression, log_prior, sample_chain
from dngo.surrogates.sections import TRAININGS
from dngo.types import Array, Progress

if TYPE_CHECKING:
    from dngo.papers.settings import AdaptiveBasis


def fit_adaptive_basis(
    problem: Problem,
    settings: AdaptiveBasis,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Fit[FiniteBasis]:
    """A component for each network, calibrated as the settings say."""
    if settings.calibration == "out_of_fold":
        samples = settings.hyperparameter_samples
        ensemble = Ensemble(settings.training, samples, settings.networks)
        return fit_regression(problem, ensemble, rng=rng, progress=progress)
    x, targets = problem.x, problem.targets
    streams = Streams.below(rng)
    networks = TRAININGS.find(settings.training)(
        x,
        targets,
        [np.arange(len(x))] * settings.networks.ensemble,
        settings.networks,
        loss="squared",
        rng=streams("networks"),
        progress=progress,
    )
    return _in_sample(x, targets, networks, settings, streams("heads"))


def _in_sample(
    x: Array,
    targets: Array,
    networks: list[Network],
    settings: AdaptiveBasis,
    rng: np.random.Generator,
) -> Fit[FiniteBasis]:
    """A head for each network. Its alpha, beta and prior mean (9) come from the evidence (8)."""
    components, chains, equations = [], [], VERSIONS[settings.equations]
    quadratic, samples = settings.prior_mean == "quadratic", settings.hyperparameter_samples
    q = quadratic_features(x)[:, : None if quadratic else 0]
    # The chain starts with a bowl that is almost flat, in the middle of the cube.
    hyper = np.repeat([0.0, QUADRATIC.centre, -3.0], [1, x.shape[1], x.shape[1]])[
        : None if quadratic else 0
    ]
    for network in networks:
        statistics = QuadraticStatistics.fit(network.features(x), q, targets)

        def log_posterior(log: Array, statistics: QuadraticStatistics = statistics) -> float:
            prior = log_prior(log[:2]) + (log_hyperprior(log[2:]) if quadratic else 0.0)
            if not np.isfinite(prior):
                return -np.inf
            head = statistics.given(coefficients(log[2:]) if quadratic else log[2:])
            return prior + equations.log_evidence(head, np.exp(log[0]), np.exp(log[1]))

        chain = sample_chain(log_posterior, np.concatenate([np.zeros(2), hyper]), samples, rng)
        alpha, beta = np.exp(chain[:, :2]).T
        means, variances = [], []
        for h, log in enumerate(chain):
            theta = coefficients(log[2:]) if quadratic else log[2:]
            head = statistics.given(theta)
            mean, variance = equations.posterior(head, alpha[[h]], beta[[h]])
            means.append(np.concatenate([mean[0], theta]))
            variances.append(np.concatenate([variance[0], np.zeros_like(theta)]))
        components.append(
            FiniteBasis(
                network,
                statistics.head.rotation,
                np.array(means),
                np.array(variances),
                equations.noise(alpha, beta),
                quadratic=quadratic,
            )
        )
        chains.append(chain)
    log_alpha, log_beta = np.mean(np.concatenate(chains), axis=0)[:2]
    found = {"log_alpha": float(log_alpha), "log_beta": float(log_beta)}
    return Fit(tuple(components), found)
