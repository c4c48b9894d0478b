"""Where people believe the optimum to be: a density over the space, and points drawn from it.

A number with a `prior` has a normal around the believed value, on the number's own scale. A category
with a X has probabilities. Other parameters are uniform, and all are independent.
"""

from __future__ import annotations

import numpy as np

from dngo.space.columns import Axes, Column, to_column
from dngo.space.parameters import Prior
from dngo.space.space import Space

# Lower bound of the density, as a share of its peak. So a wrong belief cannot keep the search away
# from a place for ever.
FLOOR = 0.01


def believed(space: Space) -> dict[int, Prior]:
    """The priors, by the column of `v`."""
    found = {j: space.parameters[c.name].prior for j, c in enumerate(space.columns)}
    return {j: prior for j, prior in found.items() if prior is not None}


def log_prior(space: Space, v: np.ndarray) -> np.ndarray:
    """The logarithm of the density at natural values v (n, k), minus its value at the peak: (n,).

    A parameter adds nothing at points where it is inactive.
    """
    v = np.atleast_2d(v)
    u, found = space.unit(v), np.zeros(len(v))
    for j, prior in believed(space).items():
        column = space.columns[j]
        if column.kind == "categorical":
            shares = _shares(column, prior)
            index = np.where(np.isnan(v[:, j]), 0.0, v[:, j]).astype(int)
            each = np.log(np.maximum(shares[index], 1e-300) / shares.max())
        else:
            each = -0.5 * ((u[:, j] - _centre(column, prior)) / prior.width) ** 2
        found += np.where(np.isnan(v[:, j]), 0.0, each)
    return np.log(FLOOR + (1.0 - FLOOR) * np.exp(found))


def drawn(space: Space, u: np.ndarray) -> np.ndarray:
    """Points (n, k) that follow the prior if the u (n, k) in [0, 1) are uniform.

    In a space with constraints they are nearby points that keep the constraints.
    """
    from scipy.stats import truncnorm

    u = np.array(u, dtype=float)
    for j, prior in believed(space).items():
        column = space.columns[j]
        if column.kind == "categorical":
            edges = np.cumsum(_shares(column, prior))
            index = np.minimum(np.searchsorted(edges, u[:, j], side="right"), len(edges) - 1)
            u[:, j] = (index + 0.5) / len(edges)
        else:
            centre, width = _centre(column, prior), prior.width
            u[:, j] = truncnorm.ppf(u[:, j], -centre / width, (1 - centre) / width, centre, width)
    others = [j for j, c in enumerate(space.columns) if j not in believed(space)]
    v = space.at(u)
    v[:, others] = space.decode(u)[:, others]  # listed values with equal probability
    return space.round(v)


def peak(space: Space) -> np.ndarray:
    """The point with the highest density; parameters without a prior are at their defaults: (1, k)."""
    v = np.array([[c.default for c in space.columns]])
    for j, prior in believed(space).items():
        v[0, j] = to_column(space.columns[j], prior.value)
    return space.round(v)


def _centre(column: Column, prior: Prior) -> float:
    return float(Axes([column]).coordinates(np.array([[to_column(column, prior.value)]]))[0, 0])


def _shares(column: Column, prior: Prior) -> np.ndarray:
    """The probability of each category: (levels,)."""
    levels = column.levels or 1
    shares = np.full(levels, prior.width / max(levels - 1, 1))
    shares[int(to_column(column, prior.value))] = 1.0 - prior.width
    return shares
