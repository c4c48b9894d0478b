"""What a batch is made of: picks, each with the reason for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dngo.types import Array


@dataclass(frozen=True)
class Pick:
    """One point, as a stage picks it.

    v: (k,) natural values. value: the acquisition then, in units of the model's targets (of a first
    feasible point: probability times distance; of a draw: what it gains). source: where the
    candidate came from. runner_up: highest value among the other candidates, as far as known.
    aim: of several objectives, how much it is for each, (m,) of sum 1.
    """

    v: Array
    value: float
    source: str
    runner_up: float = np.nan
    aim: Array | None = None


@dataclass(frozen=True)
class Picks:
    """q picks in the order in which they were made; every column has length q.

    v: (q, k) natural values. value, source: as of `Pick`. stage: which made it.
    mean, std: what the model predicts of the objective, its own units, before any fantasy; NaN
    without an objective model. feasibility: P(all constraints hold). num_pending: points pending
    when picked, the batch's earlier ones included. runner_up: NaN if there was none.
    means, stds, aims: (q, m) of each of several objectives, in the order of their names.
    """

    v: Array
    value: Array
    mean: Array
    std: Array
    feasibility: Array
    num_pending: NDArray[np.int64]
    runner_up: Array
    source: tuple[str, ...]
    stage: tuple[str, ...] = ()
    means: Array = field(default_factory=lambda: np.empty((0, 0)))
    stds: Array = field(default_factory=lambda: np.empty((0, 0)))
    aims: Array = field(default_factory=lambda: np.empty((0, 0)))

    def __len__(self) -> int:
        return len(self.v)
