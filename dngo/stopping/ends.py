"""An estimate of where stopped evaluations would have ended, from the others.

A stopped evaluation is ranked at its last step, by its best value so far, among the evaluations that ran
to their end. It gets the same rank among their ends. That needs no scale: a logarithm of
the objective changes nothing, nor does another quantity that ranks evaluations as the objective does. It is
never put before the best end or after the worst one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dngo.stopping.curves import Curve
from dngo.types import Array, Mask

LEAST = 3  # evaluations that ran to their end; with fewer, no end is estimated


def predicted(curves: Sequence[Curve], y: Array, stopped: Mask, sign: float) -> Array:
    """The estimated ends of stopped evaluations, minimised: (n,), NaN for all others.

    curves: n, natural units.  y: (n,) the objectives, minimised, NaN of those that did not get there.
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
    """The values at a step of evaluations that ran to their end, and their ends, both sorted."""
    pairs = [(best, end) for c, end in ended if (best := c.best_until(step, sign)) is not None]
    then = np.array([best for best, _ in pairs], dtype=float)
    ends = np.array([end for _, end in pairs], dtype=float)
    finite = np.isfinite(then)
    return np.sort(then[finite]), np.sort(ends[finite])
