"""A mixture of surrogates, weighted by how well each predicts outcomes that it has not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from dngo.rules import current
from dngo.surrogates.gaussian_process import GaussianProcess, fit_process
from dngo.surrogates.kernels import Covariance
from dngo.surrogates.linear import FiniteBasis
from dngo.surrogates.problem import Fit, Problem
from dngo.surrogates.regression import Ensemble, fit_regression, folds, number_of_folds
from dngo.surrogates.sparse_process import fit_sparse_process
from dngo.types import Array, Progress, Rows

# Most observations of a sparse process: with more, the bases resolve more and cost less.
MOST_FOR_PROCESS = 20_000
NEGLIGIBLE = 0.02  # a smaller share is dropped: it costs time and changes little


def fit_mixture(
    problem: Problem,
    covariance: Covariance,
    ensemble: Ensemble,
    *,
    most_exact: int,
    inducing: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Fit[FiniteBasis | GaussianProcess]:
    """A Gaussian process and adaptive bases, weighted.

    Both leave out the same folds and are weighted by how well they predict the left-out rows. The process
    stands alone with too few observations for folds, or with categories alone. Beyond `most_exact`
    observations it is sparse, on `inducing` inputs. The bases stand alone with too many observations even
    for that, with too few folds, or without such inputs.

    If the process had all the weight in the previous fit, and little is new, it has it again.
    """
    streams = rng.spawn(4)
    n, networks = len(problem.x), ensemble.networks.ensemble
    # If all inputs are levels, a network has nothing to interpolate, but would be half of the cost.
    listed = bool(np.isin(problem.x, (0.0, 1.0)).all())
    parameters = problem.x.shape[1] if problem.groups is None else int(problem.groups.max()) + 1
    # With fewer observations than inputs a network is a guess, and costs more than the process.
    judged = n >= max(2 * number_of_folds(networks), parameters)
    few = n <= most_exact
    if few:
        process = _exact(problem, covariance, ensemble.samples, streams[1])
        earlier = _still_alone(problem)
        if not judged or listed or earlier:
            return Fit(process.components, process.diagnostics | earlier)
        if progress is not None:
            progress(0.3, "fitted a Gaussian process")
    fold = folds(problem, networks, streams[2])
    bases = fit_regression(problem, ensemble, rng=streams[0], progress=progress, fold=fold)
    trial = bases.trial
    if not few and (not judged or n > MOST_FOR_PROCESS or inducing == 0):
        return Fit(bases.components, bases.diagnostics, trial)
    if few:
        density = left_out_density(process.components[0], fold)[trial.rows]
    else:
        limits = ensemble.samples, inducing, (fold, trial.rows)
        process = fit_sparse_process(problem, covariance, *limits, rng=streams[1])
        density = process.trial.log_density
    share = shares(np.stack([density, trial.log_density]), streams[3])
    found = bases.diagnostics | process.diagnostics | {"gp_share": float(share[0])}
    found["gp_out_of_fold_log_density"] = float(np.mean(density))
    found["basis_out_of_fold_log_density"] = float(np.mean(trial.log_density))
    found["networks_judged_at"] = n
    if share[1] < NEGLIGIBLE:
        return Fit(process.components, found, trial)
    if share[0] < NEGLIGIBLE:
        share = np.array([0.0, 1.0])
    weighted: list[FiniteBasis | GaussianProcess] = [
        replace(basis, weight=float(share[1]) / len(bases.components)) for basis in bases.components
    ]
    if share[0] > 0.0:
        weighted.append(replace(process.components[0], weight=float(share[0])))
    return Fit(tuple(weighted), found, trial)


def _exact(
    problem: Problem, covariance: Covariance, samples: int, rng: np.random.Generator
) -> Fit[GaussianProcess]:
    """A process on all observations. Of many, some teach its lengthscales, and fewer are sampled."""
    most = current().process.teachers
    if len(problem.x) > most:
        samples = min(samples, current().sparse.samples)
    return fit_process(problem, covariance, samples, rng=rng, teachers=most)


def _still_alone(problem: Problem) -> dict[str, float]:
    """If an earlier fit gave the process all the weight, and that still holds: its diagnostics.
    Else empty."""
    summary = problem.past.summary if problem.past else {}
    at, share = summary.get("networks_judged_at", 0), summary.get("gp_share", 0.0)
    if share <= 1.0 - NEGLIGIBLE or len(problem.x) >= (1.0 + current().lessons.grown) * at:
        return {}
    return {"gp_share": share, "networks_judged_at": at}


def left_out_density(process: GaussianProcess, fold: Rows) -> Array:
    """Log density of each target given the other folds, averaged over the samples: (n,)."""
    mean, variance = process.left_out(fold)
    each = -0.5 * ((process.targets[:, None] - mean) ** 2 / variance)
    each -= 0.5 * np.log(2 * np.pi * variance)
    return np.asarray(logsumexp(each, axis=1) - np.log(each.shape[1]))


def shares(log_density: Array, rng: np.random.Generator) -> Array:
    """Posterior probabilities (k,) of k surrogates by their trials: log_density (k, m).

    A surrogate's evidence is the product of its densities of rows that it had not seen. A Bayesian
    bootstrap over the rows prevents a few of them from deciding (pseudo-BMA+, Yao, Vehtari, Simpson and
    Gelman 2018). Stacking the densities predicts a little better, but every surrogate keeps a
    share. Near the optimum, expected improvement then comes only from the surrogate with the widest
    intervals, and searches stopped converging.
    """
    k, m = log_density.shape
    if m == 0:
        return np.full(k, 1.0 / k)
    # Of each surrogate in each bootstrap: (bootstraps, k).
    worth = m * rng.dirichlet(np.ones(m), current().mixture.bootstraps) @ log_density.T
    odds = np.exp(worth - worth.max(axis=1, keepdims=True))
    share: Array = np.mean(odds / odds.sum(axis=1, keepdims=True), axis=0)
    return share
