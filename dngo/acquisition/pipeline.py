"""A batch, stage by stage: the settings of a kind make its stages, and each picks in turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dngo.acquisition.history import History
from dngo.acquisition.picks import Picks
from dngo.acquisition.settings import Acquisition
from dngo.acquisition.stages.promotion import Promotions
from dngo.acquisition.standing import Standing
from dngo.acquisition.state import BatchState
from dngo.space import Space
from dngo.space.ladder import Ladder
from dngo.surrogates.model import Model
from dngo.surrogates.numerics import one_thread
from dngo.types import Progress


def propose_batch(
    model: Model,
    space: Space,
    history: History,
    *,
    size: int,
    settings: Acquisition,
    rng: np.random.Generator,
    root: np.random.SeedSequence | None = None,
    progress: Progress | None = None,
) -> Picks:
    """Up to `size` points to evaluate next, distinct from each other.

    They are also distinct from all that is known, except for finished points that `replicates` of the
    settings allows to be evaluated once more.

    history: its objective is NaN unless a point is ok. rng: this batch's stream; root: the seed of
    the study's first design, from which a sequence that goes on from batch to batch starts. Fewer
    than `size` points come back only when a discrete space has no more. Raises ValueError if
    `size` is negative.
    """
    _check_size(size)
    plan = settings.stages_of_several() if history.objectives else settings.stages()
    state = BatchState(
        model, space, history, size, settings.shared(), plan, rng, root=root, progress=progress
    )
    return _picked(state)


def propose_on_ladder(
    model: Model,
    ladder: Ladder,
    history: History,
    *,
    size: int,
    settings: Acquisition,
    rng: np.random.Generator,
    root: np.random.SeedSequence | None = None,
    progress: Progress | None = None,
) -> Picks:
    """The same in a space with a fidelity: promotions of points, and new ones at the lowest level.

    history, and what comes back, are of the whole space. New points are picked by what is expected of them
    at the highest level; `mean` and `std` are of the level that each pick is evaluated at.
    """
    _check_size(size)
    standing = Standing.of(ladder, history)
    state = BatchState(
        model,
        ladder.points,
        standing.at_top(model),
        size,
        replace(settings.shared(), replicates="never"),
        [Promotions(), *settings.stages()],
        rng,
        root=root,
        progress=progress,
        standing=standing,
    )
    picks = _picked(state)
    v = ladder.at(picks.v, standing.levels_of(picks.source))
    mean, std = picks.mean, picks.std
    if len(v) and not state.shared.is_baseline:
        mean, std = model.predict(ladder.space.encode(v))
    return replace(picks, v=v, mean=mean, std=std)


def _check_size(size: int) -> None:
    if size < 0:
        raise ValueError(f"size must not be negative, and is {size}")


def _picked(state: BatchState) -> Picks:
    """What the stages pick, each in turn."""
    with one_thread():
        for stage in state.plan:
            if state.left:
                for pick in stage.picks(state, state.left):
                    state.take(stage.name, pick)
        return state.result()
