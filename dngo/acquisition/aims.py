"""What each pick of a batch with several objectives is for: one function of all of them.

A pick aims along a ray from the worst corner of the front. Its function is the highest of the objectives,
each divided by how far the ray goes down in it. It is lowest where the ray leaves the attainable values (an
augmented Tchebycheff scalarisation). Averaged over all rays it is the hypervolume (Zhang and Golovin 2020,
"Random hypervolume scalarizations for provable multi-objective black box optimization").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dngo.fronts import extent, hypervolume, on_front
from dngo.rules import current
from dngo.space.sobol import sobol
from dngo.surrogates.draws import draw
from dngo.surrogates.model import Model
from dngo.surrogates.numerics import one_thread
from dngo.types import Array, Rows

# Functions of each objective that predict a batch's gain: fewer where a hypervolume takes long.
DRAWS, DRAWS_OF_MANY = 64, 8


@dataclass(frozen=True)
class Corner:
    """Where rays begin, and the unit of each objective: worst, width (m,)."""

    worst: Array
    width: Array

    @classmethod
    def of(cls, values: Array, high: Array, reference: Sequence[float | None] = ()) -> Corner:
        """The corner behind the front.

        values: (n, m) of all ok outcomes, n >= 1. high: (m,) from `highs`. reference: the worst values of
        interest, None where unknown.
        """
        known = _known(reference, values.shape[1])
        front = values[on_front(values)]
        inside = front[np.all(front <= known, axis=1)]
        front = inside if len(inside) else front
        lowest, width = front.min(axis=0), np.ptp(front, axis=0)
        # The front may be one point, for example if two objectives are copies of each other.
        usual = high - lowest
        width = np.where(width > 0, width, np.where(usual > 0, usual, extent(values)[1]))
        worst = np.minimum(lowest + (1.0 + current().front.beyond) * width, known)
        return cls(np.where(worst > lowest, worst, lowest + current().front.beyond * width), width)

    @classmethod
    def at_end(
        cls, values: Array, high: Array, reference: Sequence[float | None], j: int
    ) -> Corner:
        """A corner before one end of the front: every ray from it leads to better values of
        objective j than any known one."""
        lowest = values.min(axis=0)
        high = np.maximum(high, values[on_front(values)].max(axis=0))
        worst = np.minimum(high, _known(reference, len(high)))
        width = worst - lowest
        width = np.where(width > 0, width, extent(values)[1])
        worst = lowest + width
        worst[j] = lowest[j]
        return cls(worst, width)

    def heights(self, values: Array) -> Array:
        """Values (..., m) in units of the front: 0 at the corner, less where they are better."""
        return (values - self.worst) / self.width


def highs(values: Array, batch: Rows) -> Array:
    """A bad value of each objective, (m,): a quantile of the first batch that has an ok outcome.

    values: (n, m), NaN unless ok; at least one row is ok. batch: (n,).
    """
    ok = np.isfinite(values).all(axis=1)
    first = values[ok & (batch == batch[ok].min())]
    return np.asarray(np.quantile(first, current().front.high, axis=0))


def _known(reference: Sequence[float | None], objectives: int) -> Array:
    """The references of the configuration: (m,), infinite where it has none."""
    return np.array([np.inf if r is None else r for r in reference or [None] * objectives])


def rays(count: int, objectives: int, skipped: int, rng: np.random.Generator) -> Array:
    """Directions (count, m) whose largest component is 1. They come from a sequence, after its
    first `skipped`."""
    engine = sobol(1 if objectives == 2 else objectives, rng)
    u = engine.random_base2(max(int(np.ceil(np.log2(skipped + count))), 0))[skipped:][:count]
    if objectives == 2:
        found = np.column_stack([np.cos(0.5 * np.pi * u[:, 0]), np.sin(0.5 * np.pi * u[:, 0])])
    else:
        found = ndtri(0.5 + 0.5 * np.minimum(u, 1 - 1e-12))
    found = np.maximum(found, 1e-12)
    return np.maximum(found / found.max(axis=1, keepdims=True), current().front.least)


def aimed(heights: Array, ray: Array) -> Array:
    """Each ray's function: heights (..., m), ray (..., m) -> (...)."""
    return np.asarray(
        (heights / ray).max(axis=-1) + current().front.augmented * heights.sum(axis=-1)
    )


def expected_gain(
    model: Model, x: Array, values: Array, reference: Array, rng: np.random.Generator
) -> float:
    """By how much points are expected to enlarge the hypervolume of a front.

    x: (q, d) the points, encoded. values: (n, m) of all outcomes, NaN unless ok. reference: (m,).
    """
    known = values[np.isfinite(values).all(axis=1)]
    front = known[on_front(known)]
    before = hypervolume(front, reference)
    count = DRAWS if values.shape[1] < current().front.many else DRAWS_OF_MANY
    bold = np.ones(count)
    with one_thread():
        drawn = [
            m.scale.to_objective(draw(m.objective, bold, rng)(x))
            for _, m in sorted(model.objectives.items())
        ]
        holds = rng.random((count, len(x))) < model.feasibility(x)
    gains = [
        hypervolume(np.concatenate([front, points[feasible]]), reference) - before
        for points, feasible in zip(np.stack(drawn, axis=-1), holds, strict=True)
    ]
    return float(np.mean(gains))
