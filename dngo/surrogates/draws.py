"""Functions drawn from the posterior. Evaluating one at a point costs as much as the mean there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dngo.surrogates.component import Component, Functions
from dngo.types import Array, Rows


@dataclass(frozen=True)
class Draws:
    """`count` functions drawn from a mixture. Functions of one group have the same features.

    groups: the functions of one hyperparameter sample of one component; rows[g]: their numbers, of
    0 to count - 1.
    """

    groups: tuple[Functions, ...]
    rows: tuple[Rows, ...]
    count: int

    def __call__(self, x: Array) -> Array:
        """Every function at every point: x (n, d) encoded -> (count, n), without noise."""
        values = np.empty((self.count, len(x)))
        for group, rows in zip(self.groups, self.rows, strict=True):
            values[rows] = group(x)
        return values

    def own(self, x: Array) -> Array:
        """Each function at its own points: x (count, n, d) encoded -> (count, n)."""
        values = np.empty(x.shape[:2])
        for group, rows in zip(self.groups, self.rows, strict=True):
            values[rows] = group.own(x[rows])
        return values

    @property
    def has_slopes(self) -> bool:
        """Whether all functions have analytic gradients, as functions of processes do."""
        return all(hasattr(group, "slopes") for group in self.groups)

    def slopes(self, x: Array) -> Array:
        """Each function's gradient at its own point, if it `has_slopes`: x (count, d) encoded ->
        (count, d)."""
        found = np.empty_like(x)
        for group, rows in zip(self.groups, self.rows, strict=True):
            found[rows] = group.slopes(x[rows])  # type: ignore[attr-defined]
        return found


def spread_evenly(boldest: float, count: int, rng: np.random.Generator) -> Array:
    """The boldness of each of `count` functions: from about 0 to the largest, in random order, (count,)."""
    return np.asarray(boldest * (rng.permutation(count) + rng.random()) / count)


def draw(components: Sequence[Component], boldness: Array, rng: np.random.Generator) -> Draws:
    """One function for each of `boldness` (count,), from the mixture of the components.

    A function's deviation from the posterior's mean is multiplied by its boldness. With 1 it is a
    draw, and with 0 the mean of its hyperparameter sample.
    """
    weight = np.array([c.weight for c in components])
    which = rng.choice(len(components), len(boldness), p=weight / weight.sum())
    sample = np.floor(rng.random(len(boldness)) * [len(components[c].noise) for c in which])
    groups: list[Functions] = []
    members: list[Rows] = []
    for c, h in sorted({(int(c), int(h)) for c, h in zip(which, sample, strict=True)}):
        rows = np.flatnonzero((which == c) & (sample == h))
        groups.append(components[c].draw(h, boldness[rows], rng))
        members.append(rows)
    return Draws(tuple(groups), tuple(members), len(boldness))
