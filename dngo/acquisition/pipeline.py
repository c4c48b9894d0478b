"""A batch, stage by stage: a kind's settings make its stages, and each picks in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dngo.acquisition.history import History
from dngo.acquisition.picks import Picks
from dngo.acquisition.settings import Acquisition
from dngo.acquisition.stages.promotion import Promotions
from dngo.acquisition.standing import Standing
from dngo.acquisition.state import BatchState, Stage
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

    They are also distinct from all known points, except finished ones that `replicates` of the
    settings
    allows to be evaluated once more.

    history: its objective is NaN unless a point is ok. rng: this batch's stream; root: the seed of the
    study's first design, where a sequence that continues from batch to batch starts. There are fewer than
    `size` points only if a discrete space has no more. Raises ValueError if `size` is negative.
    """
    plan = _plan(settings, history)
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
    """Like `propose_batch`, in a space with a fidelity: promotions, and new points at the lowest level.

    If no new point is left, the other points are promoted.

    history and the result are of the whole space. New points are picked by what the model expects of them
    at the highest level. Means and deviations are for the level at which each pick is evaluated.
    """
    standing = Standing.of(ladder, history)
    state = BatchState(
        model,
        ladder.points,
        standing.at_top(model),
        size,
        settings.shared().model_copy(update={"replicates": "never"}),
        [Promotions(), *_plan(settings, history), Promotions(others=True)],
        rng,
        root=root,
        progress=progress,
        standing=standing,
    )
    picks = _picked(state)
    v = ladder.at(picks.v, standing.levels_of(picks.source))
    return replace(picks, v=v, **state.predicted(ladder.space.encode(v)))


def _plan(settings: Acquisition, history: History) -> Sequence[Stage]:
    return settings.stages_of_several() if history.objectives else settings.stages()


def _picked(state: BatchState) -> Picks:
    """What the stages pick, each in turn."""
    if state.size < 0:
        raise ValueError(f"size must not be negative, and is {state.size}")
    with one_thread():
        for stage in state.plan:
            if state.left:
                for pick in stage.picks(state, state.left):
                    state.take(stage.name, pick)
        return state.result()
