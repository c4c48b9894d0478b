"""The rows of an archive as one flat table. It is read by column, and some rows at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dngo.archive import progress
from dngo.archive.layout import OPTIONAL_COLUMNS
from dngo.archive.reading import read_space, reading
from dngo.batch import STATUSES
from dngo.redaction import each_text, redacted
from dngo.space import Space
from dngo.space.columns import natural

ROWS = 4096  # rows in memory at once
# Columns that exist only if some row has a value. Other rows then have None.
REPORTED = ("number_", "last_", "stopped_")
Columns = dict[str, list[Any]]


def flat_columns(path: Path) -> Iterator[Columns]:
    """Columns by name, some rows at a time: parameters, reasons of each proposal, and its outcome.

    All parts have the same columns. None stands for an inactive parameter, an unknown constraint,
    and a value that was not `REPORTED`. Earlier releases may have stored secrets; this leaves out
    what looks like one.
    """
    space = read_space(path)
    with reading(path) as file:
        rows = int(file.attrs["rows"])
        identity = json.loads(file.attrs["identity"])
        numbers = file["outcomes"].get("numbers", {})
        reported = [
            name
            for name in numbers
            if any((~np.isnan(numbers[name][part])).any() for part in _slices(rows))
        ]
        ran = _Ran(file, sorted(identity.get("objectives", ())))
        for part in _slices(rows):
            columns = _columns(file, part, space, identity, reported)
            yield columns | ran.columns(columns["iteration"], columns["slot"])


def _slices(rows: int) -> list[slice]:
    return [slice(start, min(start + ROWS, rows)) for start in range(0, rows, ROWS)]


def _columns(
    file: h5py.File, part: slice, space: Space, identity: dict[str, Any], reported: list[str]
) -> Columns:
    p, o = file["proposals"], file["outcomes"]
    several = sorted(identity.get("objectives", ()))
    size = part.stop - part.start

    def of(table: h5py.Group, name: str) -> list[Any]:
        if name not in table:  # columns that later releases added
            return [OPTIONAL_COLUMNS[name]] * size
        column = table[name]
        return list((column.asstr() if column.dtype.kind == "O" else column)[part].tolist())

    def each(prefix: str, table: h5py.Group, group: str) -> Columns:
        return {f"{prefix}_{n}": of(table[group], n) for n in several if group in table}

    iteration, slot = of(p, "iteration"), of(p, "slot")
    flags = {n: of(o["constraints"], n) for n in identity["constraints"]}
    return {
        "id": [f"{t}-{i}" for t, i in zip(iteration, slot, strict=True)],
        "iteration": iteration,
        "slot": slot,
        **_parameters(space, p["v"][part]),
        "status": [STATUSES[s] for s in of(o, "status")],
        "objective": of(o, "objective"),
        **each("objective", o, "objectives"),
        **{f"constraint_{n}": [f if f >= 0 else None for f in flag] for n, flag in flags.items()},
        **{f"number_{n}": [None if v != v else v for v in of(o["numbers"], n)] for n in reported},
        "noise": of(o, "noise"),
        **each("noise", o, "noises"),
        "stage": of(p, "stage"),
        "source": of(p, "source"),
        "origin": [_sorted(text) if text else "" for text in of(p, "origin")],
        "acquisition": of(p, "value"),
        **{n: of(p, n) for n in ("runner_up", "mean", "std")},
        **each("mean", p, "means"),
        **each("std", p, "stds"),
        **each("aim", p, "aims"),
        **{n: of(p, n) for n in ("feasibility", "num_pending", "deviation_scale")},
        **{n: of(o, n) for n in ("duration", "attempts", "host", "job", "started", "finished")},
        "message": [redacted(text) for text in of(o, "message")],
        "metadata": [_shown(text) for text in of(o, "metadata")],
    }


class _Ran:
    """The last point of each evaluation's curve, and the reason if it was stopped early."""

    def __init__(self, file: h5py.File, objectives: list[str]):
        several = objectives if len(objectives) > 1 else []
        self.values = [f"last_value_{name}" for name in several] or ["last_value"]
        self.records = file["iterations"]
        some = [r[progress.NAME] for r in self.records.values() if progress.NAME in r]
        self.curves = any(len(group["points"]) for group in some)
        self.stops = any(group["stops"].asstr()[()] != "{}" for group in some)
        self.read: dict[int, Any] = {}

    def columns(self, iteration: list[int], slot: list[int]) -> Columns:
        """The columns for rows of these iterations and slots; empty if nothing was reported."""
        names = ("last_step", *self.values) if self.curves else ()
        stops = ("worse_than", "of") if self.curves and self.stops else ()
        found: Columns = {n: [] for n in (*names, *(f"stopped_{s}" for s in stops))}
        for t, i in zip(iteration, slot, strict=True) if found else ():
            if t not in self.read:
                self.read = {t: progress.read(self.records[str(t)])}
            curve, stop = (part.get(i) for part in self.read[t])
            last = curve.last if curve else (None,) * (len(names) + 1)
            for name, value in zip(names, last, strict=False):
                found[name].append(value)
            for name in stops:
                found[f"stopped_{name}"].append(stop.get(name) if curve and stop else None)
        return found


def _parameters(space: Space, v: np.ndarray) -> Columns:
    """The natural values of points v (n, k), in the order of the configuration."""
    place = {column.name: j for j, column in enumerate(space.columns)}
    found: Columns = {}
    for name in space.parameters:
        if name in space.fixed:
            found[f"parameter_{name}"] = [space.fixed[name]] * len(v)
            continue
        column = space.columns[place[name]]
        values = v[:, place[name]].tolist()
        found[f"parameter_{name}"] = [
            None if value != value else natural(column, value) for value in values
        ]
    return found


def _sorted(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


@lru_cache(maxsize=4096)
def _shown(text: str) -> str:
    """Metadata without what looks like a secret."""
    return json.dumps(each_text(json.loads(text), redacted), sort_keys=True)
