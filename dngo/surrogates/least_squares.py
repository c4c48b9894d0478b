"""Ordinary least squares on a learned representation (Brofos, Shu and Jin 2015, section 3).

One network is trained; the activations nu(x) of its last hidden layer, and a constant, are the
covariates of a linear regression without hyperparameters. The representation may be learnt every
nth iteration only; the regression always takes in all observations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dngo.surrogates.linear import FiniteBasis, Regression
from dngo.surrogates.network import Network, train_networks
from dngo.surrogates.settings import SurrogateSettings
from dngo.types import Array, Progress

LEAST_NOISE = 1e-10  # variance, of standardised targets
RESOLVED = 1e-10  # share of the largest eigenvalue under which a direction has not been observed


@dataclass(frozen=True)
class Representation:
    """What the representation of an iteration is learnt from.

    iterations: it learns from the rows of so many; rng: of its training, the same whenever it is
    derived again; network: the one that was learnt so before, where an archive holds it.
    """

    iterations: int
    rng: np.random.Generator
    network: Network | None = None


def fit_least_squares(
    x: Array,
    targets: Array,
    settings: SurrogateSettings,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    representation: Representation | None = None,
    batch: Array | None = None,
) -> tuple[FiniteBasis, dict[str, float]]:
    """The regression, equations (6) to (8), as a component, and the fit's diagnostics.

    x: (n, d) unit cube, targets: (n,) standardised, n >= 1. batch: (n,) the iteration of each row,
    which with `representation` tells the rows that the network is trained on; else all are.
    """
    rows = np.arange(len(x))
    if representation is not None and batch is not None:
        rows = np.flatnonzero(batch < representation.iterations)
        rng = representation.rng
    network = None if representation is None else representation.network
    if network is None:
        own = targets[rows]
        deviation = float(own.std()) if len(own) > 1 and own.std() > 0 else 1.0
        scaled = (targets - own.mean()) / deviation if len(own) else targets
        (network,) = train_networks(
            x, scaled, [rows], settings, loss="squared", rng=rng, progress=progress
        )
    basis, residual = head(network, x, targets)
    return basis, {
        "log_noise": float(np.log(basis.noise[0])),
        "directions": int(np.sum(basis.variance[0] > 0)),
        "residual": residual,
        "learnt_from": len(rows),
        "learnt_iterations": 0 if representation is None else representation.iterations,
    }


def head(network: Network, x: Array, targets: Array) -> tuple[FiniteBasis, float]:
    """The regression on a network's features, and its root mean square residual.

    With no more observations than features the matrix of equation (6) has no inverse, and a fit has
    no residuals. The regression is then on the n / 2 leading principal directions of the features.
    """
    found = Regression.fit(network.features(x), targets)
    n, eigenvalues = len(x), found.eigenvalues  # in rising order
    used = eigenvalues > RESOLVED * eigenvalues[-1]
    if n <= len(eigenvalues):
        used[: -max(n // 2, 1)] = False
    inverse = np.where(used, 1.0 / np.where(used, eigenvalues, 1.0), 0.0)
    mean = inverse * found.projection
    residual = float(targets @ targets - mean @ found.projection)
    # The maximum likelihood estimate divides by n, whatever the number of covariates.
    noise = max(residual / n, LEAST_NOISE)
    variance = noise * inverse
    basis = FiniteBasis(network, found.rotation, mean[None], variance[None], np.array([noise]))
    return basis, float(np.sqrt(max(residual, 0.0) / n))
