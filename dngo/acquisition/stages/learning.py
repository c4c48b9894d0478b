"""Picks from which a model learns most: of the whole function, or of where it crosses a level.

A pick takes variance away from the points around it, whatever its outcome. Its value is the mean
variance that it takes away over the whole space (integrated variance; Cohn, Ghahramani and Jordan
1996, "Active learning with statistical models"). For a level set each point of the space counts by
the probability that it is on the other side of the level than expected (targeted, as in Picheny,
Ginsbourger, Roustant, Haftka and Kim 2010). Pending points and earlier picks take theirs first, by
rank-one updates of the covariance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dngo.acquisition.candidates import uniform
from dngo.acquisition.feasibility import likely_enough
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.surrogates.model import Model
from dngo.types import Array

PLACES = 512  # where variance is to be taken away, and from how many candidates: memory


@dataclass(frozen=True)
class Learning:
    """All picks of a batch. level: in units of the objective, minimised; None: the whole function."""

    level: float | None = None
    name = "learning"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if not state.has_outcome or not len(state.candidates):
            return
        space, model, pool, rng = (
            state.space,
            state.model,
            state.candidates,
            state.streams["learning"],
        )
        rows = state.shared_rows(PLACES, rng)[: max(PLACES, 2 * number)]
        places = uniform(space, PLACES, rng)[:PLACES]
        pending, c = state.history.pending, len(rows)
        v = np.concatenate([pool.v[rows], pending, places])
        belief = Belief.of(model, space.encode(v))
        for i in range(len(pending)):
            belief.learn(c + i)
        open_ = state.spacing.among(pool.v[rows])
        level = None if self.level is None else float(model.scale.to_model(np.array(self.level)))
        weight = pool.feasibility[rows] * pool.rate[rows]
        for _ in range(min(number, c)):
            allowed = open_.allowed if open_.allowed.any() else open_.free
            if not allowed.any():
                return
            allowed = likely_enough(
                state, allowed, pool.feasibility[rows], state.shared.min_feasibility
            )
            value = belief.taken(c + len(pending), level)[:c] * weight
            i = int(np.argmax(np.where(allowed, value, -np.inf)))
            open_.take(i)
            belief.learn(i)
            yield Pick(pool.v[rows[i]], float(value[i]), f"learning:{pool.source[rows[i]]}")


@dataclass
class Belief:
    """The posterior of a model at points: mean (n,), covariance (n, n), and the noise's variance, in
    units of the targets."""

    mean: Array
    covariance: Array
    noise: float

    @classmethod
    def of(cls, model: Model, x: Array) -> Belief:
        """The moments of the mixture at x (n, d), encoded. What its members disagree about is
        variance as well."""
        total = sum(one.weight for one in model.objective)
        parts, covariance, noise = [], np.zeros((len(x), len(x))), 0.0
        for one in model.objective:
            z, share = one.features(x), one.weight / total
            means, _ = one.latent(z)
            parts += [(share / len(means), mean) for mean in means]
            covariance += share * one.posterior_covariance(z, z).mean(axis=0)
            noise += share * float(np.mean(one.noise))
        mean = np.sum([share * part for share, part in parts], axis=0)
        for share, part in parts:
            covariance += share * np.outer(part - mean, part - mean)
        return cls(mean, covariance, noise)

    def taken(self, first: int, level: float | None) -> Array:
        """The variance that an outcome at each point takes away, on average over the points from
        `first` on: (n,)."""
        spread = np.diagonal(self.covariance)
        share = (
            self.covariance[:, first:] ** 2
            / (np.maximum(spread, 0.0) + self.noise + 1e-12)[:, None]
        )
        if level is None:
            return np.asarray(share.mean(axis=1))
        deviation = np.sqrt(np.maximum(spread[first:], 1e-12))
        wrong = ndtr(-np.abs(self.mean[first:] - level) / deviation)
        return np.asarray(share @ wrong) / len(wrong)

    def learn(self, i: int) -> None:
        """Take away what an outcome at point i tells."""
        column = self.covariance[:, i].copy()
        self.covariance -= np.outer(column, column) / (max(column[i], 0.0) + self.noise + 1e-12)
