"""The part of a space that keeps the known constraints: its points drawn, and others moved into it.

Everything here works on two forms of a point: natural values `v` (n, k), and the coordinates `u`
(n, k) of the unit cube that `Space` decodes. Draws are uniform in `u` over the feasible part:

1. Uniform coordinates are decoded. A mixture (`x1 + x2 + x3 == 1`) is decoded to uniform points of
   its simplex by spacings of exponentials (Devroye 1986, section V.2), so that none is lost. Where
   other equalities hold, one column for each is solved for, so that they hold to the last digits.
2. Points that keep every condition are kept; this is exact. Where few do, the others come from
   hit and run (Smith 1984) from points that did: along a random line, uniform on the part of it that
   is feasible, found by shrinking towards the point as in slice sampling (Neal 2003, section 4.1).
   It asks no more of a condition than whether it holds, so linear ones, others and grids are alike.

A point that breaks a condition is moved by projections onto the conditions in turn, linear ones
exactly and others along their slope, then rounded to the grids of its parameters and solved for the
equalities. What still breaks a condition is drawn towards the nearest of a set of feasible points.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dngo.errors import UserError
from dngo.space.columns import between, edges, nearest, to_coordinate
from dngo.space.expressions import RELATIVE, Condition, Linear
from dngo.types import Array

if TYPE_CHECKING:
    from dngo.space.space import Space

Mask = np.ndarray

DRAWN = 4096  # points that the feasible part is looked for with
ENOUGH, KEPT = 64, 1024  # drawn points that are enough to walk on from, and how many are kept
CHAINS, LONGEST = 128, 800  # where too few were drawn: chains of hit and run, and their steps
SHRINKS = 30  # of a line, after which a chain stays where it is
SNAPSHOTS = 8  # points taken from one chain
PROJECTIONS = 30  # rounds over the conditions
OVERSHOOT = 1.02  # of a step along a slope, which is straight only to begin with
# Sets of columns that the equalities are solved for, one after another, and sets looked at for them.
MOST_SETS, MOST_TRIED = 24, 5000
TOWARDS = 2.0 ** -np.array([34, 30, 26, 22, 18, 15, 12, 10, 8, 6, 5, 4, 3, 2, 1, 0.4])
BUSY = 512  # rows that are compared with all feasible points at once


class Feasible:
    """The points of a space that keep its conditions.

    Nothing is drawn before it is needed: to ask `holds` costs no more than the conditions do.
    Raises UserError, once something is drawn, if no feasible point can be found.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.conditions: tuple[Condition, ...] = space.conditions
        self.columns = space.columns
        self.equalities = _independent(self.conditions)
        self._forms = [c.linear for c in self.equalities if c.linear]
        self.curved = any(c.gap and not c.linear for c in self.conditions)
        self.atoms = _atoms(self.conditions)
        self.ordered = np.array([c.choices is None for c in self.columns])
        limits = [to_coordinate(c, np.array([c.low, c.high])) for c in self.columns]
        self.lowest, self.highest = np.array(limits).reshape(-1, 2).T
        self._solved: dict[bytes, list[tuple[int, ...]]] = {}

    def holds(self, v: Array) -> Mask:
        """Where every condition holds: v (n, k) -> (n,) bool."""
        ok = np.ones(len(v), dtype=bool)
        for condition in self.conditions:
            ok &= condition.holds(v)
        return ok

    def share(self, exponent: int = 14) -> float:
        """The share of the space that is feasible, estimated from 2^exponent points."""
        from scipy.stats import qmc

        engine = qmc.Sobol(self.space.k, scramble=True, rng=np.random.default_rng(0))
        return float(self.holds(self.space.decode(engine.random_base2(exponent))).mean())

    def find(self) -> None:
        """Find feasible points; raises UserError if that fails."""
        _ = self._known

    # ---- drawing --------------------------------------------------------------------------------

    def sample(self, u: Array) -> Array:
        """Feasible points for points u (n, k) of the unit cube: (n, k).

        What u decodes to, where that is feasible. The other rows are uniform over the feasible
        part, by a random stream that u alone decides: the same u, the same points.
        """
        v = self._decode(u)
        lost = np.flatnonzero(~self.holds(v))
        if len(lost):
            digest = hashlib.blake2b(np.ascontiguousarray(u).tobytes(), digest_size=16).digest()
            rng = np.random.default_rng(int.from_bytes(digest, "big"))
            if self.curved:  # a line has no feasible part, but almost every point a near one
                v[lost] = self.repair(v[lost])
            else:
                v[lost] = self._decode(self._walk_on(len(lost), rng))
        return v

    def _decode(self, u: Array) -> Array:
        """Natural values at coordinates u (n, k), on the mixtures and the other equalities."""
        u = np.array(u)
        at: dict[int, Mask] = {}
        for j in self.atoms:
            # Half of the mass of such a column is at its atom.
            at[j] = u[:, j] < 0.5
            u[:, j] = np.where(at[j], u[:, j], 2.0 * u[:, j] - 1.0)
        v = self.space.decode(u)
        for j, value in self.atoms.items():
            v[:, j] = np.where(at[j] & ~np.isnan(v[:, j]), value, v[:, j])
        for linear in self._simplices:
            self._on_simplex(linear, u, v, at)
        return self._solve(v, first=True)

    @cached_property
    def _simplices(self) -> list[Linear]:
        """The equalities that are mixtures: positive amounts from some lowest on, with one sum."""
        found: list[Linear] = []
        for linear in self._forms:
            named = linear.named
            a = linear.coefficients[named] * np.sign(linear.coefficients[named[0]])
            columns = [self.columns[j] for j in named]
            plain = all(
                c.kind in ("float", "int") and not c.log and not c.conditions for c in columns
            )
            mixed = any(set(named) & set(other.named) for other in found)
            room = linear.bound - linear.coefficients[named] @ [c.low for c in columns]
            if plain and len(named) > 1 and np.all(a > 0) and not mixed and room * a[0] != 0:
                found.append(linear)
        return found

    def _on_simplex(self, linear: Linear, u: Array, v: Array, at: dict[int, Mask]) -> None:
        """Replace the amounts of a mixture by those that u (n, k) decodes to, in v (n, k)."""
        named = linear.named
        a, low = linear.coefficients[named], np.array([self.columns[j].low for j in named])
        weight = -np.log1p(-np.clip(u[:, named], 1e-15, 1 - 1e-15))
        for i, j in enumerate(named):
            if j in at:
                weight[:, i] = np.where(at[j], 0.0, weight[:, i])
        total = weight.sum(axis=1, keepdims=True)
        amount = weight / np.where(total > 0, total, 1.0) * (linear.bound - a @ low) / a
        for i, j in enumerate(named):
            v[:, j] = nearest(self.columns[j], low[i] + amount[:, i])

    def _latent(self, v: Array) -> Array:
        """Coordinates u (n, k) that decode to the points v (n, k), but for what is solved for."""
        u = self.space.unit(v)
        for j, column in enumerate(self.columns):
            if column.kind in ("grid", "categorical"):
                value = np.where(np.isnan(v[:, j]), column.default, v[:, j])
                index = value if column.values is None else np.searchsorted(column.values, value)
                u[:, j] = (index + 0.5) / (column.levels or 1)
        for linear in self._simplices:
            named = linear.named
            a, low = linear.coefficients[named], [self.columns[j].low for j in named]
            share = a * (v[:, named] - low) / (linear.bound - a @ low)
            u[:, named] = -np.expm1(-np.maximum(share, 0.0) * len(named))
        for j, atom in self.atoms.items():
            u[:, j] = np.where(v[:, j] == atom, 0.25, 0.5 + 0.5 * u[:, j])
        return np.clip(u, 0.0, np.nextafter(1.0, 0.0))

    @cached_property
    def _known(self) -> tuple[Array, Array]:
        """Feasible points spread over the feasible part: coordinates that decode to them, values.

        They are a part of the space, the same for every study of it: hence a stream of their own.
        """
        from scipy.stats import qmc

        rng = np.random.default_rng(0)
        engine = qmc.Sobol(self.space.k, scramble=True, rng=rng)
        u = engine.random_base2(int(np.log2(DRAWN)))
        v = self._decode(u)
        kept = u[self.holds(v)][:KEPT]
        if len(kept) < ENOUGH:
            started = self._latent(np.concatenate([self._by_programme(), self._projected(v)]))
            starts = np.concatenate([kept, started[self.holds(self._decode(started))]])
            if len(starts) == 0:
                raise UserError(self._none_found(v))
            starts = starts[np.arange(CHAINS) % len(starts)]
            steps = min(40 * self.space.k, LONGEST)
            kept = np.concatenate([*self._walk(starts, steps, 2 * self.space.k, rng)])
        return kept, self._decode(kept)

    def _none_found(self, v: Array) -> str:
        least = min(self.conditions, key=lambda c: float(c.holds(v).mean()))
        return (
            f"space_constraints: no point that keeps all of them was found among {len(v)} and "
            f"by moving these towards it; {least.text!r} alone holds at "
            f"{int(least.holds(v).sum())} of them: widen it, or the ranges of its parameters"
        )

    def _by_programme(self) -> Array:
        """A point far from the bounds of the linear conditions, (1, k) or none, by HiGHS.

        Raises UserError if their linear parts have no common point: that is then proven.
        """
        forms = [
            c
            for c in self.conditions
            if c.linear and not any(self.columns[j].conditions for j in c.columns)
        ]
        if not forms:
            return np.empty((0, self.space.k))
        # Values in units of each column's range, or numbers of steps; the last unknown is the
        # distance from the bounds.
        low = np.array([c.low for c in self.columns])
        unit = np.array([c.step or (c.high - c.low) or 1.0 for c in self.columns])
        whole = np.array([c.step is not None and c.kind in ("int", "float") for c in self.columns])
        top = [
            c.levels - 1.0 if w and c.levels else 1.0
            for c, w in zip(self.columns, whole, strict=True)
        ]
        rows, least, most = [], [], []
        for c in forms:
            assert c.linear is not None
            a = c.linear.coefficients * unit
            bound = c.linear.bound - c.linear.coefficients @ low
            size = RELATIVE * max(
                abs(c.linear.bound), float(np.abs(c.linear.coefficients) @ low), 1
            )
            rows.append([*a, 0.0 if c.linear.equality else float(np.linalg.norm(a))])
            most.append(bound + (0.0 if c.linear.equality else size))
            least.append(bound if c.linear.equality else -np.inf)
        # What evaluates imports this module, and no scipy.
        from scipy.optimize import Bounds, LinearConstraint, milp

        found = milp(
            c=[*np.zeros(len(low)), -1.0],
            constraints=LinearConstraint(np.array(rows), least, most),
            bounds=Bounds(np.zeros(len(low) + 1), [*top, 1.0]),
            integrality=[*whole.astype(int), 0],
            options={"node_limit": 1000},
        )
        if found.status == 2:
            named = ", ".join(repr(t) for t in dict.fromkeys(c.text for c in forms))
            raise UserError(f"space_constraints: no point of the space keeps all of {named}"[:500])
        if found.x is None:
            return np.empty((0, self.space.k))
        return self._settled(low + unit * found.x[None, :-1])

    def _walk_on(self, size: int, rng: np.random.Generator) -> Array:
        """Coordinates (size, k) of points that are uniform over the feasible part."""
        known, _ = self._known
        chains = -(-size // SNAPSHOTS)
        starts = known[rng.integers(0, len(known), chains)]
        found = list(self._walk(starts, 2 * self.space.k + 8, max(self.space.k // 2, 2), rng))
        return np.concatenate(found)[:size]

    def _walk(self, u: Array, steps: int, apart: int, rng: np.random.Generator) -> Iterator[Array]:
        """Hit and run from feasible coordinates u (n, k): after `steps`, then every `apart` of them."""
        u = u.copy()
        for step in range(1, steps + (SNAPSHOTS - 1) * apart + 1):
            direction = rng.standard_normal(u.shape)
            # Half of the lines change a few parameters only: grids are hard to cross otherwise.
            some = rng.random(u.shape) < rng.random((len(u), 1))
            direction *= np.where(rng.random((len(u), 1)) < 0.5, some, True)
            self._hit(u, direction, rng)
            if step >= steps and (step - steps) % apart == 0:
                yield u.copy()

    def _hit(self, u: Array, direction: Array, rng: np.random.Generator) -> None:
        """Move each row of u (n, k) to a uniform point of the feasible part of its line."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.stack([-u / direction, (1.0 - u) / direction])
        ends = np.where(direction == 0, [[[-np.inf]], [[np.inf]]], ends)
        first, last = ends.min(axis=0).max(axis=1), ends.max(axis=0).min(axis=1)
        rows = np.flatnonzero(np.isfinite(first) & np.isfinite(last))
        for _ in range(SHRINKS):
            if len(rows) == 0:
                return
            t = first[rows] + rng.random(len(rows)) * (last[rows] - first[rows])
            tried = np.clip(u[rows] + t[:, None] * direction[rows], 0.0, np.nextafter(1.0, 0.0))
            ok = self.holds(self._decode(tried))
            u[rows[ok]] = tried[ok]
            rows, t = rows[~ok], t[~ok]
            first[rows] = np.where(t < 0, t, first[rows])
            last[rows] = np.where(t < 0, last[rows], t)

    # ---- moving into it -------------------------------------------------------------------------

    def repair(self, v: Array) -> Array:
        """Points of the space v (n, k), with those that break a condition moved to where all hold.

        Not far, though not to the very nearest point: see the head of this module.
        """
        broken = np.flatnonzero(~self.holds(v))
        if len(broken) == 0:
            return v
        v = v.copy()
        v[broken] = self._projected(v[broken])
        for rows in np.split(broken, range(BUSY, len(broken), BUSY)):
            still = rows[~self.holds(v[rows])]
            if len(still):
                v[still] = self._drawn_towards(v[still])
        return v

    def _drawn_towards(self, v: Array) -> Array:
        """Points v (n, k) moved towards the nearest feasible ones known, no farther than needed."""
        _, known = self._known
        u, targets = self.space.unit(v), self.space.unit(known)
        nearest_one = ((u[:, None, :] - targets[None]) ** 2).sum(axis=2).argmin(axis=1)
        goal, v = targets[nearest_one], v.copy()
        left = np.arange(len(v))
        for share in TOWARDS:
            here = u[left] + share * (goal[left] - u[left])
            here[:, ~self.ordered] = u[left][:, ~self.ordered]
            tried = self._settled(self._between(here))
            ok = self.holds(tried)
            v[left[ok]] = tried[ok]
            left = left[~ok]
            if len(left) == 0:
                return v
        v[left] = known[nearest_one[left]]
        return v

    def _projected(self, v: Array) -> Array:
        """Points v (n, k) after projections onto the conditions, on their grids; some still break."""
        u = self.space.unit(v)
        inactive = np.isnan(v)
        frozen = ~self.ordered | inactive
        rows = np.arange(len(v))  # those that still move
        for _ in range(PROJECTIONS):
            before, now, still = u[rows], u[rows], frozen[rows]
            for condition in self.conditions:
                here = self._between(now)
                here[inactive[rows]] = np.nan
                if condition.most is not None:
                    now, still = self._fewest(condition, here, now, still)
                else:
                    now = now - self._step(condition, here, now, still)
            now = np.clip(now, self.lowest, self.highest)
            u[rows], frozen[rows] = now, still
            rows = rows[np.abs(now - before).max(axis=1, initial=0.0) > 1e-12]
            if len(rows) == 0:
                break
        here = self._between(u)
        here[:, ~self.ordered] = v[:, ~self.ordered]
        return self._settled(here)

    def _step(self, condition: Condition, v: Array, u: Array, frozen: Mask) -> Array:
        """The step (n, k) in coordinates onto a condition, zero where it holds."""
        step = np.zeros_like(u)
        rows = np.flatnonzero(~np.isnan(v[:, list(condition.columns)]).any(axis=1))
        if condition.linear is not None:
            over = np.nan_to_num(v[rows]) @ condition.linear.coefficients - condition.linear.bound
            if not condition.linear.equality:
                rows, over = rows[over > 0], over[over > 0]
            slope = condition.linear.coefficients * self._rate(v[rows])
        else:
            rows = rows[condition.excess(v[rows]) > 0]
            measure = condition.gap or condition.excess
            over = measure(v[rows]) * (OVERSHOOT if condition.gap is None else 1.0)
            slope = self._slope(condition, v[rows], u[rows])
        slope = np.where(frozen[rows], 0.0, slope)
        length = (slope**2).sum(axis=1)
        ok = (length > 0) & np.isfinite(length) & np.isfinite(over)
        step[rows[ok]] = (over[ok] / length[ok])[:, None] * slope[ok]
        return step

    def _rate(self, v: Array) -> Array:
        """The change of values v (n, k) with their coordinates: (n, k)."""
        rate = np.zeros(v.shape)
        for j, column in enumerate(self.columns):
            low, high = edges(column)
            rate[:, j] = v[:, j] * np.log(high / low) if column.log else high - low
        return np.nan_to_num(rate)

    def _slope(self, condition: Condition, v: Array, u: Array, width: float = 1e-6) -> Array:
        """The gradient of a condition's excess in coordinates, by central differences: (n, k)."""
        slope, measure = np.zeros(u.shape), condition.gap or condition.excess
        for j in condition.columns:
            if not self.ordered[j]:
                continue
            column, beside = self.columns[j], v.copy()
            beside[:, j] = between(column, u[:, j] + width)
            up = measure(beside)
            beside[:, j] = between(column, u[:, j] - width)
            with np.errstate(invalid="ignore"):
                slope[:, j] = (up - measure(beside)) / (2.0 * width)
        return np.nan_to_num(slope, posinf=0.0, neginf=0.0)

    def _fewest(self, condition: Condition, v: Array, u: Array, frozen: Mask) -> tuple[Array, Mask]:
        """Coordinates with the smallest of too many amounts at zero, where they then stay."""
        assert condition.most is not None
        columns, most = np.array(condition.most[0]), condition.most[1]
        rows = np.flatnonzero(~condition.holds(v))
        if len(rows) == 0:
            return u, frozen
        u, frozen = u.copy(), frozen.copy()
        size = np.abs(v[np.ix_(rows, columns)]) / [
            max(abs(self.columns[j].low), abs(self.columns[j].high)) for j in columns
        ]
        smallest = columns[np.argsort(size, axis=1, kind="stable")][:, : len(columns) - most]
        zero = np.array(
            [to_coordinate(c, np.zeros(1))[0] if not c.log else 0 for c in self.columns]
        )
        u[rows[:, None], smallest] = zero[smallest]
        frozen[rows[:, None], smallest] = True
        return u, frozen

    def _between(self, u: Array) -> Array:
        """Values at coordinates u (n, k) before they are rounded to those that the space has."""
        return np.column_stack([between(c, u[:, j]) for j, c in enumerate(self.columns)])

    def _settled(self, v: Array) -> Array:
        """Values v (n, k) on the grids of the space, its atoms and its equalities."""
        for j, value in self.atoms.items():
            column = self.columns[j]
            at = np.abs(v[:, j] - value) <= RELATIVE * (column.high - column.low)
            v[:, j] = np.where(at, value, v[:, j])
        return self._solve(self.space.on_grid(v))

    def _solve(self, v: Array, first: bool = False) -> Array:
        """Points v (n, k) with some columns solved for, so that the equalities hold where they can.

        first: solve for one set of columns only, the same in all rows: what uniform draws need, for
        they stay uniform if the same coordinates are the ones that do not count.
        """
        if not self.equalities:
            return v
        matrix = np.array([form.coefficients for form in self._forms])
        bounds = np.array([form.bound for form in self._forms])
        asked = np.stack(
            [~np.isnan(v[:, list(c.columns)]).any(axis=1) for c in self.equalities], axis=1
        )
        for pattern in np.unique(asked, axis=0):
            if not pattern.any():
                continue
            sets = self._sets(pattern, matrix[pattern])
            rows = np.flatnonzero((asked == pattern).all(axis=1))
            for turn in range(1 if first else len(sets)):
                rows = rows[~self.holds(v[rows])]
                # On a grid it would always be the same column that gives way: they take turns.
                order = (rows + turn) % len(sets) if self._turns(sets) and not first else turn
                for i in np.unique(order) if len(rows) else ():
                    part = rows if np.ndim(order) == 0 else rows[order == i]
                    tried = self._solved_for(sets[i], v[part], matrix[pattern], bounds[pattern])
                    ok = np.ones(len(part), dtype=bool) if first else self.holds(tried)
                    v[part[ok]] = tried[ok]
        return v

    def _turns(self, sets: list[tuple[int, ...]]) -> bool:
        return any(self.columns[j].levels is not None for j in sets[0])

    def _solved_for(self, chosen: tuple[int, ...], v: Array, matrix: Array, bounds: Array) -> Array:
        rest = bounds - np.nan_to_num(v) @ matrix.T
        tried = v.copy()
        tried[:, chosen] += np.linalg.solve(matrix[:, chosen], rest.T).T
        return self.space.on_grid(tried)

    def _sets(self, pattern: Mask, matrix: Array) -> list[tuple[int, ...]]:
        """Sets of columns that equalities (m, k) can be solved for, continuous ones first."""
        key = pattern.tobytes()
        if key not in self._solved:
            named = [int(j) for j in np.flatnonzero(matrix.any(axis=0))]
            named.sort(key=lambda j: (self.columns[j].levels is not None, self._steps(j), j))
            every = itertools.islice(itertools.combinations(named, len(matrix)), MOST_TRIED)
            sets = (c for c in every if np.linalg.matrix_rank(matrix[:, c]) == len(matrix))
            self._solved[key] = list(itertools.islice(sets, MOST_SETS))
        return self._solved[key]

    def _steps(self, j: int) -> float:
        return -float(self.columns[j].levels or 0)


def _atoms(conditions: tuple[Condition, ...]) -> dict[int, float]:
    """Single values of continuous columns that conditions give a mass of their own."""
    found: dict[int, float] = {}
    for condition in conditions:
        if condition.linear is None or not condition.linear.equality:
            found |= dict(condition.atoms)
    return found


def _independent(conditions: tuple[Condition, ...]) -> list[Condition]:
    """The linear equalities, without those that say what others have said."""
    found: list[Condition] = []
    for condition in conditions:
        if condition.linear is None or not condition.linear.equality:
            continue
        forms = [c.linear.coefficients for c in (*found, condition) if c.linear]
        if np.linalg.matrix_rank(np.array(forms)) == len(forms):
            found.append(condition)
    return found
