"""Picks of a trust region whose model is of no use: by steps, or from a distribution.

A function may have more in it than so few points can tell, at every scale (BBOB's function of Katsuura):
no model foretells it, and uniform points in a box are as good as anywhere. Yet points next to a good one
are good, too, and steps of every size, as an evolution strategy takes them, go down from scale to scale.

Where noise hides the function, the lowest outcome is luck, and functions drawn from a model are lowest in
the corners of its box. Picks are drawn around the mean of the better half of the points, as far as these
spread.

The two are told apart by a few short steps: next to each other, outcomes of the first kind are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dngo.acquisition.candidates import around
from dngo.acquisition.spacing import Spacing
from dngo.space import Space
from dngo.surrogates.better_half import BetterHalf
from dngo.types import Array

Draw = Callable[[int], Array]  # so many points (n, k) at random


@dataclass(frozen=True, kw_only=True)
class BlindRules:
    """How picks are made without a model (benchmarks/rules.md, without a model)."""

    # The smallest step's scale, in units of the largest. Steps keep this share of their distance in a
    # batch: so fine a search is what there is to be gained.
    smallest: float = 1e-3
    spacing: float = 0.01
    # Of a batch's picks, one in so many is a step, and so many at least, while it is not known what steps
    # lead to; and the largest is shorter by so much.
    probes: int = 4
    least_probes: int = 8
    probing: float = 0.1
    children: int = 16  # points that each pick is the likeliest feasible one of


RULES = BlindRules()


def probes(size: int, rules: BlindRules = RULES) -> int:
    """How many of `size` picks find out whether points next to each other are alike."""
    return min(size, max(size // rules.probes, rules.least_probes))


def steps(
    space: Space, centre: Array, largest: float, rng: np.random.Generator, rules: BlindRules = RULES
) -> Draw:
    """Points around the centre (1, k), by steps of every size."""
    return lambda n: around(
        space, centre, n, rng, smallest=rules.smallest * largest, largest=largest
    )


def scatter(space: Space, v: Array, y: Array, rng: np.random.Generator) -> Draw:
    """Points as the better half of v (n, k) are distributed, y (n,) finite; the first one at their mean.

    A category is that of one of them.
    """
    u = space.unit(v)
    half = BetterHalf.of(u, y)
    listed = [j for j, column in enumerate(space.columns) if column.kind == "categorical"]

    def draw(n: int) -> Array:
        off = half.deviation * rng.standard_normal((n, space.k))
        off[0] = 0.0
        found = half.middle + off
        some = half.rows[rng.choice(len(half.rows), n, p=half.weight)]
        found[:, listed] = u[some][:, listed]
        return space.from_unit(np.clip(found, 0.0, 1.0))

    return draw


def picks(
    draw: Draw,
    count: int,
    *,
    spacing: Spacing,
    penalty: Callable[[Array], Array],
    rules: BlindRules = RULES,
) -> Array:
    """At most `count` points (m, k), each the first allowed one of some that are drawn; added to `spacing`.

    penalty: of points (n, k), (n,): those that have less are preferred.
    """
    found = []
    for _ in range(count):
        v = draw(rules.children)
        v = v[np.argsort(penalty(v), kind="stable")]
        row = spacing.first(v)
        if row is not None:
            found.append(v[row])
            spacing.add(v[[row]])
    return np.array(found).reshape(-1, spacing.space.k)
