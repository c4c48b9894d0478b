"""Baselines: batches chosen without a surrogate, under the same archive, resume and replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from dngo.acquisition import candidates as cand
from dngo.acquisition.batch import Batch
from dngo.acquisition.history import History
from dngo.space import Space

Array = NDArray[np.float64]

ROUNDS = 7  # of draws, each of twice as many as the one before, until enough of them are new


def baseline_batch(
    space: Space,
    history: History,
    *,
    size: int,
    settings: Any,
    rng: np.random.Generator,
    root: np.random.SeedSequence,
) -> Batch:
    """Up to `size` points, distinct from each other and from all that is known.

    rng: this batch's stream; root: the seed of the study's first design, which what goes on from
    batch to batch starts from, too. Nothing is known of a pick but its source. Fewer than `size`
    points come back only when a discrete space has no more.
    """
    pool = cand.Pool(space, history.keys(space))
    if settings.kind == "optuna":
        from dngo.acquisition.optuna_sampler import sample

        sample(pool, history, size, settings, rng, root)
        _fill(pool, size, lambda n: space.sample(rng.random((n, space.k))), "random", rng)
    elif settings.kind == "sobol":
        # Points that a grid made double were drawn and left out before: the rows in the archive
        # are no more than the points drawn for them, and those drawn again are known.
        engine = qmc.Sobol(space.k, scramble=True, rng=np.random.default_rng(root))
        if start := max(len(history.v) + history.num_pending - 1, 0):
            engine.fast_forward(start)
        _fill(pool, size, lambda n: space.sample(engine.random(n)), "sobol", rng)
    else:
        _fill(pool, size, lambda n: space.sample(rng.random((n, space.k))), "random", rng)
    v = pool.v[:size]
    nothing = np.full(len(v), np.nan)
    return Batch(
        v=v,
        value=nothing,
        mean=nothing,
        std=nothing,
        feasibility=nothing,
        num_pending=history.num_pending + np.arange(len(v)),
        runner_up=nothing,
        source=tuple(pool.source[: len(v)]),
    )


def _fill(
    pool: cand.Pool,
    size: int,
    draw: Callable[[int], Array],
    source: str,
    rng: np.random.Generator,
) -> None:
    """Draw until the pool has `size` points, or, of a small discrete space, all of them."""
    number = 1 << max(size - 1, 0).bit_length()
    for _ in range(ROUNDS):
        if len(pool.v) >= size:
            return
        pool.add(draw(number), source)
        number *= 2
    if len(pool.v) < size and pool.space.size <= cand.ENUMERATE:
        pool.add(rng.permutation(cand.everything(pool.space)), source)
