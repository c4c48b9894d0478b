"""Picking a batch: local picks, then greedy ones, then draws.

A share of the batch goes to trust regions (`endgame`). The next picks each maximise Monte Carlo
expected improvement (or another measure of it, or that per cost) given everything pending, which
then includes the pick (`lazy`). Where the expected improvement has vanished, the rest of the batch
are minima of functions drawn from the same posterior. Without any ok outcome see `search`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from dngo.acquisition import candidates as cand
from dngo.acquisition import endgame
from dngo.acquisition.ascent import climb
from dngo.acquisition.batch import Batch, Picks
from dngo.acquisition.history import History
from dngo.acquisition.improvement import (
    Fantasies,
    Measure,
    expected_improvement,
    lower_bound_improvement,
    probability_of_improvement,
)
from dngo.acquisition.lazy import Lazy, best_of, weigh
from dngo.acquisition.search import search
from dngo.acquisition.thompson import CHUNK as DRAWN
from dngo.acquisition.thompson import Draws
from dngo.space import Space
from dngo.surrogates.model import Model
from dngo.surrogates.numerics import Progress, child, one_thread

Array = NDArray[np.float64]

BOUNDARY_SHARE = 0.25  # of min_feasibility, that a pick on the boundary must have
CHUNK = 2048  # candidates evaluated at once when all are
GREEDY_LIMIT = 1000  # picks by MCEI; later ones are draws, whose cost does not grow
OUT_OF_BOUNDS = 1e6  # penalty, in deviations of the targets, where feasibility is too low
MOST_DOUBT = 64.0  # times its deviations
LAST = -1e300  # a score below all others
PARENTS, CHILDREN = 16, 512  # of a refinement: the best so far, and how many new ones near them


def propose_batch(
    model: Model,
    space: Space,
    history: History,
    *,
    size: int,
    settings: Any,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Batch:
    """Up to `size` points to evaluate next, distinct from each other and from all that is known.

    history: its objective is NaN unless a point is ok. Fewer than `size` points come back only when
    a discrete space has no more.

    With an ok outcome: a share of picks in trust regions, and constraint-weighted MCEI, (11) and
    (12), for the others. Weighting alone is not enough: near an optimum on the edge of the feasible
    region the improvement promised beyond the edge outweighs any probability. So a pick must also
    have a feasibility of at least `min_feasibility`; one in every `boundary_every` only a quarter
    of that, so that a boundary drawn too tightly is corrected.

    With `per`, all of these times the expected inverse cost (Snoek et al. 2012, section 3.2).

    Without any ok outcome: the probability of holding all constraints times the distance to
    everything known; with classifiers that know nothing yet that is a space-filling design.
    """
    if size < 0:
        raise ValueError(f"size must not be negative, and is {size}")
    with one_thread():
        if model.objective and np.isfinite(history.y).any():
            picks = _Improve(model, space, history, size, settings, rng, progress).run()
        else:
            picks = search(model, space, history, size, settings, rng)
        v = np.array(picks.v).reshape(-1, space.k)
        x = space.encode(v) if len(v) else np.empty((0, space.d))
        mean, std = model.predict(x) if len(v) else (np.empty(0), np.empty(0))
        feasibility = model.feasibility(x) if len(v) else np.empty(0)
    if progress is not None:
        progress(1.0, f"proposed {len(v)} points")
    return Batch(
        v=v,
        value=np.array(picks.value),
        mean=mean,
        std=std,
        feasibility=feasibility,
        num_pending=history.num_pending + np.arange(len(v)),
        runner_up=np.array(picks.runner_up),
        source=tuple(picks.source),
    )


class _Improve:
    """The picks of one batch, given that some outcome is ok."""

    def __init__(
        self,
        model: Model,
        space: Space,
        history: History,
        size: int,
        settings: Any,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> None:
        self.model, self.space, self.settings = model, space, settings
        self.history, self.size, self.progress = history, size, progress
        self.streams = [child(rng) for _ in range(5)]
        y = history.y
        best = float(np.min(model.scale.to_model(y[np.isfinite(y)])))
        self.fantasies = Fantasies(
            model.objective,
            best,
            settings.fantasies,
            self.streams[0],
            noisy=settings.noisy_improvement,
            measure=_measure(settings),
        )
        self._condition(history.pending)
        self.crowd = endgame.Crowd(space, history, settings.spacing)
        self.picks = Picks()
        # Counted over the study, so that picks made one at a time take their turn as well.
        self.turn = len(y) + history.num_pending

    def run(self) -> Picks:
        self._local()
        left = self.size - len(self.picks.v)
        if left:
            pool, scores, feasibility, rate = self._candidates(left)
            if len(pool.v):
                used = np.zeros(len(pool.v), dtype=bool)
                if self.settings.kind != "thompson":
                    count = min(left, GREEDY_LIMIT)
                    self._greedy(pool, scores, feasibility, rate, used, count)
                self._draw(pool, feasibility, rate, used)
        return self.picks

    def _local(self) -> None:
        """The share of the batch that goes to trust regions."""
        usual, block = self.settings.trust_region_share, max(2 * self.space.k, 8)
        u = self.space.unit(self.history.v)
        y, batch = self.history.y, self.history.iteration
        share = endgame.share(u, y, batch, max(self.size, block), usual)
        local = int(np.floor((self.turn + self.size) * share) - np.floor(self.turn * share))
        if self.model.heeds_constraints:
            # One at a time, a pick on the boundary would else never have its turn.
            local = min(local, self.size - self._boundary_picks)
        if local == 0:
            return
        least = self._strict

        def penalty(v: Array) -> Array:
            if not self.model.heeds_constraints:
                return np.zeros(len(v))
            p = self.model.feasibility(self.space.encode(v))
            return np.where(p < least, OUT_OF_BOUNDS * (1.0 + least - p), 0.0)

        v = endgame.pick(
            self.space,
            self.history,
            local,
            max(local, block),
            self.streams[3],
            crowd=self.crowd,
            penalty=penalty,
        )
        if len(v):
            # Their expected improvement is noted, though they were not picked by it.
            for point, value in zip(v, self._condition(v), strict=True):
                self.picks.take(point, value, float("nan"), "local:thompson")

    def _condition(self, v: Array) -> list[float]:
        """Make points pending one after another; each one's value just before."""
        if len(v) == 0:
            return []
        x = self.space.encode(v)
        probability = self.model.feasibility(x)
        weight = probability * self.model.inverse_cost(x)
        features = self.fantasies.features(x)
        values = []
        for j in range(len(v)):
            value = weigh(self.fantasies.improvement(features[:, [j]]), weight[[j]])[0]
            values.append(float(value))
            self.fantasies.condition(features[:, j], float(probability[j]))
        return values

    def _candidates(self, left: int) -> tuple[cand.Pool, Array, Array, Array]:
        """Distinct new candidates, their scores, feasibilities and expected inverse costs."""
        space, settings, model = self.space, self.settings, self.model
        pool = cand.Pool(space, self.crowd.known)
        centres = cand.incumbents(space, self.history.v, self.history.y, settings.incumbents)
        many = max(settings.uniform_candidates, 2 * left)
        pool.add(cand.uniform(space, many, self.streams[1]), "uniform")
        pool.add(cand.neighbours(space, centres), "neighbour")
        pool.add(cand.around(space, centres, settings.local_candidates, self.streams[1]), "local")
        x = space.encode(pool.v) if len(pool.v) else np.empty((0, space.d))
        feasibility, rate = model.feasibility(x), model.inverse_cost(x)
        if settings.kind == "thompson":
            return pool, np.zeros(len(pool.v)), feasibility, rate
        if len(x):
            self._doubt(x[:: max(1, len(x) // CHUNK)])
        scores = weigh(_score_all(self.fantasies, x), feasibility * rate)
        # Shrinking steps find the hill, and its gradient then the top.
        for round_ in range(settings.refinements + 1 if len(pool.v) else 0):
            gated = _gate(scores, feasibility, settings)
            if round_ < settings.refinements:
                parents, largest = pool.v[best_of(gated, PARENTS)], 0.1 * 0.3**round_
                near = cand.around(space, parents, CHILDREN, self.streams[2], largest=largest)
                added = space.encode(pool.add(near, "refined"))
            else:
                tops = climb(space, pool.v, gated, settings.ascents, self._value)
                added = space.encode(pool.add(tops, "ascent"))
            if len(added):
                probability, fast = model.feasibility(added), model.inverse_cost(added)
                value = weigh(_score_all(self.fantasies, added), probability * fast)
                feasibility = np.concatenate([feasibility, probability])
                rate = np.concatenate([rate, fast])
                scores = np.concatenate([scores, value])
        return pool, scores, feasibility, rate

    def _value(self, v: Array) -> Array:
        """The acquisition at points v (n, k), weighted as a candidate's is: (n,)."""
        x = self.space.encode(v)
        weight = self.model.feasibility(x) * self.model.inverse_cost(x)
        return weigh(_score_all(self.fantasies, x), weight)

    def _doubt(self, x: Array) -> None:
        """Where the model is sure that x (n, d) can gain nothing, take it to be overconfident.

        Its deviations are doubled until something is worth a pick. In every other batch only: the
        model may be right, and what little it promises is then worth having.
        """
        settings = self.settings
        if (settings.kind, getattr(settings, "when_vanished", None)) != ("mcei", "thompson"):
            return
        if self.turn // self.size % 2 == 0:
            return
        features = self.fantasies.features(x)
        vanished = self.settings.vanishing * float(self.fantasies.deviation(features).max())
        while self.fantasies.doubt < MOST_DOUBT:
            if self.fantasies.improvement(features).max() >= vanished:
                return
            self.fantasies.doubt *= 2.0

    def _greedy(
        self,
        pool: cand.Pool,
        scores: Array,
        feasibility: Array,
        rate: Array,
        used: NDArray[np.bool_],
        count: int,
    ) -> None:
        """Up to `count` picks by MCEI or its like; stops where its value has vanished."""
        space, settings = self.space, self.settings
        size = max(settings.shortlist, 10 * count)
        keep = _shortlist(pool, scores, feasibility, size, settings)
        features = self.fantasies.features(space.encode(pool.v[keep]))
        lazy = Lazy(self.fantasies, features, scores[keep], feasibility[keep], rate[keep])
        u = space.unit(pool.v[keep])
        crowded = np.zeros(len(keep), dtype=bool)
        if self.crowd.size:
            crowded = cand.distances(u, self.crowd.u[: self.crowd.size]).min(axis=1)
            crowded = crowded < settings.spacing
        vanished = getattr(settings, "vanishing", 0.0)
        if settings.kind == "mcei":
            vanished *= float(self.fantasies.deviation(features[:, :256]).max())
        elif settings.kind == "lcb":
            vanished = -np.inf  # its order means something below the incumbent's bound, too
        first = len(self.picks.v)
        for i in range(min(count, len(keep))):
            allowed = ~lazy.taken & ~crowded
            if not allowed.any():
                return
            allowed = self._heed(allowed, lazy.feasibility, self.turn + first + i)
            explores = getattr(settings, "when_vanished", None) == "explore"
            pick, found = lazy.pick, "candidate"
            if (self.fantasies.pending > 0 or explores) and lazy.highest(allowed) < vanished:
                if not explores:
                    return
                pick, found = lazy.explore, "explore"
            j, value, runner_up = pick(allowed)
            used[keep[j]] = True
            v = pool.v[keep[j]]
            self.crowd.add(v[None], u[[j]])
            self.picks.take(v, value, runner_up, f"{found}:{pool.source[keep[j]]}")
            crowded |= cand.distances(u, u[j : j + 1])[:, 0] < settings.spacing
            if self.progress is not None and i % 16 == 15:
                done = len(self.picks.v)
                self.progress(done / self.size, f"picked {done} of {self.size} points")

    def _draw(
        self, pool: cand.Pool, feasibility: Array, rate: Array, used: NDArray[np.bool_]
    ) -> None:
        """The rest of the batch by Thompson sampling among the candidates of the pool."""
        if len(self.picks.v) >= self.size:
            return
        space, least = self.space, self.settings.spacing
        rows = np.flatnonzero(~used)
        v, feasibility, rate = pool.v[rows], feasibility[rows], rate[rows]
        draws = Draws(self.model.objective, space.encode(v), self.streams[4])
        free = np.ones(len(rows), dtype=bool)
        far = free.copy()  # those that keep their distance
        u = space.unit(v)
        tree = cKDTree(u)
        radius = least * np.sqrt(max(space.k, 1)) * (1 - 1e-9)
        if least > 0 and self.crowd.size:
            for near in tree.query_ball_point(self.crowd.u[: self.crowd.size], radius):
                far[near] = False
        best = self.fantasies.incumbent
        while len(self.picks.v) < self.size and free.any():
            for value in draws(min(DRAWN, self.size - len(self.picks.v))):
                allowed = free & far
                if not allowed.any():
                    allowed = free
                turn = self.turn + len(self.picks.v)
                allowed = self._heed(allowed, feasibility, turn, self._strict)
                value = np.where(allowed, value, np.inf)
                ranked = value if self.settings.per is None else -weigh(best - value, rate)
                i = int(np.argmin(ranked))
                if not allowed[i]:
                    # A process is drawn at some points only, and these are used up.
                    i = int(np.argmax(allowed))
                if not allowed[i]:
                    return
                free[i] = False
                if least > 0:
                    far[tree.query_ball_point(u[i], radius)] = False
                # What the function drawn gains there on the incumbent.
                gain = best - float(value[i]) if np.isfinite(value[i]) else 0.0
                self.picks.take(v[i], max(gain, 0.0), float("nan"), "thompson")
            if self.progress is not None:
                done = len(self.picks.v)
                self.progress(done / self.size, f"picked {done} of {self.size} points")

    @property
    def _boundary_picks(self) -> int:
        """How many of this batch ask less feasibility."""
        every = self.settings.boundary_every
        return (self.turn + self.size) // every - self.turn // every if every > 0 else 0

    @property
    def _strict(self) -> float:
        """The least feasibility of a pick that minimises a function drawn.

        More than of one by MCEI, which is weighted by it: minima lie on the boundary wherever the
        objective falls towards it, and half of them on its wrong side if any probability over a
        half would do.
        """
        return float(np.sqrt(self.settings.min_feasibility))

    def _heed(
        self,
        allowed: NDArray[np.bool_],
        feasibility: Array,
        turn: int,
        least: float | None = None,
    ) -> NDArray[np.bool_]:
        """Those allowed that are likely enough to be feasible; less is asked at every nth turn."""
        if not self.model.heeds_constraints:
            return allowed
        least = self.settings.min_feasibility if least is None else least
        every = self.settings.boundary_every
        if every > 0 and turn % every == every - 1:
            least = self.settings.min_feasibility * BOUNDARY_SHARE
        return _heed(allowed, feasibility, least)


def _measure(settings: Any) -> Measure:
    if settings.kind == "pi":
        return probability_of_improvement
    return (
        lower_bound_improvement(settings.kappa) if settings.kind == "lcb" else expected_improvement
    )


def _heed(allowed: NDArray[np.bool_], feasibility: Array, least: float) -> NDArray[np.bool_]:
    """Those allowed candidates that are likely enough to be feasible; never none of them.

    Where none reaches `least`, those that come close to the likeliest.
    """
    if not allowed.any():
        return allowed
    highest = float(feasibility[allowed].max())
    return allowed & (feasibility >= min(least, 0.9 * highest))


def _gate(scores: Array, feasibility: Array, settings: Any) -> Array:
    """Scores with the candidates that `min_feasibility` rules out last."""
    heeded = _heed(np.ones(len(scores), dtype=bool), feasibility, settings.min_feasibility)
    return np.where(heeded, scores, LAST)


def _shortlist(
    pool: cand.Pool,
    scores: Array,
    feasibility: Array,
    size: int,
    settings: Any,
) -> NDArray[np.intp]:
    """Indices of the candidates that the picks of a batch choose among, at most `size`.

    A half are the best of all that `min_feasibility` allows. A quarter are the best of the uniform
    ones of those: without them a batch that has used up one hill finds nothing else on its list.
    The last quarter are the best of all, for the picks on the boundary.
    """
    gated = _gate(scores, feasibility, settings)
    everywhere = np.array([source == "uniform" for source in pool.source])
    parts = [
        best_of(gated, size // 2),
        best_of(np.where(everywhere, gated, 2.0 * LAST), size // 4),
        best_of(scores, size // 4),
    ]
    return np.unique(np.concatenate(parts))


def _score_all(fantasies: Fantasies, x: Array) -> Array:
    chunk = CHUNK if fantasies.pending == 0 else CHUNK // 8
    parts = [
        fantasies.improvement(fantasies.features(x[i : i + chunk])) for i in range(0, len(x), chunk)
    ]
    return np.concatenate(parts) if parts else np.empty(0)
