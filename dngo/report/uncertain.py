"""Lines about points of which the report knows less than of others."""

from __future__ import annotations

import numpy as np

from dngo.fronts import order
from dngo.report.best import LIKELY
from dngo.report.data import View
from dngo.storage.text import value_text

MOST = 3  # most points below the highest level that are named


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
    units = view.front.units if view.has_several else {"": view.units}
    means, stds = np.empty((2, len(rows), len(units)))
    for j, (name, own) in enumerate(units.items()):
        means[:, j], stds[:, j] = own.outward(*(model.objectives.get(name) or model).predict(x))
    inward = np.column_stack([own.inward(means[:, j]) for j, own in enumerate(units.values())])

    def said(i: int) -> str:
        parts = zip(units.items(), means[i].tolist(), stds[i].tolist(), strict=True)
        return ", ".join(
            f"{n} {value_text(m)} {own.margin(m, s)}".strip() for (n, own), m, s in parts
        )

    lines = [
        f"predicted at {ladder.name} {ladder.text(ladder.top)}, the best of {len(rows)} points:"
    ]
    return lines + [
        f"  proposal {view.id(rows[i])}, evaluated at {ladder.text(max(int(level[rows[i]]), 0))}: "
        f"{said(i)} (95 %)"
        for i in np.argsort(order(inward), kind="stable")[:MOST].tolist()
    ]


def left_out(view: View) -> list[str]:
    """Why the best outcome is not ranked by the model, as a line; empty if it is."""
    row = view.best
    if row is None or not view.has_model or view.expected[2][row] >= LIKELY:
        return []
    return [
        f"proposal {view.id(row)} with {value_text(view.table.objective[row])} is left out: outcomes "
        "are noisy, and the surrogate thinks it feasible with a probability of "
        f"{view.expected[2][row]:.2g} only"
    ]
