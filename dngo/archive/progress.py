"""The archive's record of values that evaluations reported while they ran: a group of the iteration.

``points``
    a row for each point of a curve, by slot and by step: slot, step, the value of each objective in
    the order of their names, seconds since the start; NaN if it was no number, or is unknown. Curves
    are thinned already (`dngo.stopping.curves`).
``stops``
    text, a JSON object by slot: why an evaluation was stopped (`dngo.stopping.settings.Decision`)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from dngo.batch import Outcome
from dngo.stopping.curves import Curve
from dngo.storage.hdf5 import Unsound

NAME = "progress"
COLUMNS = len(("slot", "step", "seconds"))  # beside those of the objectives
Part = tuple[np.ndarray, dict[str, Any]]  # `points`, and the objects of `stops`


def of(outcomes: Sequence[Outcome], first: int) -> Part:
    """The points and the reasons of some outcomes. first: the slot of the first of them."""
    rows = [(first + i, *point) for i, o in enumerate(outcomes) for point in o.curve]
    values = [[math.nan if v is None else v for v in row] for row in rows]
    points = np.array(values, dtype="f8").reshape(len(rows), len(rows[0]) if rows else COLUMNS + 1)
    return points, {str(first + i): o.stop for i, o in enumerate(outcomes) if o.stop}


def write(group: h5py.Group, parts: Sequence[Part], packing: Mapping[str, Any]) -> None:
    """Write into the group of an iteration. Write nothing if no evaluation reported anything."""
    some = [points for points, _ in parts if len(points)] or [np.empty((0, COLUMNS + 1))]
    points = np.concatenate(some)
    stops = {slot: stop for _, found in parts for slot, stop in found.items()}
    if not len(points) and not stops:
        return
    target = group.create_group(NAME)
    target.create_dataset("points", data=points, **(packing if len(points) else {}))
    text = json.dumps(stops, sort_keys=True)
    target.create_dataset("stops", data=text, dtype=h5py.string_dtype("utf-8"))


def read(record: h5py.Group) -> tuple[dict[int, Curve], dict[int, dict[str, Any]]]:
    """The curves of an iteration, and the reasons of evaluations that were stopped; both by slot."""
    group = record.get(NAME)
    if group is None:
        return {}, {}
    points = group["points"][()]
    slots, starts = np.unique(points[:, 0], return_index=True)
    curves = {
        int(slot): Curve(tuple(map(tuple, rows[:, 1:].tolist())))
        for slot, rows in zip(slots, np.split(points, starts[1:]), strict=False)
    }
    stops = json.loads(group["stops"].asstr()[()])
    return curves, {int(slot): stop for slot, stop in stops.items()}


def fields(record: h5py.Group) -> dict[int, dict[str, Any]]:
    """The same as fields of `dngo.batch.Outcome`, by slot."""
    curves, stops = read(record)
    found: dict[int, dict[str, Any]] = {i: {"curve": c.plain()} for i, c in curves.items()}
    for slot, stop in stops.items():
        found.setdefault(slot, {})["stop"] = stop
    return found


def check(record: h5py.Group, rows: int, objectives: int) -> None:
    """Raise Unsound unless the group can be used.

    rows: the number of rows of its iteration. objectives: how many the study has.
    """
    group = record.get(NAME)
    if group is None:
        return
    if not isinstance(group, h5py.Group) or set(group) != {"points", "stops"}:
        raise Unsound(f"{record.name}/{NAME}: does not have the members points and stops")
    points, stops = group["points"], group["stops"]
    if not isinstance(points, h5py.Dataset) or points.dtype.kind != "f":
        raise Unsound(f"{points.name}: holds values of another type")
    width = COLUMNS + objectives if len(points) else COLUMNS + 1
    if points.ndim != 2 or points.shape[1] != width:
        raise Unsound(f"{points.name}: has shape {points.shape}, but (n, {width}) is expected")
    slots = points[:, 0]
    if not np.isin(slots, np.arange(rows)).all() or np.any(np.diff(slots) < 0):
        raise Unsound(f"{points.name}: has points of rows outside its iteration")
    same = np.diff(slots) == 0
    steps = points[:, 1]
    if not np.isfinite(steps).all() or np.any(np.diff(steps)[same] <= 0):
        raise Unsound(f"{points.name}: has steps that do not increase")
    if not isinstance(stops, h5py.Dataset) or stops.shape != () or stops.dtype.kind != "O":
        raise Unsound(f"{stops.name}: is not text")
    try:
        found = json.loads(stops.asstr()[()])
    except (ValueError, RecursionError):
        raise Unsound(f"{stops.name}: is not JSON") from None
    known = {str(i) for i in range(rows)}
    if not isinstance(found, dict) or not found.keys() <= known:
        raise Unsound(f"{stops.name}: is not of its rows")
    if not all(isinstance(stop, dict) for stop in found.values()):
        raise Unsound(f"{stops.name}: is not of its rows")
