"""Monte Carlo expected improvement over functions drawn from all models.

Functions are drawn from the model of the whole space and from those of regions. Their minima are the
candidates. With the matrix of all functions at all candidates, a batch is chosen one point after
another: each pick adds most to what the batch gains on average over the functions, where a function
whose improvement an earlier pick has is served. That is expected improvement over everything pending
(Snoek et al. 2012, section 3.2; 2015, section 3.3), estimated by joint draws. With nothing pending
the first pick has the highest expected improvement. As a batch fills up, each pick serves the
functions that no earlier one serves, which is Thompson sampling. The gain of a batch is submodular,
so greedy picks reach 1 - 1/e of the best batch's (Wilson, Hutter and Deisenroth 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from dngo.acquisition.feasibility import least_of_draws, likely_enough, penalty
from dngo.acquisition.minima import AT_ONCE_WIDE, Box, descent_of, minima
from dngo.acquisition.spacing import Spacing
from dngo.acquisition.state import BatchState
from dngo.acquisition.wavering import Seen, Wavering
from dngo.errors import UserError
from dngo.objects import Reference, find
from dngo.rules import current
from dngo.surrogates.draws import draw
from dngo.surrogates.model import Model
from dngo.types import Array, Mask, Rows

# What a batch gains at a point, by a function: values (s, n) of functions at points, and the least
# value (s, 1) of each at known, pending and picked points -> (s, n), 0 or more. Low values are good.
Gain = Callable[[Array, Array], Array]
KNOWN = 1000  # best known points at which every function is evaluated


def improvement(values: Array, best: Array) -> Array:
    """How far functions lie below their best value so far."""
    return np.maximum(best - values, 0.0)


def own_gain(reference: Reference) -> Gain:
    """A gain that people wrote, its result checked."""
    function = find(reference)

    def gain(values: Array, best: Array) -> Array:
        found = np.asarray(function(values.copy(), best.copy()), dtype=float)
        if found.shape != values.shape or not np.isfinite(found).all():
            raise UserError(
                f"{reference.name}: must return a finite gain for each of {values.shape} values, and "
                f"returned an array of shape {found.shape}"
            )
        return np.maximum(found, 0.0)

    return gain


@dataclass(frozen=True)
class Drawn:
    """Functions drawn from one model, at what is known and at candidates.

    v: (c, k) candidates: the best points of each function. values: (s, c) of all functions there, in
    units of the objective, infinite where a drawn constraint is broken. best: (s,) the least value
    of each at known and pending points.
    """

    v: Array
    values: Array
    best: Array


def drawn(
    state: BatchState, count: int, rng: np.random.Generator, wavering: Wavering | None = None
) -> Drawn:
    """Functions of the whole space's model, and their candidates. wavering: of the inputs."""
    model, space, pool = state.model, state.space, state.candidates
    rows = state.shared_rows(count, rng, 1 if wavering is None else len(wavering.shifts))
    rules, own = descent_of(space), []
    functions = [
        Seen(draw(model.objective, np.ones(min(AT_ONCE_WIDE, count - i)), rng), space, wavering)
        for i in range(0, count, AT_ONCE_WIDE)
    ]
    starts = range(AT_ONCE_WIDE, count, AT_ONCE_WIDE)
    leasts = np.split(least_of_draws(state, count), starts)
    shared = []
    for some, least in zip(functions, leasts, strict=True):
        values = some(pool.v[rows])
        shared.append(values)
        points, _ = minima(
            pool.v[rows],
            values + penalty(pool.feasibility[rows], least[:, None]),
            _own(state, some, least),
            rng,
            box=Box.whole(space),
            largest=rules.step_wide,
            rules=rules,
        )
        own.append(points[:, : current().joint.minima].reshape(-1, space.k))
    known = _best_known(state)
    at_known = np.concatenate([some(known) for some in functions])
    # A pending point gains only if it turns out to be feasible.
    picked = np.array([pick.v for pick in state.picks]).reshape(-1, space.k)
    pending = np.concatenate([state.history.pending, picked])
    edges = {name: rng.random((count, 1)) for name in sorted(model.classifiers)}
    best = at_known.min(axis=1, initial=np.inf)
    if len(pending):  # people's models need not answer for no points
        at_pending = np.concatenate([some(pending) for some in functions])
        at_pending = _held(model, at_pending, space.encode(pending), edges)
        best = np.minimum(best, at_pending.min(axis=1))
    # The point of the highest expected improvement need not be the minimum of any function.
    gains = np.maximum(best[:, None] - np.concatenate(shared), 0.0).mean(axis=0)
    likely = gains * pool.feasibility[rows] * pool.rate[rows]
    top = rows[np.argsort(-likely, kind="stable")[: current().joint.by_mean]]
    v = np.concatenate([pool.v[top], *own])
    v = v[state.spacing.free(v)]
    _, first = np.unique(space.bits(v), axis=0, return_index=True)
    v = v[np.sort(first)]
    values = np.concatenate([some(v) for some in functions])
    values = _held(model, values, space.encode(v), edges)
    return Drawn(v, _in_units(model, values), _in_units(model, best))


