"""Compares each evaluation with others: the share that reached a value, and ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dngo.report.data import View
from dngo.space import Column


def reached(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Objectives of the ok evaluations, the best first, and the share of all evaluations that
    reached each.

    Failed evaluations never reach a value, so the last share is below 1 if some failed. Both have a
    value for each ok evaluation.
    """
    found = view.sign * np.sort(view.sign * view.table.objective[view.ok])
    return found, np.arange(1, len(found) + 1) / len(view)


def ranks(views: Sequence[View]) -> list[np.ndarray]:
    """For each study (n,): the rank of each ok evaluation among those of all studies, 1 the best.

    NaN where an evaluation is not ok. Equal objectives keep the order of the studies and
    evaluations.
    """
    value = np.concatenate([np.where(v.ok, v.sign * v.table.objective, np.nan) for v in views])
    order = np.argsort(value, kind="stable")  # NaN is last
    found = np.full(len(value), np.nan)
    ok = order[np.isfinite(value[order])]
    found[ok] = np.arange(1, len(ok) + 1)
    return np.split(found, np.cumsum([len(view) for view in views])[:-1])


def shared(views: Sequence[View]) -> list[tuple[Column, list[int]]]:
    """The parameters that all studies have with the same choices, and each study's column of v."""
    found = []
    places = [{column.name: (j, column) for j, column in view.columns} for view in views]
    for name, (_, column) in places[0].items():
        each = [place.get(name) for place in places]
        if all(one is not None and one[1].choices == column.choices for one in each):
            found.append((column, [one[0] for one in each if one is not None]))
    return found
