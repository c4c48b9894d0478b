"""What stands where in an archive.

Layout (format 1), readable by plain h5py::

    /                      attributes: format_version, identity (JSON), rows, iterations, digest
    /proposals/            one row per proposal, in the order (iteration, slot)
        iteration slot source value mean std feasibility num_pending runner_up
        stage  deviation_scale  origin (JSON, of points that people entered)
        parameters/NAME    natural values; numbers are NaN, choices "" if inactive
        means/NAME stds/NAME aims/NAME   for each of several objectives: its prediction, and its
                           weight in the pick
        v  x               rows as matrices: natural values, and the model's inputs
    /outcomes/             the same rows
        status objective noise duration attempts host job started finished message metadata
        constraints/NAME   1 satisfied, 0 violated, -1 unknown; by the threshold at that time
        numbers/NAME       for each constraint with a threshold: the reported number, or NaN
        objectives/NAME noises/NAME   for each of several objectives; `objective` is then NaN
    /iterations/T/         attributes: config, versions, columns, `outlook`, environment, merged
                           (environment of the merge), seed, spawn_key, training_iterations,
                           training_digest, pending, first_row, rows, points_per_job, previous,
                           digest
    /iterations/T/surrogate/  attributes: settings, versions, environment, summary ... of the fit,
                           kept, model_digest
        model/             the fitted model; if `kept` is "last", only the newest surrogate has it
        `foreseen`         its predictions of its batch (`dngo.archive.predictions`)
        `told`             outcomes that it knew in addition to its training iterations
    /iterations/T/progress/   points, stops: values that evaluations reported while they ran, if any
                           (`dngo.archive.progress`)
    /transfer/I/           evaluations of earlier studies (`dngo.archive.transfer`), if any
        numbers/NAME/      of a constraint with a threshold in both studies
        objectives/NAME    of one of several objectives
"""

from __future__ import annotations

import json
from typing import Any

import h5py
import numpy as np

from dngo.batch import STATUSES

FORMAT_VERSION = 1
SLICE = 8192  # rows of text read at once
TEXT = h5py.string_dtype("utf-8")


def _statuses(number: int) -> Any:
    return h5py.enum_dtype({s: i for i, s in enumerate(STATUSES[:number])}, basetype="u1")


# The names of statuses in an archive. They lack `stopped` if the study stops nothing early, and
# `withdrawn` if the archive is older than version 0.2. The next iteration that needs one of them
# adds it.
STATUS, EARLIER_STATUS, ALL_STATUS = _statuses(-1), _statuses(-2), _statuses(len(STATUSES))
PROPOSAL_COLUMNS: dict[str, Any] = {
    "iteration": "i8",
    "slot": "i8",
    "source": TEXT,
    "value": "f8",
    "mean": "f8",
    "std": "f8",
    "feasibility": "f8",
    "num_pending": "i8",
    "runner_up": "f8",
    "stage": TEXT,
    "deviation_scale": "f8",
    "origin": TEXT,
}
OUTCOME_COLUMNS: dict[str, Any] = {
    "status": STATUS,
    "objective": "f8",
    "noise": "f8",
    "duration": "f8",
    "attempts": "i8",
    "host": TEXT,
    "job": TEXT,
    "started": "f8",
    "finished": "f8",
    "message": TEXT,
    "metadata": TEXT,
}

# Groups with a column of numbers for each of several objectives. A study with one objective lacks
# these groups.
PROPOSAL_GROUPS = ("means", "stds", "aims")
OUTCOME_GROUPS = ("objectives", "noises")

# Later versions added these; an old archive may lack them. Earlier rows of /proposals then have
# this value. The attribute `columns` of an iteration names the columns that its digest covers.
OPTIONAL_COLUMNS: dict[str, Any] = {"stage": "", "deviation_scale": 1.0, "origin": ""}
OPTIONAL_ATTRIBUTES = ("versions", "columns", "outlook")
# Attributes and their types; dict stands for a JSON object, ndarray for a list of numbers.
ROOT_ATTRIBUTES: dict[str, type] = {
    "format": str,
    "format_version": int,
    "identity": dict,
    "rows": int,
    "iterations": int,
    "digest": str,
}
ITERATION_ATTRIBUTES: dict[str, type] = {
    "config": dict,
    "versions": dict,
    "columns": str,
    "outlook": dict,
    "environment": dict,
    "merged": dict,
    "seed": int,
    "spawn_key": np.ndarray,
    "points_per_job": int,
    "training_iterations": int,
    "training_digest": str,
    "pending": np.ndarray,
    "first_row": int,
    "rows": int,
    "previous": str,
    "digest": str,
}
TRANSFER_ATTRIBUTES: dict[str, type] = {
    "task": str,
    "file": str,
    "sha256": str,
    "digest": str,
    "rows": int,
    "unsuccessful": int,
    "outside": int,
}
TRANSFER_ARRAYS = ("v", "x", "y")


def tables(identity: dict[str, Any], parameters: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The groups whose columns have a value for each row: the columns of each, with their types.

    The rows as matrices, `v` and `x`, stand beside the columns of `proposals`.
    parameters: the types of the parameters' columns.
    """
    found = {
        "proposals": PROPOSAL_COLUMNS,
        "proposals/parameters": parameters,
        "outcomes": OUTCOME_COLUMNS,
        "outcomes/constraints": dict.fromkeys(identity["constraints"], "i1"),
    }
    if numbers := identity.get("thresholds"):
        found["outcomes/numbers"] = dict.fromkeys(numbers, "f8")
    if several := identity.get("objectives"):
        groups = [f"proposals/{name}" for name in PROPOSAL_GROUPS]
        groups += [f"outcomes/{name}" for name in OUTCOME_GROUPS]
        found |= {group: dict.fromkeys(several, "f8") for group in groups}
    return found


def foreseen_columns(dataset: h5py.Dataset) -> list[tuple[str, str]]:
    """The names of the columns of a surrogate's `foreseen`, in order; raises ValueError if it has
    none.
    """
    found = json.loads(str(dataset.attrs.get("columns")))
    if not isinstance(found, list) or not all(
        isinstance(c, list) and len(c) == 2 and all(isinstance(w, str) for w in c) for c in found
    ):
        raise ValueError(f"{dataset.name}: its columns are not named")
    return [(what, name) for what, name in found]


def columns_of(group: h5py.Group) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []
    for name in sorted(group):
        item = group[name]
        found += [item] if isinstance(item, h5py.Dataset) else columns_of(item)
    return found


def group_of(table: h5py.Group, name: str, part: slice) -> list[dict[str, float]]:
    """The numbers of a group that has a column for each objective: a mapping for each row, without NaN.

    Empty if there is no such group.
    """
    columns = {n: table[name][n][part] for n in table.get(name, ())}
    rows = zip(*columns.values(), strict=True)
    return [
        {n: float(v) for n, v in zip(columns, row, strict=True) if not np.isnan(v)} for row in rows
    ]


def values_of(dataset: h5py.Dataset, part: slice) -> list[Any]:
    values = dataset.asstr()[part] if dataset.dtype.kind == "O" else dataset[part]
    return values.tolist()


def words(column: h5py.Dataset, rows: int) -> np.ndarray:
    """The first rows of a column of text, (n,) objects. Equal texts share one object."""
    known: dict[bytes, str] = {}
    found = np.empty(rows, dtype=object)
    for start in range(0, rows, SLICE):
        part = column[start : min(start + SLICE, rows)].tolist()
        for text in set(part):
            if text not in known:
                known[text] = text.decode()
        found[start : start + len(part)] = [known[text] for text in part]
    return found


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value
