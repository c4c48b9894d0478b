"""Estimates from other evaluations where stopped ones would have ended.

A stopped evaluation is ranked at its last step, by its best value so far, among the evaluations that ran
to their end. It gets the same rank among their ends. Ranks need no scale: the result is the same
for the logarithm of the objective, and for any other value that ranks evaluations in the same way.
It is never put before the best end or after the worst one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dngo.stopping.curves import Curve
from dngo.types import Array, Mask

LEAST = 3  # evaluations that ran to their end; with fewer, no end is estimated


def predicted(curves: Sequence[Curve], y: Array, stopped: Mask, sign: float) -> Array:
    """The estimated ends of stopped evaluations, minimised: (n,), NaN for all others.

    curves: n, natural units. y: (n,) the objectives, minimised, NaN if an evaluation did not get
    that far.
    stopped: (n,).  sign: 1 where small values are good, -1 where large ones are.
    """
    found = np.full(len(y), np.nan)
    ended = [(c, float(value)) for c, value in zip(curves, y, strict=True) if np.isfinite(value)]
    known: dict[float, tuple[Array, Array]] = {}
    for i in map(int, np.flatnonzero(stopped)):
        if not curves[i].points:
            continue
        step = curves[i].last[0]
        if step not in known:
            known[step] = _at(ended, step, sign)
        then, ends = known[step]
        best = curves[i].best_until(step, sign)
        if best is None:
            continue
        if len(ends) >= LEAST:
            found[i] = np.interp(best, then, ends)
    return found


def _at(ended: Sequence[tuple[Curve, float]], step: float, sign: float) -> tuple[Array, Array]:
    """Of evaluations that ran to their end: the values at a step, and the final ones, both
    sorted."""
    pairs = [(best, end) for c, end in ended if (best := c.best_until(step, sign)) is not None]
    then = np.array([best for best, _ in pairs], dtype=float)
    ends = np.array([end for _, end in pairs], dtype=float)
    finite = np.isfinite(then)
    return np.sort(then[finite]), np.sort(ends[finite])
