"""Reading the columns of text of an archive, of which few rows are wanted, or few have any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dngo.archive.layout import SLICE, words
from dngo.archive.reading import reading, rows_of
from dngo.batch import TOLD


def read_metadata(
    path: Path, *, iterations: int | None = None, rows: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """The metadata that the objective reported: a dict for each row of `read_table`.

    rows: the numbers of the rows that are wanted, in ascending order; None: all.
    """
    with reading(path) as file:
        column, n = file["outcomes/metadata"].asstr(), rows_of(file, iterations)
        if rows is None:
            return list(map(json.loads, column[:n]))
        found: list[dict[str, Any]] = []
        for start in range(0, n, SLICE):
            stop = min(start + SLICE, n)
            first, last = np.searchsorted(rows, [start, stop])
            if first < last:
                found += map(json.loads, column[start:stop][rows[first:last] - start])
        return found


def read_entered(path: Path) -> set[str]:
    """Names of the entries (`dngo.waiting`) that have become rows of an archive."""
    with reading(path) as file:
        return {origin["entry"] for origin in _origins(file, None) if "entry" in origin}


def read_repeated(path: Path, *, iterations: int | None = None) -> set[str]:
    """Ids of the rows that a later row of the first iterations repeats (`dngo retry`)."""
    with reading(path) as file:
        return {o["repeats"] for o in _origins(file, iterations) if o.get("repeats")}


def read_unchosen(path: Path) -> int:
    """How many iterations after the first have only points that people entered: no model chose one."""
    with reading(path) as file:
        n, p = rows_of(file, None), file["proposals"]
        entered = np.isin(words(p["source"], n), TOLD)
        if "origin" in p:
            entered |= words(p["origin"], n).astype(bool)
        if not entered.any():
            return 0
        iteration = p["iteration"][:n]
        every = set(iteration[iteration > 0].tolist())
        return len(every - set(iteration[~entered].tolist()))


def _origins(file: h5py.File, iterations: int | None) -> list[dict[str, Any]]:
    """The origins of the rows that have one, of the first iterations: what people entered, and
    what repeats another row. Most rows have none.
    """
    column = file["proposals"].get("origin")
    if column is None:
        return []
    found = words(column, rows_of(file, iterations))
    return [json.loads(text) for text in found[found.astype(bool)]]
