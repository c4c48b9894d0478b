"""Whether an archive is what was written: every value, and nothing beside what was written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import h5py

from dngo.archive.digests import chain_problems, recorded_columns
from dngo.archive.layout import (
    ITERATION_ATTRIBUTES,
    OPTIONAL_COLUMNS,
    OUTCOME_COLUMNS,
    PROPOSAL_COLUMNS,
    ROOT_ATTRIBUTES,
)
from dngo.archive.reading import reading
from dngo.archive.structure import space_of

MAY_BE_EMPTY = ("constraints", "diagnostics", "objective", "surrogate")
OF_EVERY_MODEL = ("constraints", "diagnostics")  # groups, empty or not


def verify(path: Path) -> list[str]:
    """Look for what was altered or added; one line for each such thing, none if all is well.

    What a surrogate and the evaluations of earlier studies consist of is only in the digests.
    Raises UserError if the file cannot be used as an archive at all.
    """
    with reading(path) as file:
        return [*additions(file), *chain_problems(file)]


def additions(file: h5py.File) -> list[str]:
    """One line for each group, dataset and attribute that no archive has, or that each must have."""
    identity = json.loads(file.attrs["identity"])
    tables = ("proposals", "outcomes", "iterations")
    columns = [c.name for c in space_of(identity).columns]
    numbers = identity.get("thresholds", [])
    iterations = [str(t) for t in range(int(file.attrs["iterations"]))]
    found = [
        *_beside(file, [*tables, "transfer"], ROOT_ATTRIBUTES),
        *_beside(file["proposals"], [*PROPOSAL_COLUMNS, "v", "x", "parameters"]),
        *_beside(file["proposals/parameters"], columns),
        *_beside(file["outcomes"], [*OUTCOME_COLUMNS, "constraints", *["numbers"] * bool(numbers)]),
        *_beside(file["outcomes/constraints"], identity["constraints"]),
        *(_beside(file["outcomes/numbers"], numbers) if numbers else []),
        *_beside(file["iterations"], iterations),
    ]
    for t in iterations:
        record = file["iterations"][t]
        found += _beside(record, ["surrogate"], ITERATION_ATTRIBUTES)
        found += _before_their_time(file["proposals"], record)
        found += _empty_groups(record)
        found += _lost_groups(record)
    found += _lost_model(file, iterations)
    return [*found, *(_empty_groups(file["transfer"]) if "transfer" in file else [])]


def _beside(
    group: h5py.Group, members: Iterable[str], attributes: Iterable[str] = ()
) -> Iterator[str]:
    """What a group has beside its members and attributes, and what its datasets are marked with."""
    known, place = set(members), group.name.rstrip("/")
    for name in sorted(set(group.attrs) - set(attributes)):
        yield f"{group.name}@{name}: was added"
    for name in sorted(group):
        if name not in known:
            yield f"{place}/{name}: was added"
        elif isinstance(group[name], h5py.Dataset):
            yield from (f"{place}/{name}@{a}: was added" for a in sorted(group[name].attrs))


def _before_their_time(proposals: h5py.Group, record: h5py.Group) -> Iterator[str]:
    """Columns with values in rows that are of before there was such a column."""
    first, rows = int(record.attrs["first_row"]), int(record.attrs["rows"])
    for name in set(OPTIONAL_COLUMNS) & set(proposals) - set(recorded_columns(record)):
        column = proposals[name].asstr() if proposals[name].dtype.kind == "O" else proposals[name]
        if any(value != OPTIONAL_COLUMNS[name] for value in column[first : first + rows]):
            yield f"{proposals[name].name}: has values in {record.name}, which recorded none"


def _empty_groups(group: h5py.Group) -> Iterator[str]:
    """Groups in which nothing is, and of which a digest cannot tell; some of a model's may be empty."""
    for name in sorted(group):
        item = group[name]
        if isinstance(item, h5py.Group):
            if not len(item) and not len(item.attrs) and name not in MAY_BE_EMPTY:
                yield f"{item.name}: was added"
            yield from _empty_groups(item)


def _lost_model(file: h5py.File, iterations: list[str]) -> Iterator[str]:
    """The model of the last surrogate, which no later one has replaced."""
    records = (file["iterations"][t] for t in reversed(iterations))
    last = next((record for record in records if "surrogate" in record), None)
    if last is not None and "model" not in last["surrogate"]:
        yield f"{last.name}/surrogate/model: is missing"


def _lost_groups(record: h5py.Group) -> Iterator[str]:
    """Groups that every model has, of which a digest cannot tell where they were empty.

    The models of a cost and of a constraint's number stand within that of the objective.
    """
    models = list(_groups(record, "surrogate/model"))
    for each in models:
        yield from (f"{each.name}/{n}: is missing" for n in OF_EVERY_MODEL if n not in each)
        models += _groups(each, "cost")
        for constraints in _groups(each, "constraints"):
            for name in constraints:
                models += _groups(constraints, f"{name}/number")


def _groups(group: h5py.Group, path: str) -> list[h5py.Group]:
    """What lies there, if it is a group."""
    found = group.get(path)
    return [found] if isinstance(found, h5py.Group) else []
