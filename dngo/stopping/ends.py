"""Where evaluations that were stopped would have ended, as far as the others tell.

A stopped evaluation stands at its last step among those that came to their end: as far up in their values
there, by its best value so far, so far up is it put among their ends. That needs no scale: a logarithm of
the objective changes nothing, nor does another quantity that ranks evaluations as the objective does. It is
never put before the best end or after the worst one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dngo.stopping.curves import Curve
from dngo.types import Array, Mask

LEAST = 3  # evaluations that came to their end, below which nothing is known of the ends of others


def predicted(curves: Sequence[Curve], y: Array, stopped: Mask, sign: float) -> Array:
    """The ends of those that were stopped, of the sign that is minimised: (n,), NaN of all others.

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
    """What those that came to their end had at a step, and their ends, each from low to high."""
    pairs = [(best, end) for c, end in ended if (best := c.best_until(step, sign)) is not None]
    then = np.array([best for best, _ in pairs], dtype=float)
    ends = np.array([end for _, end in pairs], dtype=float)
    finite = np.isfinite(then)
    return np.sort(then[finite]), np.sort(ends[finite])
