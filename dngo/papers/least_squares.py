"""Ordinary least squares on a learned representation (Brofos, Shu and Jin 2015, section 3).

One network is trained. The activations nu(x) of its last hidden layer, and a constant, are the covariates
of a linear regression without hyperparameters. A study may learn the representation only in every nth
iteration; the regression always takes in all observations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dngo.surrogates.linear import FiniteBasis, Regression
from dngo.surrogates.network import Network
from dngo.surrogates.problem import Fit, Past, Problem
from dngo.surrogates.training import train_networks
from dngo.types import Array, Progress

if TYPE_CHECKING:
    from dngo.papers.settings import LeastSquares


@dataclass(frozen=True, kw_only=True)
class LeastSquaresRules:
    """Below these, rounding decides. Not measured."""

    least_noise: float = 1e-10  # variance, of standardised targets
    resolved: float = (
        1e-10  # share of the largest eigenvalue under which a direction is not observed
    )


RULES = LeastSquaresRules()


@dataclass(frozen=True)
class Representation:
    """The data from which an iteration's network is learnt.

    iterations: the network learns from their rows. rng: of its training, the same each time it is derived.
    network: the network that was learnt from these rows before, if an archive holds it.
    """

    iterations: int
    rng: np.random.Generator
    network: Network | None = None

    @classmethod
    def recall(cls, past: Past, settings: LeastSquares) -> Representation:
        """With `relearn_every: n` a network serves n iterations. It comes from a later iteration with the
        same settings, or is trained again on the same rows."""
        learnt = 1 + (past.iterations - 1) // settings.relearn_every * settings.relearn_every
        rng = past.stream(learnt)
        wanted = settings.model_dump(mode="json")
        for t in range(learnt, past.iterations):
            model, used = past.model(t)
            if model is None or used != wanted or not model.objective:
                continue
            network = getattr(model.objective[0], "network", None)
            if model.diagnostics.get("learnt_iterations") == learnt and isinstance(
                network, Network
            ):
                return cls(learnt, rng, network)
        return cls(learnt, rng)


def fit_least_squares(
    problem: Problem,
    settings: LeastSquares,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Fit:
    """One component, the regression of equations (6) to (8) on all observations.

    The network is trained on the same observations. If a network serves several iterations, it was
    trained on the rows of the first of them.
    """
    x, targets, batch, past = problem.x, problem.targets, problem.batch, problem.past
    rows, network, learnt = np.arange(len(x)), None, 0
    if past is not None and batch is not None and settings.relearn_every > 1:
        found = Representation.recall(past, settings)
        rows = np.flatnonzero(batch < found.iterations)
        rng, network, learnt = found.rng, found.network, found.iterations
    if network is None:
        own = targets[rows]
        deviation = float(own.std()) if len(own) > 1 and own.std() > 0 else 1.0
        scaled = (targets - own.mean()) / deviation if len(own) else targets
        (network,) = train_networks(
            x, scaled, [rows], settings.networks, loss="squared", rng=rng, progress=progress
        )
    basis, residual = head(network, x, targets)
    return Fit(
        (basis,),
        {
            "log_noise": float(np.log(basis.noise[0])),
            "directions": int(np.sum(basis.variance[0] > 0)),
            "residual": residual,
            "learnt_from": len(rows),
            "learnt_iterations": learnt,
        },
    )


def head(network: Network, x: Array, targets: Array) -> tuple[FiniteBasis, float]:
    """The regression on a network's features, and its root mean square residual.

    With no more observations than features, the matrix of equation (6) has no inverse and a fit has no
    residuals. The regression then uses the n / 2 leading principal directions of the features.
    """
    found = Regression.fit(network.features(x), targets)
    n, eigenvalues = len(x), found.eigenvalues  # in rising order
    used = eigenvalues > RULES.resolved * eigenvalues[-1]
    if n <= len(eigenvalues):
        used[: -max(n // 2, 1)] = False
    inverse = np.where(used, 1.0 / np.where(used, eigenvalues, 1.0), 0.0)
    mean = inverse * found.projection
    residual = float(targets @ targets - mean @ found.projection)
    # The maximum likelihood estimate divides by n, however many covariates there are.
    noise = max(residual / n, RULES.least_noise)
    variance = noise * inverse
    basis = FiniteBasis(network, found.rotation, mean[None], variance[None], np.array([noise]))
    return basis, float(np.sqrt(max(residual, 0.0) / n))
