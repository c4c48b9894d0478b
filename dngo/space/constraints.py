"""The part of a space that keeps the known constraints: its points drawn, and others moved into it.

Everything here works on two forms of a point: natural values `v` (n, k), and the coordinates `u`
(n, k) of the unit cube that `Space` decodes. Draws are uniform in `u` over the feasible part:

1. Uniform coordinates are decoded. A mixture (`x1 + x2 + x3 == 1`) is decoded to uniform points of
   its simplex by spacings of exponentials (Devroye 1986, section V.2), so that none is lost. Where
   other equalities hold, one column for each is solved for, so that they hold to the last digits.
2. Points that keep every condition are kept; this is exact. Where few do, the others come from
   hit and run (Smith 1984) from points that did: along a random line, uniform on the part of it that
   is feasible, found by shrinking towards the point as in slice sampling (Neal 2003, section 4.1).
   It needs to know only whether a condition holds, so it works for any condition and on grids.

A point that breaks a condition is moved by projections onto the conditions in turn, linear ones
exactly and others along their slope, then rounded to the grids of its parameters and solved for the
equalities. A point that still breaks a condition is moved towards the nearest of a set of feasible points.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dngo.errors import UserError
from dngo.space.columns import nearest
from dngo.space.conditions import Condition, Linear, all_hold
from dngo.space.equalities import Equalities
from dngo.space.programme import by_programme
from dngo.space.projections import Projections
from dngo.space.scales import LINEAR
from dngo.types import Array, Mask

if TYPE_CHECKING:
    from dngo.space.space import Space

DRAWN = 4096  # points that the feasible part is looked for with
ENOUGH, KEPT = 64, 1024  # drawn points that are enough to walk on from, and how many are kept
CHAINS, LONGEST = 128, 800  # where too few were drawn: chains of hit and run, and their steps
SHRINKS = 30  # of a line, after which a chain stays where it is
SNAPSHOTS = 8  # points taken from one chain
TOWARDS = 2.0 ** -np.array([34, 30, 26, 22, 18, 15, 12, 10, 8, 6, 5, 4, 3, 2, 1, 0.4])
BUSY = 512  # rows that are compared with all feasible points at once


class Feasible:
    """The points of a space that keep its conditions.

    Points are drawn only when needed: `holds` costs no more than evaluating the conditions.
    Raises UserError, once something is drawn, if no feasible point can be found.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.conditions: tuple[Condition, ...] = space.conditions
        self.columns = space.columns
        self.equalities = Equalities(space)
        self.curved = any(c.gap and not c.linear for c in self.conditions)
        self.atoms = _atoms(self.conditions)
        self.projections = Projections(space, self.equalities, self.atoms)

    def holds(self, v: Array) -> Mask:
        """Where every condition holds: v (n, k) -> (n,) bool."""
        return all_hold(self.conditions, v)

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
            if self.curved:  # a line may miss the feasible part, but most points are near it
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
        return self.equalities.solve(v, first=True)

    @cached_property
    def _simplices(self) -> list[Linear]:
        """The equalities that are mixtures: positive amounts from some lowest on, with one sum."""
        found: list[Linear] = []
        for linear in self.equalities.forms:
            named = linear.named
            a = linear.coefficients[named] * np.sign(linear.coefficients[named[0]])
            columns = [self.columns[j] for j in named]
            plain = all(
                c.kind in ("float", "int") and c.scale is LINEAR and not c.conditions
                for c in columns
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
        """Coordinates u (n, k) that decode to the points v (n, k), except for solved columns."""
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
            first = self.projections.settled(by_programme(self.space))
            started = self._latent(np.concatenate([first, self.projections.projected(v)]))
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

        Not far, although not always to the nearest point: see the head of this module.
        """
        broken = np.flatnonzero(~self.holds(v))
        if len(broken) == 0:
            return v
        v = v.copy()
        v[broken] = self.projections.projected(v[broken])
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
        left, unordered = np.arange(len(v)), ~self.projections.ordered
        for share in TOWARDS:
            here = u[left] + share * (goal[left] - u[left])
            here[:, unordered] = u[left][:, unordered]
            tried = self.projections.settled(self.space.axes.between(here))
            ok = self.holds(tried)
            v[left[ok]] = tried[ok]
            left = left[~ok]
            if len(left) == 0:
                return v
        v[left] = known[nearest_one[left]]
        return v


def _atoms(conditions: tuple[Condition, ...]) -> dict[int, float]:
    """Single values of continuous columns that conditions give a mass of their own."""
    found: dict[int, float] = {}
    for condition in conditions:
        if condition.linear is None or not condition.linear.equality:
            found |= dict(condition.atoms)
    return found
