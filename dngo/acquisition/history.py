"""What is known when a batch is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dngo.rules import current
from dngo.space import Space
from dngo.surrogates.numerics import bounded
from dngo.types import Array, Mask, Repeats, Rows


def batches(iteration: Rows) -> Iterator[slice]:
    """The rows of each batch, in order. iteration: (n,), never decreasing."""
    ends = (np.flatnonzero(np.diff(iteration)) + 1).tolist()
    for start, end in pairwise([0, *ends, len(iteration)]):
        yield slice(start, end)


@dataclass(frozen=True)
class History:
    """The points so far, in the order of the archive.

    v: (n, k) natural values of finished points; y: (n,) their objective, minimised, NaN without one.
    pending: (p, k) points whose outcome is not known yet. iteration: (n,) the batch of each, never falling;
    by default each has its own. constraints: name -> (n,) 1, 0 or NaN unknown. noise: (n,) standard
    deviation of each value of y as reported, NaN unknown; empty: nothing reported.
    objectives: name -> (n,) each of several, minimised, of all that ran, feasible or not. y is then
    the number of fronts to remove before the point is on the front. noises: name -> (n,) of each,
    like noise. means: name -> (n,) the model's means of each, where outcomes are noisy; empty: outcomes
    count as reported.
    reference: the worst values of interest, minimised, in the order of the names; None where not given.
    stage: (n,) names of the stages that picked the points; an empty text or array: unknown.
    Values of y and noise beyond `dngo.surrogates.numerics.LARGEST` count as that.
    Raises ValueError where lengths differ.
    """

    v: Array
    y: Array
    pending: Array = field(default_factory=lambda: np.empty((0, 0)))
    iteration: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    constraints: dict[str, Array] = field(default_factory=dict)
    noise: Array = field(default_factory=lambda: np.empty(0))
    objectives: dict[str, Array] = field(default_factory=dict)
    noises: dict[str, Array] = field(default_factory=dict)
    means: dict[str, Array] = field(default_factory=dict)
    reference: Sequence[float | None] = ()
    stage: NDArray[np.str_] = field(default_factory=lambda: np.empty(0, dtype=str))

    def __post_init__(self) -> None:
        v = np.asarray(self.v, dtype=float)
        object.__setattr__(self, "v", v)
        object.__setattr__(
            self, "pending", np.reshape(self.pending, (len(self.pending), v.shape[1]))
        )
        if len(self.iteration) == 0:
            object.__setattr__(self, "iteration", np.arange(len(v)))
        if len(self.noise) == 0:
            object.__setattr__(self, "noise", np.full(len(v), np.nan))
        if len(self.stage) == 0:
            object.__setattr__(self, "stage", np.full(len(v), ""))
        object.__setattr__(self, "y", bounded(np.asarray(self.y, dtype=float)))
        object.__setattr__(self, "noise", bounded(self.noise))
        for name in ("objectives", "noises"):
            found = {n: bounded(c) for n, c in sorted(getattr(self, name).items())}
            object.__setattr__(self, name, found)
        several = (*self.objectives.values(), *self.noises.values())
        flags = self.constraints.values()
        for column in (self.y, self.iteration, self.noise, self.stage, *flags, *several):
            if len(column) != len(v):
                raise ValueError(f"{len(v)} points, and a column of {len(column)}")

    @property
    def outcomes(self) -> Array:
        """The objectives, a column for each in the order of their names, NaN unless ok: (n, m). Of noisy
        ones the means: a lucky outcome would stay on the front for ever."""
        found = np.column_stack(list((self.means or self.objectives).values()))
        return np.where(np.isfinite(self.y)[:, None], found, np.nan)

    @property
    def reported(self) -> Array:
        """What was reported of all that ran, feasible or not: (n, m)."""
        return np.column_stack(list(self.objectives.values()))

    def keys(self, space: Space) -> set[bytes]:
        """Keys of every point here, finished or pending: a new one must not equal any."""
        return {*space.keys(self.v), *space.keys(self.pending)}

    def repeatable(self, space: Space, which: Repeats) -> Mask:
        """Finished points that may be evaluated once more, by `acquisition.replicates`: (n,).

        Not a point without an objective: a failure is not tried again. A noise of zero is no noise. If
        every repeated point had the same value each time, the objective is not random. Then no
        point is evaluated again, whatever noise was reported.
        """
        reported = np.nan_to_num(list(self.noises.values()) or [self.noise]) > 0
        noisy = reported.any(axis=0) if which == "reported" else which == "always"
        rows = np.isfinite(self.y) & noisy
        if rows.any() and self._repeats_itself(space):
            return np.zeros_like(rows)
        return rows

    @cached_property
    def least_gain(self) -> float:
        """The least difference between two unequal values; 0 if any difference is possible.

        Counts and rounded scores are equal for many points: they lie on a lattice. A gain is at
        least one step of this lattice, so a tie does not count as a gain.
        """
        values, counts = np.unique(self.y[np.isfinite(self.y)], return_counts=True)
        shared = counts[counts > 1].sum()
        if len(values) < 2 or shared < current().candidates.shared * counts.sum():
            return 0.0
        return float(np.diff(values).min())

    def _repeats_itself(self, space: Space) -> bool:
        values: dict[bytes, list[tuple[float, ...]]] = {}
        ok, found = np.isfinite(self.y), self.reported if self.objectives else self.y[:, None]
        for key, value in zip(space.keys(self.v[ok]), found[ok], strict=True):
            values.setdefault(key, []).append(tuple(value.tolist()))
        repeated = [found for found in values.values() if len(found) > 1]
        return bool(repeated) and all(len(set(found)) == 1 for found in repeated)

    @property
    def num_pending(self) -> int:
        return len(self.pending)
