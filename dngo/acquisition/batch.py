"""A batch of proposals, with the reasons for each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Batch:
    """q proposals in the order in which they were picked; every column has length q.

    v: (q, k) natural values. value: acquisition when picked, in units of the model's targets
    (in a search for feasibility: probability times distance). mean, std: what the model predicts
    of the objective, its own units, before any fantasy; NaN without an objective model.
    feasibility: P(all constraints hold). num_pending: points pending when picked, the batch's
    earlier ones included. runner_up: highest value among the other candidates then, as far as
    known; NaN if there was none. source: where the candidate came from.
    """

    v: Array
    value: Array
    mean: Array
    std: Array
    feasibility: Array
    num_pending: NDArray[np.int64]
    runner_up: Array
    source: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.v)


@dataclass
class Picks:
    """The picks so far."""

    v: list[Array] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    runner_up: list[float] = field(default_factory=list)
    source: list[str] = field(default_factory=list)

    def take(self, v: Array, value: float, runner_up: float, source: str) -> None:
        self.v.append(v)
        self.value.append(value)
        self.runner_up.append(runner_up if np.isfinite(runner_up) else float("nan"))
        self.source.append(source)
