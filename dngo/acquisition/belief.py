"""How much people's priors count: less with every evaluation.

piBO (Hvarfner, Stoll, Souza, Lindauer, Hutter and Nardi 2022, "piBO: Augmenting acquisition functions with
user beliefs for Bayesian optimization", equation 6): an acquisition is multiplied by the prior to the power
of beta / n.
"""

from __future__ import annotations

import numpy as np

from dngo.space import Space
from dngo.space.priors import believed, log_prior
from dngo.types import Array

BETA = 10.0  # the paper's default; n counts single evaluations there, as it does here


def power(evaluations: int) -> float:
    """The prior's exponent after so many evaluations: 1 up to BETA of them, then it falls."""
    return min(1.0, BETA / max(evaluations, 1))


def log_weight(space: Space, v: Array, evaluations: int) -> Array:
    """The logarithm of the factor on an acquisition at v (n, k): (n,), at most 0."""
    if not believed(space):
        return np.zeros(len(v))
    return power(evaluations) * log_prior(space, v)
