"""Fitting the cost of an evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dngo.rules import current
from dngo.surrogates.data import TargetScale
from dngo.surrogates.gaussian_process import fit_process
from dngo.surrogates.kernels import Covariance
from dngo.surrogates.model import Cost, Model
from dngo.surrogates.problem import Problem
from dngo.surrogates.sparse_process import fit_sparse_process
from dngo.types import Array, Rows

MOST = 10_000  # most observations in the fit, which then takes a second or two
PROCESS = Covariance(), 10  # samples of the hyperparameters


def fit_cost(
    x: Array, log_cost: Array, *, rng: np.random.Generator, groups: Rows | None = None
) -> Cost:
    """x: (n, d) encoded, log_cost: (n,) finite, n >= 1; rows beyond a limit are thinned.

    groups: (d,) as of `Problem`.
    """
    streams = rng.spawn(2)
    if len(x) > MOST:
        rows = np.sort(streams[0].permutation(len(x))[:MOST])
        x, log_cost = x[rows], log_cost[rows]
    scale = TargetScale.fit(log_cost)
    scale = replace(scale, highest=2.0 * scale.highest - scale.centre)
    targets = scale.to_model(log_cost)
    problem = Problem(x, targets, groups=groups)
    if len(x) <= current().cost.most_exact:
        fit = fit_process(problem, *PROCESS, rng=streams[1])
    else:
        fit = fit_sparse_process(problem, *PROCESS, current().sparse.inducing, rng=streams[1])
    return Cost(Model(fit.components, scale, {}, {"observations": len(x), **fit.diagnostics}))
