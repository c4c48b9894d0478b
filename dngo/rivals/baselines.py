"""Baselines: points chosen without a surrogate, with the same archive, resume and replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import qmc

from dngo.acquisition.candidates import Candidates, everything, is_listed
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.types import Array

ROUNDS = 7  # of draws, each of twice as many, until enough points are new


class Random:
    """Uniform points."""

    name = "random"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        space, rng = state.space, state.rng
        yield from drawn(state, number, lambda n: space.sample(rng.random((n, space.k))), self.name)


class Sobol:
    """One scrambled sequence, the design's own, continued.

    Earlier batches drew points that a grid made double, and left them out. The archive therefore has no
    more rows than points were drawn, and points drawn again are known.
    """

    name = "sobol"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        space = state.space
        engine = qmc.Sobol(space.k, scramble=True, rng=np.random.default_rng(state.root))
        if start := max(state.turn - 1, 0):
            engine.fast_forward(start)
        yield from drawn(state, number, lambda n: space.sample(engine.random(n)), self.name)


def drawn(
    state: BatchState, number: int, draw: Callable[[int], Array], source: str
) -> Iterator[Pick]:
    """Drawn points that are new; at last all points of a small discrete space. draw: n -> (n, k)."""
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
