"""Surrogates side by side, weighted by how well each predicts what it has not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from dngo.surrogates.gaussian_process import GaussianProcess, fit_process
from dngo.surrogates.linear import FiniteBasis
from dngo.surrogates.numerics import child
from dngo.surrogates.regression import fit_regression, folds
from dngo.surrogates.settings import SurrogateSettings
from dngo.surrogates.sparse_process import fit_sparse_process
from dngo.types import Array, Progress, Rows

MOST_FOR_PROCESS = 20_000  # observations; from there on the bases resolve more, for less
BOOTSTRAPS = 200
NEGLIGIBLE = 0.02  # a share below this is dropped: it costs time and changes nothing


def fit_mixture(
    x: Array,
    targets: Array,
    settings: SurrogateSettings,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    batch: Array | None = None,
) -> tuple[list[FiniteBasis | GaussianProcess], dict[str, float]]:
    """A Gaussian process and adaptive bases, weighted.

    x: (n, d) unit cube, targets: (n,) standardised, n >= 1. Both leave out the same folds and are
    weighted by how well they predict what was left out. Beyond `gp_limit` observations the process
    is a sparse one; with too many even for that, the bases stand alone.

    batch: (n,) iterations, if known: the diagnostics then say how well each surrogate predicts the
    newest batch, where the search has moved to.
    """
    streams = [child(rng) for _ in range(4)]
    judged = settings.calibration == "out_of_fold" and len(x) >= 2 * settings.networks
    few = len(x) <= settings.gp_limit
    if few:
        process, process_found = fit_process(x, targets, settings, rng=streams[1])
        if not judged:
            return [process], process_found
        if progress is not None:
            progress(0.3, "fitted a Gaussian process")
    fold = folds(len(x), settings.networks, streams[2])
    bases, found, trial = fit_regression(
        x, targets, settings, rng=streams[0], progress=progress, fold=fold
    )
    if not few and (not judged or len(x) > MOST_FOR_PROCESS or settings.inducing == 0):
        return [*bases], found
    if few:
        density = left_out_density(process, fold)[trial.rows]
    else:
        process, process_found, density = fit_sparse_process(
            x, targets, settings, fold, trial.rows, rng=streams[1]
        )
    share = shares(np.stack([density, trial.log_density]), streams[3])
    found |= process_found | {
        "gp_out_of_fold_log_density": float(np.mean(density)),
        "basis_out_of_fold_log_density": float(np.mean(trial.log_density)),
        "gp_share": float(share[0]),
    }
    if batch is not None and np.any(newest := batch[trial.rows] == np.max(batch)):
        found["gp_newest_log_density"] = float(np.mean(density[newest]))
        found["basis_newest_log_density"] = float(np.mean(trial.log_density[newest]))
    if share[1] < NEGLIGIBLE:
        return [process], found
    weighted: list[FiniteBasis | GaussianProcess] = [
        replace(basis, weight=float(share[1]) / len(bases)) for basis in bases
    ]
    if share[0] >= NEGLIGIBLE:
        weighted.append(replace(process, weight=float(share[0])))
    return weighted, found


def left_out_density(process: GaussianProcess, fold: Rows) -> Array:
    """Log density of each target given the other folds, averaged over the samples: (n,)."""
    mean, variance = process.left_out(fold)
    each = -0.5 * ((process.targets[:, None] - mean) ** 2 / variance)
    each -= 0.5 * np.log(2 * np.pi * variance)
    return np.asarray(logsumexp(each, axis=1) - np.log(each.shape[1]))


def shares(log_density: Array, rng: np.random.Generator) -> Array:
    """Posterior probabilities (k,) of k surrogates by their trials: log_density (k, m).

    A surrogate's evidence is the product of the densities that it gave to what it had not seen, a
    Bayesian bootstrap over the rows keeping a difference that rests on a few of them from deciding
    (pseudo-BMA+, Yao, Vehtari, Simpson and Gelman 2018). Stacking the densities predicts a little
    better, but keeps a share of every surrogate, and expected improvement near the optimum then
    comes all from the one with the widest intervals: searches stopped converging.
    """
    k, m = log_density.shape
    if m == 0:
        return np.full(k, 1.0 / k)
    worth = m * rng.dirichlet(np.ones(m), BOOTSTRAPS) @ log_density.T  # (BOOTSTRAPS, k)
    odds = np.exp(worth - worth.max(axis=1, keepdims=True))
    share: Array = np.mean(odds / odds.sum(axis=1, keepdims=True), axis=0)
    return share
