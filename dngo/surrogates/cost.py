"""Fitting what an evaluation costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dngo.surrogates.data import TargetScale
from dngo.surrogates.gaussian_process import fit_process
from dngo.surrogates.model import Cost, Model
from dngo.surrogates.problem import Problem
from dngo.surrogates.settings import ExactProcess
from dngo.surrogates.sparse_process import fit_sparse_process
from dngo.types import Array


@dataclass(frozen=True, kw_only=True)
class CostRules:
    """How much a fit of the cost may cost: a second or two. None was measured by itself."""

    most_exact: int = 150  # observations of the cost with which its process is exact
    inducing: int = 100  # inputs of the sparse one beyond
    most: int = 10_000  # observations that it is fitted to


RULES = CostRules()
PROCESS = ExactProcess()


def fit_cost(x: Array, log_cost: Array, *, rng: np.random.Generator) -> Cost:
    """x: (n, d) encoded, log_cost: (n,) finite, n >= 1; more than enough rows are thinned."""
    streams = rng.spawn(2)
    if len(x) > RULES.most:
        rows = np.sort(streams[0].permutation(len(x))[: RULES.most])
        x, log_cost = x[rows], log_cost[rows]
    scale = TargetScale.fit(log_cost)
    scale = replace(scale, highest=2.0 * scale.highest - scale.centre)
    targets = scale.to_model(log_cost)
    problem = Problem(x, targets)
    if len(x) <= RULES.most_exact:
        fit = fit_process(problem, PROCESS, rng=streams[1])
    else:
        fold, none = np.zeros(len(x), dtype=np.intp), np.empty(0, dtype=np.intp)
        fit = fit_sparse_process(problem, PROCESS, RULES.inducing, fold, none, rng=streams[1])
    return Cost(Model(fit.components, scale, {}, {"observations": len(x), **fit.diagnostics}))
