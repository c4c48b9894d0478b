"""How much of what people believe is heeded: less with every evaluation.

piBO (Hvarfner, Stoll, Souza, Lindauer, Hutter and Nardi 2022, "piBO: Augmenting acquisition functions with
user beliefs for Bayesian optimization", equation 6): an acquisition is multiplied by the prior to the power
of beta / n.
"""

from __future__ import annotations

import numpy as np

from dngo.space import Space
from dngo.space.priors import believed, log_prior
from dngo.types import Array

BETA = 10.0  # the paper's default; its n counts iterations of one evaluation, and so does ours


def power(evaluations: int) -> float:
    """Of the prior after so many evaluations: 1 up to BETA of them, then less and less."""
    return min(1.0, BETA / max(evaluations, 1))


def log_weight(space: Space, v: Array, evaluations: int) -> Array:
    """The logarithm of what an acquisition at v (n, k) is multiplied by: (n,), at most 0."""
    if not believed(space):
        return np.zeros(len(v))
    return power(evaluations) * log_prior(space, v)
