"""Whether an archive holds exactly what was written: every value is the same, and nothing was added."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import h5py

from dngo.archive import layout
from dngo.archive.digests import chain_problems, recorded_columns
from dngo.archive.reading import reading
from dngo.archive.structure import space_of

OF_EVERY_MODEL = ("constraints", "diagnostics")  # groups, which may be empty
SIGNATURE = b"\x89HDF\r\n\x1a\n"
COMMENT = 13  # the number of this kind of message in an object's header
END = {0: 40, 1: 44, 2: 28, 3: 28}  # where the superblock says the end of the file, by its version


def verify(path: Path) -> list[str]:
    """Look for altered or added parts. Returns a line for each, and none if all is well.

    Parts of a surrogate, and of the evaluations of earlier studies, are checked by their digests
    only. Raises UserError if the file cannot be used as an archive at all.
    """
    with reading(path, as_it_is=True) as file:
        return [*_around(path), *additions(file), *chain_problems(file)]


def additions(file: h5py.File) -> list[str]:
    """A line for each group, dataset and attribute that is unknown, or required but missing."""
    identity = json.loads(file.attrs["identity"])
    iterations = [str(t) for t in range(int(file.attrs["iterations"]))]
    members = layout.tables(identity, {c.name: None for c in space_of(identity).columns})
    found = [
        *_beside(file, ["proposals", "outcomes", "iterations", "transfer"], layout.ROOT_ATTRIBUTES)
    ]
    for place, columns in members.items():
        inside = [name.split("/")[1] for name in members if name.startswith(f"{place}/")]
        matrices = ["v", "x"] if place == "proposals" else []
        found += _beside(file[place], [*columns, *matrices, *inside])
    found += _beside(file["iterations"], iterations)
    for t in iterations:
        record = file["iterations"][t]
        found += _beside(record, ["surrogate", "progress"], layout.ITERATION_ATTRIBUTES)
        if "progress" in record:
            found += _beside(record["progress"], ["points", "stops"])
        found += _before_their_time(file["proposals"], record)
        known = {f"{model.name}/{name}" for model in _models(record) for name in OF_EVERY_MODEL}
        found += _empty_groups(record, known)
        found += (f"{name}: is missing" for name in sorted(known) if name not in file)
    found += _lost_model(file, iterations)
    found += _empty_groups(file["transfer"], set()) if "transfer" in file else []
    return [*found, *_comments(file)]


def _around(path: Path) -> Iterator[str]:
    """A line for bytes before or after the part of the file that HDF5 reads."""
    with path.open("rb") as stream:
        start, size = stream.read(64), os.fstat(stream.fileno()).st_size
    if not start.startswith(SIGNATURE):
        yield "a user block was added before it"
    elif (place := END.get(start[8])) is not None:
        more = size - int.from_bytes(start[place : place + 8], "little")
        if more > 0:
            yield f"{more} bytes were added after its end"


def _comments(file: h5py.File) -> list[str]:
    """A line for each comment. HDF5 keeps comments with an object, and no digest covers them."""
    found = [file["/"]]
    file.visititems(lambda name, item: found.append(item))
    return [
        f"{item.name}: a comment was added"
        for item in found
        if h5py.h5o.get_info(item.id).hdr.mesg.present >> COMMENT & 1
    ]


def _beside(
    group: h5py.Group, members: Iterable[str], attributes: Iterable[str] = ()
) -> Iterator[str]:
    """Unknown members and attributes of a group, and attributes of its datasets."""
    known, place = set(members), group.name.rstrip("/")
    for name in sorted(set(group.attrs) - set(attributes)):
        yield f"{group.name}@{name}: was added"
    for name in sorted(group):
        if name not in known:
            yield f"{place}/{name}: was added"
        elif isinstance(group[name], h5py.Dataset):
            yield from (f"{place}/{name}@{a}: was added" for a in sorted(group[name].attrs))


def _before_their_time(proposals: h5py.Group, record: h5py.Group) -> Iterator[str]:
    """A line for each column that has values in rows older than the column."""
    first, rows = int(record.attrs["first_row"]), int(record.attrs["rows"])
    for name in set(layout.OPTIONAL_COLUMNS) & set(proposals) - set(recorded_columns(record)):
        column = proposals[name].asstr() if proposals[name].dtype.kind == "O" else proposals[name]
        if any(value != layout.OPTIONAL_COLUMNS[name] for value in column[first : first + rows]):
            yield (
                f"{proposals[name].name}: has values in {record.name}, but that iteration "
                "recorded none"
            )


def _empty_groups(group: h5py.Group, known: set[str]) -> Iterator[str]:
    """A line for each empty group, since no digest shows it. Some known groups may be empty."""
    for name in sorted(group):
        item = group[name]
        if isinstance(item, h5py.Group):
            if not len(item) and not len(item.attrs) and item.name not in known:
                yield f"{item.name}: was added"
            yield from _empty_groups(item, known)


def _lost_model(file: h5py.File, iterations: list[str]) -> Iterator[str]:
    """A line if the model of the last surrogate is missing. No later model has replaced it."""
    records = (file["iterations"][t] for t in reversed(iterations))
    last = next((record for record in records if "surrogate" in record), None)
    if last is not None and "model" not in last["surrogate"]:
        yield f"{last.name}/surrogate/model: is missing"


def _models(record: h5py.Group) -> list[h5py.Group]:
    """The model of an iteration, and the models within it: of a cost, constraints' numbers, several
    objectives.
    """
    models = list(_groups(record, "surrogate/model"))
    for each in models:  # the list grows during the loop
        models += _groups(each, "cost")
        for constraints in _groups(each, "constraints"):
            for name in constraints:
                models += _groups(constraints, f"{name}/number")
        for objectives in _groups(each, "objectives"):
            for name in objectives:
                models += _groups(objectives, name)
    return models


def _groups(group: h5py.Group, path: str) -> list[h5py.Group]:
    """The group at a path, if there is one."""
    found = group.get(path)
    return [found] if isinstance(found, h5py.Group) else []
