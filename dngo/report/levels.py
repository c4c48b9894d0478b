"""The evaluations at each level of a fidelity, and the predictions for points below the highest
level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dngo.space.ladder import Ladder


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
