"""Baselines: points chosen without a surrogate, with the same archive, resume and replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dngo.acquisition.candidates import Candidates, everything, is_listed
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.space.sobol import sobol
from dngo.types import Array

# rounds of draws until enough points are new; each draws twice as many as the one before
ROUNDS = 7


class Random:
    """Uniform points."""

    name = "random"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        space, rng = state.space, state.rng
        yield from drawn(state, number, lambda n: space.sample(rng.random((n, space.k))), self.name)


class Sobol:
    """The design's scrambled sequence, continued.

    On a grid, earlier batches may have drawn a point twice and left it out. So at least as many
    points were drawn as the archive has rows. A sequence that continues from the number of rows may
    repeat some; these are known.
    """

    name = "sobol"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        space = state.space
        engine = sobol(space.k, np.random.default_rng(state.root))
        if start := max(state.turn - 1, 0):
            engine.fast_forward(start)
        yield from drawn(state, number, lambda n: space.sample(engine.random(n)), self.name)


def drawn(
    state: BatchState, number: int, draw: Callable[[int], Array], source: str
) -> Iterator[Pick]:
    """Drawn points that are new. If draws find too few in a small discrete space, all its points
    are tried. draw: n -> (n, k)."""
    pool = Candidates(state.space, state.spacing.taken)
    count = 1 << max(number - 1, 0).bit_length()
    for _ in range(ROUNDS):
        if len(pool) >= number:
            break
        pool.add(draw(count), source)
        count *= 2
    if len(pool) < number and is_listed(state.space):
        pool.add(state.rng.permutation(everything(state.space)), source)
    for v in pool.v[:number]:
        yield Pick(v, np.nan, source)
