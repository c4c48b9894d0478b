"""Which models of points that lie together are kept: every such choice is made here.

Models that see the same outcomes, and differ in how they were fitted, are compared by their evidence
(`is_likelier`). Models that see other outcomes, or another scale, are compared by how well each predicts
left-out outcomes (`predicts_better`). And a model may be no better than none (`is_of_no_use`).
"""

from __future__ import annotations

import numpy as np

from dngo.rules import current
from dngo.types import Array


def is_likelier(other: float, first: float, *, numbers: float, n: int) -> bool:
    """Whether another model has a higher log evidence, after the price of its further numbers.

    The price is half of log n for each, as the same n outcomes chose them (Schwarz 1978).
    """
    return other - 0.5 * numbers * np.log(n) > first


def predicts_better(other: Array, first: Array, n: int) -> bool:
    """Whether another model has a higher mean log score of n outcomes, by more than `better`.

    other, first: (m,) log scores of the outcomes that both know. Both have the same score for the others.
    """
    return float(np.sum(other - first)) / n > current().selection.better


def is_of_no_use(predicted: Array, targets: Array, distance: Array, *, alike: bool) -> bool:
    """Whether a model predicts no more than the distance from the best point does.

    predicted: (n,) its prediction of each target from all others. targets, distance: (n,). alike: whether
    points next to each other are known to have similar outcomes.

    Points near the best one are low, which needs no model. On a bowl the distance ranks all outcomes, and
    the partial correlation is 0 even for the best model: one that ranks them well is of use.
    """
    from scipy.stats import (
        spearmanr,
    )  # the import takes half a second: commands that only read models save it

    rules = current().selection
    if spearmanr(predicted, targets).statistic > rules.ranked:
        return False
    least = rules.foresight_alike if alike else rules.foresight
    return partial_rank_correlation(predicted, targets, distance) < least


def partial_rank_correlation(one: Array, other: Array, given: Array) -> float:
    """The correlation of two (n,) given a third, 0 if it is undefined."""
    from scipy.stats import rankdata

    with np.errstate(invalid="ignore", divide="ignore"):
        between = np.corrcoef(rankdata([one, given, other], axis=1))
        rest = np.sqrt((1 - between[0, 1] ** 2) * (1 - between[2, 1] ** 2))
        return float(np.nan_to_num((between[0, 2] - between[0, 1] * between[2, 1]) / rest))
