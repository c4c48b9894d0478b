"""Which models of points that lie together are kept: every such choice is made here.

Models that see the same outcomes, and differ in what was fitted to these, are compared by their evidence
(`is_likelier`). Models that see other outcomes, or these on another scale, are compared by how well each
predicts what it was not given (`predicts_better`). And a model may be no better than none (`is_of_no_use`).
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata, spearmanr

from dngo.rules import current
from dngo.types import Array


def is_likelier(other: float, first: float, *, numbers: float, n: int) -> bool:
    """Whether the log evidence of another model is higher, by the price of so many further numbers.

    Half of log n for each of them, as they were chosen by the same n outcomes (Schwarz 1978).
    """
    return other - 0.5 * numbers * np.log(n) > first


def predicts_better(other: Array, first: Array, n: int) -> bool:
    """Whether another model's log scores (m,) of some of n outcomes are higher, by enough a mean outcome.

    The first one answers for the outcomes that the other does not know.
    """
    return float(np.sum(other - first)) / n > current().selection.better


def is_of_no_use(predicted: Array, targets: Array, distance: Array, *, alike: bool) -> bool:
    """Whether what is predicted of targets (n,), each left out, says nothing beside their distance from the
    best point, (n,).

    Points near the best one are low, which needs no model. alike: whether points next to each other are
    known to be.

    Where the distance alone ranks the outcomes, as on a bowl, nothing is left for a partial
    correlation, however good the model is: one that ranks the outcomes nearly rightly is of use.
    """
    rules = current().selection
    if spearmanr(predicted, targets).statistic > rules.ranked:
        return False
    least = rules.foresight_alike if alike else rules.foresight
    return partial_rank_correlation(predicted, targets, distance) < least


def partial_rank_correlation(one: Array, other: Array, given: Array) -> float:
    """That of two (n,) given a third, 0 where it is undefined."""
    with np.errstate(invalid="ignore", divide="ignore"):
        between = np.corrcoef(rankdata([one, given, other], axis=1))
        rest = np.sqrt((1 - between[0, 1] ** 2) * (1 - between[2, 1] ** 2))
        return float(np.nan_to_num((between[0, 2] - between[0, 1] * between[2, 1]) / rest))
