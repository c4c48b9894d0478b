"""Chooses between models of the points of one region. Every such choice is made here.

Models of the same outcomes are compared by their evidence
(`is_likelier`). Models of different outcomes, or on different scales, are compared by how well each
predicts left-out outcomes (`predicts_better`). And a model may be no better than none
(`is_of_no_use`).
"""

from __future__ import annotations

import numpy as np

from dngo.rules import current
from dngo.types import Array


def is_likelier(other: float, first: float, *, numbers: float, n: int) -> bool:
    """Whether another model has a higher log evidence, minus the price of its further numbers.

    The price is half of log n for each number that the same n outcomes chose (Schwarz 1978).
    """
    return other - 0.5 * numbers * np.log(n) > first


def predicts_better(other: Array, first: Array, n: int) -> bool:
    """Whether another model has a higher mean log score of n outcomes, by more than `better`.

    other, first: (m,) log scores of the outcomes that both know. All other outcomes have the same
    score in both models.
    """
    return float(np.sum(other - first)) / n > current().selection.better


@np.errstate(invalid="ignore", divide="ignore")  # a correlation that is undefined counts as 0
def is_of_no_use(predicted: Array, targets: Array, distance: Array, *, alike: bool) -> bool:
    """Whether a model predicts no better than the distance from the best point.

    predicted: (n,) its prediction of each target from all others. targets, distance: (n,). alike:
    whether neighbouring points are known to have similar outcomes.

    Points near the best one are low; no model is needed to know that. On a bowl the distance ranks
    all outcomes, and the partial correlation is 0 even for the best model. So a model that ranks
    outcomes well is of use in any case.
    """
    # The import takes half a second, which commands that only read models save.
    from scipy.stats import rankdata

    rules = current().selection
    if np.corrcoef(rankdata([predicted, targets], axis=1))[0, 1] > rules.ranked:
        return False
    least = rules.foresight_alike if alike else rules.foresight
    return partial_rank_correlation(predicted, targets, distance) < least


@np.errstate(invalid="ignore", divide="ignore")
def partial_rank_correlation(one: Array, other: Array, given: Array) -> float:
    """The correlation of two (n,) given a third, 0 if it is undefined."""
    from scipy.stats import rankdata

    between = np.corrcoef(rankdata([one, given, other], axis=1))
    rest = np.sqrt((1 - between[0, 1] ** 2) * (1 - between[2, 1] ** 2))
    return float(np.nan_to_num((between[0, 2] - between[0, 1] * between[2, 1]) / rest))
