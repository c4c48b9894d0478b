"""Fitting the numbers that have thresholds: a study may have a dozen, each at a tenth of the cost.

A bound needs less than an optimum: the side on which a point lies, and how sure that is. A process at the
mode of its hyperparameters is enough, and Student's odds (`Bounded`) cover their uncertainty.
"""

from __future__ import annotations

import numpy as np

from dngo.rules import current
from dngo.surrogates.apart import apart
from dngo.surrogates.evidence import Evidence
from dngo.surrogates.gaussian_process import GaussianProcess, fit_process, of_logarithms
from dngo.surrogates.kernels import Covariance
from dngo.surrogates.problem import Fit, Problem
from dngo.surrogates.sparse_process import fit_sparse_process


def fit_number(
    problem: Problem,
    covariance: Covariance,
    samples: int,
    most_exact: int,
    *,
    rng: np.random.Generator,
) -> Fit[GaussianProcess]:
    """One component, a process: with a few samples for few observations, at its mode, or sparse."""
    rules, n = current().numbers, len(problem.x)
    if n <= rules.sampled_up_to:
        return fit_process(problem, covariance, min(samples, rules.samples), rng=rng)
    if n > most_exact:
        fold, none = np.zeros(n, dtype=np.intp), np.empty(0, dtype=np.intp)
        return fit_sparse_process(
            problem, covariance, samples, current().sparse.inducing, fold, none, rng=rng
        )
    rows = apart(problem.x, n, rng, problem.groups)
    some = np.sort(rng.permutation(rows)[: rules.sketch])
    evidence = Evidence(problem.at(some), covariance)
    mode, highest = evidence.mode(iterations=rules.steps)
    if len(some) < len(rows):
        evidence = Evidence(problem.at(rows), covariance)
        mode, highest = evidence.mode(mode, rules.steps_after_sketch)
    process = of_logarithms(problem, mode[None], evidence)
    return Fit((process,), {"gp_log_evidence": highest})
