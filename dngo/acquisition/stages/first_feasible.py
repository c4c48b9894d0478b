"""The first stage, before any outcome is ok: it looks for a first feasible point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dngo.acquisition.allocation import led_nowhere, of_share
from dngo.acquisition.candidates import Candidates, around
from dngo.acquisition.picks import Pick
from dngo.acquisition.region_model import Penalty
from dngo.acquisition.shortlist import best_of
from dngo.acquisition.spacing import distances, gaps
from dngo.acquisition.stages.trust_regions import TrustRegions
from dngo.acquisition.standing import LOCAL
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.surrogates.model import Bounded, Model
from dngo.types import Array


class FirstFeasible:
    """A point's value: its probability of being feasible, times its distance from all points tried
    so far.

    Where such picks have found nothing, or the models expect none of them to be feasible, half of them
    search around the points that violate least.

    As long as the classifiers know nothing, this fills the space evenly. If a number is far from
    its bound, a point only has to come nearer than the least infeasible point. The tiny odds of
    reaching the bound itself would outweigh everything that the other constraints have taught.
    """

    name = "first_feasible"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if state.has_outcome:
            return
        if self._is_doubtful(state, number):
            yield from self._nearer(
                state, of_share(state.turn, number, current().feasibility.nearer)
            )
            number = min(number, state.left)
        pool = _candidates(state)
        if not len(pool):
            return
        space, history = state.space, state.history
        # The logarithm: the probabilities are zero in floating point if nothing comes near a
        # threshold.
        log_weight = state.model.log_progress(pool.x) + np.log(pool.rate)
        open_ = state.spacing.among(pool.v)
        picked = np.array([pick.v for pick in state.picks]).reshape(-1, space.k)
        tried = space.place(np.concatenate([history.v, history.pending, picked]), apart=1.0)
        gap = np.minimum(gaps(open_.u, tried), 1.0)
        for _ in range(min(number, len(pool))):
            log_gap = np.log(np.maximum(gap, 1e-300))
            scores = np.where(open_.free, log_weight + log_gap, -np.inf)
            best = int(np.argmax(scores))
            value, scores[best] = float(np.exp(scores[best])), -np.inf
            open_.take(best)
            other = float(np.exp(scores.max())) if len(scores) > 1 else -np.inf
            yield Pick(pool.v[best], value, f"candidate:{pool.source[best]}", other)
            gap = np.minimum(gap, distances(open_.u, open_.u[[best]])[:, 0])

    def _is_doubtful(self, state: BatchState, number: int) -> bool:
        """Whether the models have led nowhere, or expect no feasible point among so many picks."""
        likely = np.sort(state.model.feasibility(state.candidates.x))[-number:]
        return led_nowhere(state.history) or bool(likely.sum() < 1.0)

    def _nearer(self, state: BatchState, number: int) -> Iterator[Pick]:
        """Picks of trust regions around the points that violate least."""
        violation = _violation(state)
        if number == 0 or not np.isfinite(violation).any():
            return
        history = replace(state.history, y=violation, noise=np.full(len(violation), np.nan))
        v, sources = TrustRegions().points(
            history,
            number,
            state.streams[self.name],
            spacing=state.spacing.copy(),
            penalty=Penalty.of(replace(state, model=_flags(state.model))),
        )
        if not len(v):
            return
        values = np.exp(state.model.log_progress(state.space.encode(v)))
        for point, source, value in zip(v, sources, values, strict=True):
            yield Pick(point, float(value), f"{LOCAL}{source}")


def _flags(model: Model) -> Model:
    """The model without its bounded numbers. Every pick breaks some of these. The rest says where
    points crash."""
    flags = {n: one for n, one in model.classifiers.items() if not isinstance(one, Bounded)}
    return replace(model, classifiers=flags)


def _violation(state: BatchState) -> Array:
    """How far each finished point is from keeping all bounds, by the models of the numbers: (n,).

    It is NaN where a number is unknown, and everywhere if no number has a bound.
    """
    history, found = state.history, np.zeros(len(state.history.v))
    bounded = {
        name: one for name, one in state.model.classifiers.items() if isinstance(one, Bounded)
    }
    x = state.space.encode(history.v)
    for name, one in bounded.items():
        known = np.isfinite(history.constraints.get(name, np.full(len(x), np.nan)))
        found += np.where(known, one.violation(x), np.nan)
    return found if bounded else np.full(len(x), np.nan)


def _candidates(state: BatchState) -> Candidates:
    pool, space = state.candidates, state.space
    if state.model.heeds_constraints and len(pool):
        parents = pool.v[best_of(state.model.log_progress(pool.x), current().improvement.parents)]
        number, rng = current().improvement.children, state.streams["refinements"]
        pool.add(around(space, parents, number, rng), "local")
        pool.judge()
    return pool
