"""Digests of an archive's values, not of its bytes. They form a chain with a link for each iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import h5py

from dngo.archive.layout import OPTIONAL_COLUMNS, columns_of, plain
from dngo.storage.digest import digest


def genesis_digest(file: h5py.File) -> str:
    kept = ("format", "format_version", "identity")
    header = {k: plain(file.attrs[k]) for k in kept}
    return digest(header, contents(file["transfer"])) if "transfer" in file else digest(header)


def iteration_digest(file: h5py.File, group: h5py.Group) -> str:
    first, rows = int(group.attrs["first_row"]), int(group.attrs["rows"])
    part = slice(first, first + rows)
    # An archive that an earlier version began may have columns that its first iterations lack.
    later = {f"/proposals/{n}" for n in set(OPTIONAL_COLUMNS) - set(recorded_columns(group))}
    tables = _Columns(
        {
            d.name: d
            for name in ("proposals", "outcomes")
            for d in columns_of(file[name])
            if d.name not in later
        },
        part,
    )
    attributes = {k: plain(v) for k, v in group.attrs.items() if k != "digest"}
    surrogate = contents(group["surrogate"]) if "surrogate" in group else {}
    if is_replaceable(group):  # the digest of the model stands for the model
        surrogate = {k: v for k, v in surrogate.items() if not k.startswith(("/model/", "/model@"))}
    # In earlier releases a digest did not name a field that no evaluation had reported.
    progress = [contents(group["progress"])] if "progress" in group else []
    return digest(tables, attributes, surrogate, *progress)


class _Columns(Mapping[str, Any]):
    """Some rows of columns, by name. A column is read when it is asked for."""

    def __init__(self, columns: dict[str, h5py.Dataset], part: slice):
        self.columns, self.part = columns, part

    def __getitem__(self, name: str) -> Any:
        column = self.columns[name]
        return column.asstr()[self.part] if column.dtype.kind == "O" else column[self.part]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def is_replaceable(group: h5py.Group) -> bool:
    """Whether the archive may drop the model of an iteration once there is a later one."""
    return "surrogate" in group and group["surrogate"].attrs.get("kept") == "last"


def model_digest(model: h5py.Group) -> str:
    """The digest of a stored model."""
    return digest(contents(model))


def recorded_columns(group: h5py.Group) -> list[str]:
    """The optional columns for which an iteration's rows have values."""
    return str(group.attrs.get("columns", "")).split()


def chain_problems(file: h5py.File) -> list[str]:
    """A line for each link of the chain that is wrong. No lines: no value was altered."""
    problems: list[str] = []
    previous = genesis_digest(file)
    for t in range(int(file.attrs["iterations"])):
        group = file[f"iterations/{t}"]
        first, rows = int(group.attrs["first_row"]), int(group.attrs["rows"])
        if str(group.attrs["previous"]) != previous:
            problems.append(f"iteration {t}: does not name the digest of the iteration before it")
        if iteration_digest(file, group) != str(group.attrs["digest"]):
            problems.append(
                f"iteration {t} (rows {first} to {first + rows - 1}): its values do not have "
                "the digest that was recorded"
            )
        model = group.get("surrogate/model") if is_replaceable(group) else None
        if model is not None and model_digest(model) != group["surrogate"].attrs["model_digest"]:
            problems.append(
                f"iteration {t}: its surrogate's model does not have the digest that was recorded"
            )
        previous = str(group.attrs["digest"])
    if str(file.attrs["digest"]) != previous:
        problems.append("the archive's digest is not its last iteration's")
    return problems


def contents(item: h5py.Group | h5py.Dataset, name: str = "") -> dict[str, Any]:
    """Every dataset ("/a/b") and attribute ("/a/b@c") below a group, by name."""
    found = {f"{name}@{key}": plain(value) for key, value in item.attrs.items()}
    if isinstance(item, h5py.Dataset):
        found[name] = item.asstr()[()] if item.dtype.kind == "O" else item[()]
    else:
        for key in item:
            found |= contents(item[key], f"{name}/{key}")
    return found
