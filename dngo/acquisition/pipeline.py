"""A batch, stage by stage: `AcquisitionSettings` of a kind name its stages, and each picks in turn."""

from __future__ import annotations

import numpy as np

from dngo.acquisition.history import History
from dngo.acquisition.picks import Picks
from dngo.acquisition.settings import Acquisition
from dngo.acquisition.state import BatchState
from dngo.space import Space
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

    They are distinct from all that is known, too, but for finished points that `replicates` of the
    settings allows to be evaluated once more.

    history: its objective is NaN unless a point is ok. rng: this batch's stream; root: the seed of
    the study's first design, from which a sequence that goes on from batch to batch starts. Fewer
    than `size` points come back only when a discrete space has no more. Raises ValueError if
    `size` is negative.
    """
    if size < 0:
        raise ValueError(f"size must not be negative, and is {size}")
    state = BatchState(model, space, history, size, settings, rng, root, progress)
    with one_thread():
        for stage in state.new_stages():
            if state.left:
                for pick in stage.picks(state, state.left):
                    state.take(stage.name, pick)
        return state.result()
