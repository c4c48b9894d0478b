"""Whether a file has the structure of an archive: types, shapes, counts, required members, JSON.

It also checks their digests: whether the values are the written ones. `dngo.archive.verification`
says all that differs. The checks run in a process of their own (`dngo.storage.hdf5`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import h5py
import numpy as np
from pydantic import TypeAdapter

from dngo.archive import layout, progress
from dngo.archive.digests import chain_problems, iteration_digest
from dngo.batch import STATUSES
from dngo.fronts import MOST
from dngo.space import Space
from dngo.space.types import parameters_of_archive
from dngo.storage.hdf5 import SLICE, Altered, Unsound, check_tree

_KINDS = {"f8": "f", "i8": "iu", "i1": "iu"}


def check_header(file: h5py.File, size: int) -> None:
    """Raise Unsound unless the attributes of the root can be used, and their counts are right.

    Raises Altered if the root and the last iteration do not have their digests. A file of another
    kind or of a newer format passes here. Reading it reports that.
    """
    if not _is_ours(file):
        return
    attributes = _attributes(file, layout.ROOT_ATTRIBUTES)
    space_of(attributes["identity"])
    if len(_member(file, "iterations")) != attributes["iterations"]:
        raise Unsound(f"it counts {attributes['iterations']} iterations, but has others")
    _array(_member(file, "proposals"), "slot", (attributes["rows"],))
    last = attributes["iterations"] - 1
    known = (
        _attributes(_member(file["iterations"], str(last)), {"digest": str}) if last >= 0 else {}
    )
    if known and known["digest"] != attributes["digest"]:
        raise Altered("the archive's digest is not its last iteration's")
    if known and iteration_digest(file, file[f"iterations/{last}"]) != known["digest"]:
        raise Altered(f"iteration {last}: its values do not have the digest that was recorded")


def check_archive(file: h5py.File, size: int) -> None:
    """Raise Unsound unless every part of the file can be used, and Altered unless all digests hold."""
    check_structure(file, size)
    if _is_ours(file):
        for problem in chain_problems(file)[:1]:
            raise Altered(problem)


def check_structure(file: h5py.File, size: int) -> None:
    """Raise Unsound unless every part of the file can be used.

    A file of another kind or of a newer format passes here. Reading it reports that.
    """
    if _is_ours(file):
        _check_parts(file, size)


def check_appended(file: h5py.File, size: int, rows: int, iterations: int) -> None:
    """Like `check`, for an archive whose first rows and iterations were copied from a sound
    archive.

    The time depends only on what was appended.
    """
    _check_parts(file, size, rows, iterations)


def _check_parts(
    file: h5py.File, size: int, known_rows: int = 0, known_iterations: int = 0
) -> None:
    def known(name: str) -> float:
        if name.startswith(("/proposals/", "/outcomes/")):
            return known_rows
        number = name.removeprefix("/iterations/")
        return math.inf if number.isdecimal() and int(number) < known_iterations else 0

    check_tree(file, size, known)
    root = _attributes(file, layout.ROOT_ATTRIBUTES)
    rows, space = root["rows"], space_of(root["identity"])
    parameters = {c.name: None for c in space.columns}
    for place, columns in layout.tables(root["identity"], parameters).items():
        table, _, inside = place.partition("/")
        group = _member(file, table)
        _columns(_member(group, inside) if inside else group, columns, rows)
    proposals, outcomes = file["proposals"], file["outcomes"]
    _points(_array(proposals, "v", (rows, space.k)), space, known_rows)
    _array(proposals, "x", (rows, space.d))
    # This checks columns as well to which nothing refers.
    for column in [*layout.columns_of(proposals), *layout.columns_of(outcomes)]:
        if column.shape[:1] != (rows,):
            raise Unsound(f"{column.name}: has shape {column.shape}, but {rows} rows are expected")
    _outcomes(outcomes, known_rows)
    known_so_far = known_rows, known_iterations
    objectives = max(1, len(root["identity"].get("objectives", ())))
    group = _member(file, "iterations")
    _iterations(group, root["iterations"], rows, proposals, known_so_far, objectives)
    if "transfer" in file:
        check_transfer(file["transfer"], space)


def _is_ours(file: h5py.File) -> bool:
    version = file.attrs.get("format_version")
    return version is not None and int(version) <= layout.FORMAT_VERSION


# ---- attributes and members ---------------------------------------------------------------------


def _attributes(
    item: h5py.Group, kinds: Mapping[str, type], optional: Iterable[str] = ()
) -> dict[str, Any]:
    """The attributes of a group, JSON parsed. Their types are checked."""
    found = {}
    for name, kind in kinds.items():
        value = item.attrs.get(name)
        if value is None and name in optional:
            continue
        if value is None:
            raise Unsound(f"{item.name}: has no attribute {name}")
        found[name] = _value(f"{item.name}@{name}", value, kind)
    return found


def _value(name: str, value: Any, kind: type) -> Any:
    if kind is np.ndarray:
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "iuf":
            raise Unsound(f"{name}: is not a list of numbers")
        return value
    if kind is int:
        if not isinstance(value, np.integer) or value < 0:
            raise Unsound(f"{name}: is {str(value)[:40]}, not a whole number")
        return int(value)
    if kind is float:
        if not isinstance(value, np.floating | np.integer):
            raise Unsound(f"{name}: is not a number")
        return float(value)
    if not isinstance(value, str):
        raise Unsound(f"{name}: is not text")
    return _json(name, value) if kind is dict else value


def _json(name: str, text: str | bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Unsound(f"{name}: is not JSON") from None
    if not isinstance(document, dict):
        raise Unsound(f"{name}: is not a JSON object")
    return document


def _member(group: h5py.Group, name: str) -> h5py.Group:
    found = group.get(name, getlink=True)
    if not isinstance(found, h5py.HardLink) or not isinstance(group[name], h5py.Group):
        raise Unsound(f"{group.name}: has no group {name}")
    return group[name]


def _array(group: h5py.Group, name: str, shape: tuple[int, ...], kinds: str = "iuf") -> Any:
    """A required dataset. Its shape (None: any number of rows) and its kind are checked."""
    found = group.get(name, getlink=True)
    if not isinstance(found, h5py.HardLink) or not isinstance(group[name], h5py.Dataset):
        raise Unsound(f"{group.name}: has no dataset {name}")
    dataset = group[name]
    if dataset.shape != shape:
        raise Unsound(f"{dataset.name}: has shape {dataset.shape}, but {shape} is expected")
    if dataset.dtype.kind not in kinds:
        raise Unsound(f"{dataset.name}: holds values of another type")
    return dataset


# ---- tables -------------------------------------------------------------------------------------


def _columns(group: h5py.Group, columns: Mapping[str, Any], rows: int) -> None:
    for name, kind in columns.items():
        if name in layout.OPTIONAL_COLUMNS and name not in group:
            continue
        if kind is layout.STATUS:
            dataset = _array(group, name, (rows,), "u")
            known = (layout.STATUS, layout.EARLIER_STATUS, layout.ALL_STATUS)
            if h5py.check_enum_dtype(dataset.dtype) not in map(h5py.check_enum_dtype, known):
                raise Unsound(f"{dataset.name}: has names other than {', '.join(STATUSES)}")
        else:
            # The space does not say whether a parameter's column has numbers or the text of
            # choices.
            _array(group, name, (rows,), "fO" if kind is None else _KINDS.get(str(kind), "O"))


def _points(v: h5py.Dataset, space: Space, first: int) -> None:
    values = v[first:]
    for j, column in enumerate(space.columns):
        known = values[:, j][~np.isnan(values[:, j])]
        if column.choices is not None:
            good = np.isin(known, np.arange(len(column.choices)))
        else:
            good = np.isfinite(known)
        if not np.all(good):
            raise Unsound(f"{v.name}: has a value of {column.name} that is not in the space")


def _outcomes(outcomes: h5py.Group, first: int) -> None:
    if np.any(outcomes["status"][first:] >= len(STATUSES)):
        raise Unsound(f"{outcomes.name}/status: has a status that does not exist")
    metadata = outcomes["metadata"]
    name = metadata.name
    for start in range(first, len(metadata), SLICE):
        for text in set(metadata[start : start + SLICE].tolist()):
            _json(name, text)


def space_of(identity: dict[str, Any]) -> Space:
    """The search space of an identity; raises Unsound if a required part of the identity is missing."""
    kinds = {"study": str, "direction": str, "constraints": list, "space": dict}
    for name, kind in kinds.items():
        if not isinstance(identity.get(name), kind):
            raise Unsound(f"/@identity: has no {name}")
    if identity["direction"] not in ("minimize", "maximize"):
        raise Unsound("/@identity: has no known direction")
    several = TypeAdapter(dict[str, str]).validate_python(identity.get("objectives", {}))
    if not set(several.values()) <= {"minimize", "maximize"} or len(several) > MOST:
        raise Unsound("/@identity: has objectives with unknown directions")
    names = identity["constraints"]
    numbers = TypeAdapter(list[str]).validate_python(identity.get("thresholds", []))
    if not all(isinstance(name, str) for name in names) or not set(numbers) <= set(names):
        raise Unsound("/@identity: has constraints without a name")
    parameters = parameters_of_archive(identity["space"])
    known = TypeAdapter(list[str]).validate_python(identity.get("space_constraints", []))
    return Space(dict(parameters), known)


# ---- iterations ---------------------------------------------------------------------------------


def _iterations(
    group: h5py.Group,
    iterations: int,
    rows: int,
    proposals: h5py.Group,
    known: tuple[int, int],
    objectives: int,
) -> None:
    """known: how many rows and iterations need no check."""
    before, first_iteration = known
    numbers, slots = proposals["iteration"][before:], proposals["slot"][before:]
    row = before
    # Compare the counts first: a wrong attribute may name a thousand million rows.
    if iterations > len(group):
        raise Unsound(f"it counts {iterations} iterations, but has {len(group)}")
    for t in range(first_iteration, iterations):
        record = _member(group, str(t))
        found = _attributes(record, layout.ITERATION_ATTRIBUTES, layout.OPTIONAL_ATTRIBUTES)
        first, size = found["first_row"], found["rows"]
        if first != row or first + size > rows:
            raise Unsound(f"{record.name}: starts at row {first}, but row {row} is expected")
        row = first + size
        own = slice(first - before, row - before)
        if np.any(numbers[own] != t) or not np.array_equal(slots[own], np.arange(size)):
            raise Unsound(f"{record.name}: rows {first} to {row - 1} belong to another iteration")
        if found["training_iterations"] > t or not _below(found["pending"], t):
            raise Unsound(f"{record.name}: learnt from later iterations")
        progress.check(record, size, objectives)
        if "surrogate" in record:
            _surrogate(_member(record, "surrogate"), size)
    if row != rows:
        raise Unsound(f"it counts {rows} rows, but its iterations have {row}")


def _below(values: Iterable[Any], t: int) -> bool:
    return all(0 <= value < t for value in values)


def _surrogate(group: h5py.Group, rows: int) -> None:
    kinds = {
        "kept": str,
        "model_digest": str,
        "settings": dict,
        "acquisition": dict,
        "classifier": dict,
        "constraints": dict,
        "environment": dict,
        "versions": dict,
        "scale": str,
        "summary": dict,
        "training_iterations": int,
        "seconds": float,
    }
    for name, kind in kinds.items():
        if name in group.attrs:
            _value(f"{group.name}@{name}", group.attrs[name], kind)
    replaceable = group.attrs.get("kept") == "last"
    if replaceable and "model_digest" not in group.attrs:
        raise Unsound(f"{group.name}: has no attribute model_digest")
    if "model" in group or not replaceable:
        _member(group, "model")
    if "foreseen" in group:
        width = len(layout.foreseen_columns(group["foreseen"]))
        _array(group, "foreseen", (rows, width), "f")


def check_transfer(group: h5py.Group, space: Space) -> None:
    """Raise Unsound unless a group holds evaluations of earlier studies."""
    for i in range(len(group)):
        part = _member(group, str(i))
        _attributes(part, layout.TRANSFER_ATTRIBUTES)
        y = part.get("y")
        rows = len(y) if isinstance(y, h5py.Dataset) and y.ndim == 1 else 0
        for name, width in zip(layout.TRANSFER_ARRAYS, ((space.k,), (space.d,), ()), strict=True):
            _array(part, name, (rows, *width), "f")
        for name, number in part.get("numbers", {}).items():
            value = number.get("value") if isinstance(number, h5py.Group) else None
            rows = len(value) if isinstance(value, h5py.Dataset) and value.ndim == 1 else 0
            _array(_member(part["numbers"], name), "x", (rows, space.d), "f")
            _array(part["numbers"][name], "value", (rows,), "f")
        for name in part.get("objectives", {}):
            _array(part["objectives"], name, (len(part["y"]),), "f")
