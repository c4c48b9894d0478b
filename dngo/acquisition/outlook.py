"""The gain still to be expected, by functions drawn from the posterior: each is a guess of the true
function.

Each function gives the height of the best known point above its minimum, and the gain from the points of a
batch. What the model does not expect is missing from these numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dngo.acquisition.candidates import around, incumbents, uniform
from dngo.acquisition.history import History
from dngo.acquisition.minima import Box, descent_of, minima
from dngo.rules import current
from dngo.space import Space
from dngo.surrogates.data import TargetScale
from dngo.surrogates.draws import draw
from dngo.surrogates.model import Model
from dngo.surrogates.numerics import one_thread
from dngo.types import Array

KNOWN = 1000  # best points at which every function is evaluated
FURTHER = 5  # batches to look ahead
LEVELS = tuple(np.linspace(0.0, 1.0, 41).tolist())  # of the recorded distances
EXCLUDED = 1e6  # a target where a function must not have its minimum: above any function


@dataclass(frozen=True)
class Outlook:
    """In units of the objective.

    batch: expected improvement by the batch; further: by FURTHER batches, with this one. The points
    of later batches are minima of functions that are drawn now. distances: quantiles, at LEVELS, of
    the distance of the best
    point above the true optimum.
    """

    batch: float
    further: float
    distances: tuple[float, ...]

    def within(self, distance: float) -> float:
        """The probability that the best point lies at most this distance above the optimum."""
        return float(np.interp(distance, *_rising(self.distances), left=0.0, right=1.0))

    def distance(self, probability: float) -> float:
        """The distance above the optimum within which the best point lies with this probability."""
        return float(np.interp(probability, LEVELS, self.distances))


def _rising(distances: tuple[float, ...]) -> tuple[Array, Array]:
    """Each distance once, with its highest level."""
    values = np.array(distances)
    last = np.append(np.diff(values) > 0, True)
    return values[last], np.array(LEVELS)[last]


def look_ahead(
    model: Model,
    space: Space,
    history: History,
    picks: Array,
    *,
    rng: np.random.Generator,
) -> Outlook | None:
    """The expected gain of a batch `picks` (q, k), and of later ones; None before any outcome is ok."""
    if not model.objective or not np.isfinite(history.y).any():
        return None
    rules = current().outlook
    with one_thread():
        draws = draw(model.objective, np.ones(rules.functions), rng)
        known = history.v
        ranked = np.argsort(history.y, kind="stable")[: int(np.isfinite(history.y).sum())]
        good = known[ranked[:KNOWN]]
        best = good[:1]
        near = incumbents(known, history.y, rules.incumbents)
        shared = np.concatenate(
            [
                good,
                uniform(space, rules.uniform, rng),
                around(space, near, rules.local, rng),
                picks,
            ]
        )

        def excess(x: Array) -> Array:
            if not model.heeds_constraints:
                return np.zeros(len(x))
            return np.where(model.feasibility(x) < rules.feasible, EXCLUDED, 0.0)

        def own(v: Array) -> Array:
            x = space.encode(v.reshape(-1, v.shape[2]))
            return draws.own(x.reshape(*v.shape[:2], -1)) + excess(x).reshape(v.shape[:2])

        x = space.encode(shared)
        outside = excess(x)
        outside[: len(good)] = 0.0  # known to be feasible
        values, box = draws(x) + outside, Box.whole(space)
        descent = descent_of(space)
        found, values = minima(
            shared, values, own, rng, box=box, largest=descent.step_wide, rules=descent
        )
        here = draws(space.encode(best))[:, 0]
        gains = partial(_gains, model.scale, here)
        lowest = np.minimum(values[:, 0], here)
        of_batch = _of_batch(model, space.encode(picks), draws, rng)
        ahead = np.minimum(of_batch, _of_others(draws, space, found[:, 0], picks, rng))
    distances = np.quantile(gains(lowest), LEVELS)
    return Outlook(
        batch=float(gains(of_batch).mean()),
        further=float(gains(ahead).mean()),
        distances=tuple(float(d) for d in distances),
    )


def _gains(scale: TargetScale, here: Array, values: Array) -> Array:
    """How far values (functions,) are below those at the best point, in units of the objective."""
    # A transform may map targets far below all outcomes back to any value.
    known, found = (np.maximum(scale.to_objective(t), scale.lowest) for t in (here, values))
    return np.maximum(known - found, 0.0)


def _of_batch(
    model: Model, x: Array, draws: Callable[[Array], Array], rng: np.random.Generator
) -> Array:
    """The lowest feasible value of each function among points x (q, d): (functions,)."""
    if not len(x):
        return np.full(draws(np.zeros((1, x.shape[1]))).shape[0], EXCLUDED)
    values = draws(x)
    holds = rng.random(values.shape) < model.feasibility(x)
    return np.where(holds, values, EXCLUDED).min(axis=1)


def _of_others(
    draws: Callable[[Array], Array],
    space: Space,
    lowest: Array,
    picks: Array,
    rng: np.random.Generator,
) -> Array:
    """Each function's lowest value at the minima of other functions: (functions,). lowest:
    (functions, k), all minima.

    The others are as many as the points of FURTHER - 1 batches.
    """
    values = draws(space.encode(lowest))
    number = min((FURTHER - 1) * len(picks), len(values) - 1)
    chances = rng.random(values.shape)
    np.fill_diagonal(chances, 2.0)  # never its own
    kept = np.argsort(chances, axis=1)[:, :number]
    return np.take_along_axis(values, kept, axis=1).min(axis=1, initial=EXCLUDED)
