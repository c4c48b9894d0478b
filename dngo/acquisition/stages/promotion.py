"""Points that were evaluated at a low level of the fidelity and deserve a higher one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dngo.acquisition.picks import Pick
from dngo.acquisition.standing import PROMOTED
from dngo.acquisition.state import BatchState


@dataclass(frozen=True)
class Promotions:
    """The promotions of a batch; the remaining picks are new points.

    others: whether to promote the points that successive halving does not. The last stage does so, as
    it has picks only if a small space has no new point left.
    """

    others: bool = False
    name = "promotion"
    draws_numbers = False

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        standing = state.standing
        if standing is None:
            return
        chosen = standing.halved(
            standing.worth(state.model),
            number,
            others=self.others,
            counted=state.model.knows_objective,
        )
        v = standing.v[[one.point for one in chosen]]
        several = bool(state.history.objectives)  # no single improvement to state
        asks = state.has_outcome and not state.shared.is_baseline and not several
        values = state.make_pending(v) if asks else [np.nan] * len(v)
        for point, one, value in zip(v, chosen, values, strict=True):
            yield Pick(point, value, f"{PROMOTED}:{one.level}")
