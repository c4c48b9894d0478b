"""`dngo compare A B ...`: studies side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from dngo.errors import UserError
from dngo.locate import archive_at, file_at, find_study, is_archive
from dngo.report.beside import side_by_side
from dngo.report.data import View
from dngo.report.figures import all_compared
from dngo.report.front import common_reference, volume_of
from dngo.report.live import feasible_share
from dngo.report.page import Page
from dngo.storage.text import cell
from dngo.units import units_of

TITLE = "Studies compared"


def read(places: Sequence[str]) -> list[View]:
    """The studies of these configurations, archives or folders; raises UserError for other places."""
    views = [_view(place) for place in places]
    if len({tuple(_aims(view)) for view in views}) > 1:
        directions = ", ".join(f"{view.path} {' and '.join(_aims(view))}" for view in views)
        raise UserError(f"these studies cannot be compared: {directions}")
    return views


def _aims(view: View) -> list[str]:
    """The aim of a study for each objective: minimize or maximize."""
    units = units_of(view.config)
    each = [
        f"{direction}s {name}{' (log)' * units[name].log}"
        for name, direction in view.directions.items()
    ]
    return each or [f"{view.direction}s"]


def _volumes(views: Sequence[View], common: int) -> list[dict[str, Any]]:
    """The hypervolumes of studies with several objectives: of all evaluations, and at a common number.

    The reference is the worst of the studies' references.
    """
    if not views[0].has_several:
        return [{} for _ in views]
    reference = common_reference([view.front for view in views])
    return [
        {
            "front": len(view.front.rows),
            "hypervolume": volume_of(view.front.values, reference),
            "hypervolume_at_common": volume_of(view.front.values[:common], reference),
        }
        for view in views
    ]


def _view(place: str) -> View:
    """A study. If a configuration was named, it is the current one."""
    path, file = archive_at(place), file_at(place)
    if is_archive(file):
        return View.of(path)
    return View.of(path, json.loads(find_study([file]).config.resolved()))


def rows(views: Sequence[View]) -> list[dict[str, Any]]:
    """The comparison, a row for each study, at budgets that all studies reached.

    best_at_common: the best after as many evaluations as the shortest study has.
    """
    common = min(len(view) for view in views)
    found = []
    for view, name, volumes in zip(views, names(views), _volumes(views, common), strict=True):
        timed = view.timed.any()
        started, finished = (view.numbers[key] for key in ("started", "finished"))
        found.append(
            {
                "study": name,
                "evaluations": len(view),
                "feasible_share": feasible_share(view.table.status),
                "best": float(view.best_so_far[-1]),
                "proposal": "" if view.best is None else view.id(view.best),
                "common": common,
                "best_at_common": float(view.best_so_far[common - 1]),
                **volumes,
                "evaluation_seconds": float(np.nansum(view.table.duration)),
                "elapsed_seconds": float(np.max(finished[view.timed]) - np.min(started[view.timed]))
                if timed
                else float("nan"),
                "parameters": {}
                if view.best is None
                else view.space.to_parameters(view.table.v[[view.best]])[0],
            }
        )
    return found


def names(views: Sequence[View]) -> list[str]:
    """A name for each study. If two have the same name, each name has its folder."""
    own = [view.name for view in views]
    return [n if own.count(n) == 1 else str(v.path) for n, v in zip(own, views, strict=True)]


def text(found: Sequence[dict[str, Any]]) -> str:
    """The comparison for a terminal: a column for each study."""
    lines = {
        "evaluations": [f"{r['evaluations']}" for r in found],
        "feasible": [
            cell(None if (s := r["feasible_share"]) is None else f"{s:.0%}") for r in found
        ],
        **_best_lines(found, found[0]["common"]),
        "hours of evaluation": [f"{r['evaluation_seconds'] / 3600:.3g}" for r in found],
        "hours by the clock": [f"{r['elapsed_seconds'] / 3600:.3g}" for r in found],
    }
    parameters = dict.fromkeys(name for row in found for name in row["parameters"])
    points = [(n, [cell(row["parameters"].get(n)) for row in found]) for n in parameters]
    heads = [row["study"] for row in found]
    return side_by_side(heads, [*lines.items(), *points], 40 + 30 * len(found))


def _best_lines(found: Sequence[dict[str, Any]], common: int) -> dict[str, list[str]]:
    if "front" in found[0]:
        return {
            "points of the front": [str(r["front"]) for r in found],
            "hypervolume": [cell(r["hypervolume"]) for r in found],
            f"hypervolume after {common}": [cell(r["hypervolume_at_common"]) for r in found],
        }
    return {
        "best": [cell(r["best"]) for r in found],
        "its proposal": [r["proposal"] for r in found],
        f"best after {common}": [cell(r["best_at_common"]) for r in found],
    }


def document(views: Sequence[View]) -> str:
    """The comparison as one HTML file."""
    named = list(zip(names(views), views, strict=True))
    return Page(
        title=TITLE,
        headline=", ".join(name for name, _ in named),
        figures=all_compared(named),
        texts=[("Side by side", text(rows(views)))],
    ).render()
