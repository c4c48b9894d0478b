"""The evaluations at each level of a fidelity, and the predictions for points below the highest
level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dngo.space.ladder import Ladder

if TYPE_CHECKING:
    from dngo.report.data import View

MOST = 3  # most points below the highest level that are named


def levels(ladder: Ladder, v: np.ndarray, y: np.ndarray, sign: float) -> dict[str, Any]:
    """The evaluations at each level and their best, as plain data.

    v: (n, k) points; y: (n,) their objective, NaN unless ok.
    """
    at = np.clip(ladder.level(v), 0, None) if len(v) else np.empty(0, dtype=int)
    found = []
    for level, value in enumerate(ladder.levels):
        ok = y[(at == level) & np.isfinite(y)]
        best = sign * float(np.min(sign * ok)) if len(ok) else None
        found.append({"value": value, "evaluations": int(np.sum(at == level)), "best": best})
    return {"parameter": ladder.name, "levels": found}


def said_of_levels(found: dict[str, Any]) -> str:
    """The same as one line of text."""
    parts = [f"{one['value']:g}: {one['evaluations'] or 'none yet'}" for one in found["levels"]]
    return f"evaluations at {found['parameter']} {', '.join(parts)}"


def said_at(ladder: Ladder | None, v: np.ndarray) -> str:
    """The level of the best point (1, k), as a text after its value; empty without a fidelity."""
    if ladder is None:
        return ""
    here = f" at {ladder.name} {float(ladder.values(v)[0]):g}"
    return here if ladder.is_top(v)[0] else f"{here}, none at {ladder.text(ladder.top)} yet"


def expected(view: View) -> list[str]:
    """Lines with predictions at the highest level, for points that may still be evaluated there."""
    ladder, model = view.ladder, view.model
    if ladder is None or model is None or not view.has_model:
        return []
    points, level = ladder.points, ladder.level(view.table.v)
    keys = np.array(points.keys(points.of_full(view.table.v)))
    highest = {key: level[keys == key].max() for key in set(keys[view.ok])}
    rows = [
        int(row) for row in np.flatnonzero(view.ok) if level[row] == highest[keys[row]] < ladder.top
    ]
    if not rows:
        return []
    x = points.encode(points.of_full(view.table.v[rows]))
    mean, std = view.units.outward(*model.predict(x))
    order: Sequence[int] = np.argsort(view.sign * mean, kind="stable")[:MOST].tolist()
    lines = [
        f"predicted at {ladder.name} {ladder.text(ladder.top)}, the best of {len(rows)} points:"
    ]
    return lines + [
        f"  proposal {view.id(rows[i])}, evaluated at {ladder.text(max(int(level[rows[i]]), 0))}: "
        f"{mean[i]:.6g} {view.units.margin(float(mean[i]), float(std[i]))} (95 %)"
        for i in order
    ]
