"""A condition on points: where it holds, and what is needed to move a point onto it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dngo.types import Array, Mask

RELATIVE = 1e-9
"""Two sides of a comparison count as equal if they differ by at most this, relative to their
largest terms."""

Excess = Callable[[Array], Array]
"""Natural values (n, k) -> (n,), at most zero where a condition holds."""


@dataclass(frozen=True)
class Linear:
    """`coefficients @ v <= bound`, or `==`. coefficients: (k,), natural units."""

    coefficients: Array
    bound: float
    equality: bool

    @property
    def named(self) -> list[int]:
        """The columns whose coefficient is not zero."""
        return [int(j) for j in np.flatnonzero(self.coefficients)]


@dataclass(frozen=True)
class Condition:
    """One condition on a point.

    text: the expression to which it belongs. columns: the columns of `v` that it names. excess: at
    most zero where it holds. linear: the same as a linear form, if it is one. gap: for an equality,
    the left side minus the right. most: columns, and how many of them may differ from zero. atoms:
    single values of continuous columns that it demands, which no uniform draw would ever hit.
    """

    text: str
    columns: tuple[int, ...]
    excess: Excess
    linear: Linear | None = None
    gap: Excess | None = None
    most: tuple[tuple[int, ...], int] | None = None
    atoms: tuple[tuple[int, float], ...] = ()

    def holds(self, v: Array) -> Mask:
        """Where it holds, which includes points at which a parameter in it is inactive: v (n, k) ->
        (n,) bool."""
        inactive = np.isnan(v[:, list(self.columns)]).any(axis=1)
        return inactive | (self.excess(v) <= 0)


def all_hold(conditions: Sequence[Condition], v: Array) -> Mask:
    """Where every condition holds: v (n, k) -> (n,) bool."""
    ok = np.ones(len(v), dtype=bool)
    for condition in conditions:
        ok &= condition.holds(v)
    return ok


def every(conditions: Sequence[Condition]) -> Condition:
    """A condition that holds where all given conditions hold."""
    return conditions[0] if len(conditions) == 1 else _joined(conditions, np.maximum)


def either(conditions: Sequence[Condition]) -> Condition:
    """A condition that holds where at least one given condition holds."""
    return conditions[0] if len(conditions) == 1 else _joined(conditions, np.minimum)


def _joined(conditions: Sequence[Condition], take: np.ufunc) -> Condition:
    def excess(v: Array) -> Array:
        found: Array = take.reduce([c.excess(v) for c in conditions])
        return found

    columns = tuple(sorted({j for c in conditions for j in c.columns}))
    atoms = tuple(sorted({a for c in conditions for a in c.atoms}))
    return Condition("", columns, excess, atoms=atoms)
