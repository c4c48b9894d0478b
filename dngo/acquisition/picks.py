"""The parts of a batch: picks, each with the reason for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dngo.types import Array


@dataclass(frozen=True)
class Pick:
    """One point, as a stage picks it.

    v: (k,) natural values. value: the acquisition when it was picked, in units of the model's
    targets. For a first feasible point it is probability times distance, for a draw its gain.
    source: of the candidate. runner_up: the
    highest value among the other candidates, as far as known. aim: weight of each of several objectives,
    (m,) of sum 1.
    """

    v: Array
    value: float
    source: str
    runner_up: float = np.nan
    aim: Array | None = None


@dataclass(frozen=True)
class Picks:
    """q picks in the order in which they were made; every column has length q.

    v: (q, k) natural values. value, source: as in `Pick`. stage: which made it.
    mean, std: the model's prediction of the objective, in its own units, before any fantasy; NaN without an
    objective model. feasibility: P(all constraints hold). num_pending: points pending at the pick, with the
    batch's earlier ones. runner_up: NaN without one.
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
