"""The part of a space that keeps the known constraints: points are drawn from it, and other points
are moved into it.

Everything here works on two forms of a point: natural values `v` (n, k), and the coordinates `u`
(n, k) of the unit cube that `Space` decodes. Draws are uniform in `u` over the feasible part:

1. Uniform coordinates are decoded. A mixture (`x1 + x2 + x3 == 1`) is decoded directly to uniform
   points of its simplex, by spacings of exponentials (Devroye 1986, section V.2), so no draw is
   lost. For each other equality one column is solved for, so that it holds to the last digits.
2. Draws that keep every condition are kept; this is exact. If too few do, hit and run (Smith 1984)
   starts from those. It moves along a random line, to a uniform point of the line's feasible part.
   That point is found by shrinking towards the current point, as in slice sampling (Neal 2003,
   section 4.1). It needs to know only whether a condition holds, so it works for any condition and
   on grids.

A point that breaks a condition is projected onto one condition after another: onto linear ones
exactly, onto others along their slope. Then it is rounded to the grids of its parameters, and the
equalities are solved. A point that still breaks a condition is moved towards the nearest of a set
of feasible points.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from dngo.errors import UserError
from dngo.space.columns import nearest
from dngo.space.conditions import Condition, Linear, all_hold
from dngo.space.equalities import Equalities
from dngo.space.programme import by_programme
from dngo.space.projections import Projections
from dngo.space.scales import LINEAR
from dngo.space.sobol import sobol
from dngo.space.unconstrained import Unconstrained
from dngo.types import Array, Mask

DRAWN = 4096  # points drawn to look for the feasible part
ENOUGH, KEPT = 64, 1024  # with fewer feasible draws, a walk finds more; how many points are kept
CHAINS, LONGEST = 128, 800  # the walk: chains of hit and run, and their steps
SHRINKS = 30  # tries on a line, after which a chain stays where it is
SNAPSHOTS = 8  # points taken from one chain
TOWARDS = 2.0 ** -np.array([34, 30, 26, 22, 18, 15, 12, 10, 8, 6, 5, 4, 3, 2, 1, 0.4])
BUSY = 512  # rows compared at once with all feasible points


class Feasible:
    """The points of a space that keep its conditions.

    Points are drawn only when they are needed: `holds` costs no more than evaluating the
    conditions.
    Raises UserError, once something is drawn, if no feasible point can be found.
    """

    def __init__(self, space: Unconstrained) -> None:
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
        engine = sobol(self.space.k, np.random.default_rng(0))
        return float(self.holds(self.space.decode(engine.random_base2(exponent))).mean())

    def find(self) -> None:
        """Find feasible points; raises UserError if that fails."""
        _ = self._known

    # ---- drawing --------------------------------------------------------------------------------

    def sample(self, u: Array) -> Array:
        """Feasible points for points u (n, k) of the unit cube: (n, k).

        A row that u decodes to a feasible point becomes that point. Other rows become uniform
        points of the feasible part, by a random stream that depends only on u. So the same u gives
        the same points.
        """
        v = self._decode(u)
        lost = np.flatnonzero(~self.holds(v))
        if len(lost):
            digest = hashlib.blake2b(np.ascontiguousarray(u).tobytes(), digest_size=16).digest()
            rng = np.random.default_rng(int.from_bytes(digest, "big"))
            # most of these points lie near the feasible part, even if a line misses it
            if self.curved:
                v[lost] = self.repair(v[lost])
            else:
                v[lost] = self._decode(self._walk_on(len(lost), rng))
        return v

    def _decode(self, u: Array) -> Array:
        """Natural values at coordinates u (n, k) that keep the mixtures and the other
        equalities."""
        u = np.array(u)
        at: dict[int, Mask] = {}
        for j in self.atoms:
            # Half of the probability of such a column lies at its atom.
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
        """The equalities that are mixtures: amounts with lower bounds and a fixed sum."""
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
        """Points spread over the feasible part: their coordinates, and their values.

        They belong to the space and are the same in all its studies, so they have a random stream
        of their own.
        """
        rng = np.random.default_rng(0)
        engine = sobol(self.space.k, rng)
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
            # Half of the lines change only a few parameters: otherwise grids are hard to cross.
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
        """Points v (n, k) of the space. The ones that break a condition are moved to where all
        conditions hold.

        They move little, but not always to the nearest point: see the head of this module.
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
        """Points v (n, k), moved towards the nearest known feasible points, as far as needed."""
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
    """Single values of continuous columns that get a probability of their own, because a condition
    demands them."""
    found: dict[int, float] = {}
    for condition in conditions:
        if condition.linear is None or not condition.linear.equality:
            found |= dict(condition.atoms)
    return found