def _own(state: BatchState, some: Seen, least: Array) -> Callable[[Array], Array]:
    """Each of s functions at its own points v (s, m, k): (s, m). It is high where the feasibility is
    below the function's least, (s,)."""

    def values(v: Array) -> Array:
        found = some.own(v)
        if state.model.heeds_constraints:
            x = state.space.encode(v.reshape(-1, v.shape[2]))
            found = found + penalty(state.model.feasibility(x).reshape(found.shape), least[:, None])
        return found

    return values


def _in_units(model: Model, targets: Array) -> Array:
    """Targets in units of the objective. A transform may map those far below all outcomes anywhere."""
    known = np.where(np.isfinite(targets), targets, 0.0)
    values = model.scale.to_objective(known)
    values = np.maximum(values, model.scale.lowest) if model.scale.is_bent else values
    return np.where(np.isfinite(targets), values, np.inf)


def _best_known(state: BatchState) -> Array:
    y = state.history.y
    ranked = np.argsort(y, kind="stable")[: min(int(np.isfinite(y).sum()), KNOWN)]
    return state.history.v[ranked]


def _held(model: Model, values: Array, x: Array, edges: Mapping[str, Array]) -> Array:
    """Values (s, n) at points x (n, d), infinite where the function's draw breaks a constraint.

    A draw of a constraint holds at all points above one level of the probability, its edge (s, 1). So
    one batch tries several edges, and what is pending has the same edge as the candidates around it.
    """
    for name, edge in edges.items():
        values = np.where(edge < model.classifiers[name].probability(x), values, np.inf)
    return values


@dataclass
class Batch:
    """Picks among the candidates of drawn functions, one after another.

    gain: see `Gain`. rate: (c,) a factor on the gains at each candidate, such as one over its cost.
    heeded: those of some candidates, (c,) to (c,), that are likely enough to hold all constraints.
    """

    functions: Drawn
    gain: Gain
    rate: Array
    spacing: Spacing
    heeded: Callable[[Mask], Mask] = field(default=lambda allowed: allowed)

    def __post_init__(self) -> None:
        self.open = self.spacing.among(self.functions.v)
        self.best = self.functions.best[:, None].copy()
        self.gains = self._gains(np.arange(len(self.best)))
        self.served = np.zeros(len(self.best), dtype=bool)

    def _gains(self, rows: Rows) -> Array:
        """What each candidate gains by each of some functions: (rows, c), 0 where it is infeasible."""
        values = self.functions.values[rows]
        finite = np.isfinite(values)
        found = self.gain(np.where(finite, values, 0.0), self.best[rows])
        return np.where(finite, found, 0.0)

    def next(self) -> tuple[int, float, float] | None:
        """The candidate that adds most, by how much, and what the second best would add. None if all
        are taken.

        If nothing adds anything, it is the best candidate of a function that is not served yet.
        """
        allowed: Mask = self.heeded(self.open.allowed)
        if not allowed.any():
            return None
        value = np.where(allowed, self.gains.mean(axis=0) * self.rate, -np.inf)
        i = int(np.argmax(value))
        if value[i] <= 0.0:
            waiting = np.flatnonzero(~self.served)
            s = int(waiting[0]) if len(waiting) else 0
            self.served[s] = True
            i = int(np.argmin(np.where(allowed, self.functions.values[s], np.inf)))
            i = i if allowed[i] else int(np.argmax(allowed))
        self._take(i)
        added, value[i] = float(value[i]), -np.inf
        second = float(value.max())
        return i, max(added, 0.0), second if np.isfinite(second) else np.nan

    def _take(self, i: int) -> None:
        self.open.take(i)
        new = self.functions.values[:, [i]]
        lower = np.flatnonzero(new < self.best)
        self.served |= (new < self.best)[:, 0]
        self.best = np.minimum(self.best, new)
        self.gains[lower] = self._gains(lower)


def chosen(
    state: BatchState,
    number: int,
    gain: Gain,
    rng: np.random.Generator,
    wavering: Wavering | None = None,
) -> Iterator[tuple[Array, float, float]]:
    """Up to `number` picks (k,), each with what it adds, and what the second best would have added."""
    rules, left = current().joint, number
    while left:
        count = int(np.clip(rules.for_each * left, rules.least, rules.most))
        functions = drawn(state, count, rng, wavering)
        if not len(functions.v):
            return
        x = state.space.encode(functions.v)
        heeded = _heeding(state, x)
        batch = Batch(functions, gain, state.rate(functions.v, x), state.spacing, heeded)
        for _ in range(min(left, count)):
            found = batch.next()
            if found is None:
                break
            left -= 1
            yield functions.v[found[0]], found[1], found[2]
        else:
            continue
        return


def _heeding(state: BatchState, x: Array) -> Callable[[Mask], Mask]:
    """Which of some candidates x (c, d) the next pick may take, by how likely they hold all constraints."""
    feasibility, least = state.model.feasibility(x), state.shared.min_feasibility
    everything = np.ones(len(x), dtype=bool)
    # If none that is likely enough is left, other functions have others.
    return lambda allowed: allowed & likely_enough(state, everything, feasibility, least)
