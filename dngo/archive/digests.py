"""Digests of an archive's values, not of its bytes. They form a chain with a link for each iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import h5py

from dngo.archive.layout import OPTIONAL_COLUMNS, columns_of, plain
from dngo.storage.digest import digest

AHEAD = 8192  # rows of a table in memory


def genesis_digest(file: h5py.File) -> str:
    kept = ("format", "format_version", "identity")
    header = {k: plain(file.attrs[k]) for k in kept}
    return digest(header, contents(file["transfer"])) if "transfer" in file else digest(header)


def iteration_digest(file: h5py.File, group: h5py.Group, ahead: Ahead | None = None) -> str:
    """The digest of an iteration. ahead: what was read of the tables, if many digests are wanted."""
    first, rows = int(group.attrs["first_row"]), int(group.attrs["rows"])
    # An archive that an earlier version began may have columns that its first iterations lack.
    later = {f"/proposals/{n}" for n in set(OPTIONAL_COLUMNS) - set(recorded_columns(group))}
    tables = (ahead or Ahead(file, rows)).rows(slice(first, first + rows), later)
    attributes = {k: plain(v) for k, v in group.attrs.items() if k != "digest"}
    surrogate = contents(group["surrogate"]) if "surrogate" in group else {}
    if is_replaceable(group):  # the digest of the model stands for the model
        surrogate = {k: v for k, v in surrogate.items() if not k.startswith(("/model/", "/model@"))}
    # In earlier releases a digest did not name a field that no evaluation had reported.
    progress = [contents(group["progress"])] if "progress" in group else []
    return digest(tables, attributes, surrogate, *progress)


class Ahead:
    """The columns of an archive's tables, of which some rows at a time are in memory.

    A column is packed in pieces of many rows. Each piece is unpacked once, and not once for every
    iteration in it.
    """

    def __init__(self, file: h5py.File, rows: int = AHEAD):
        self._columns = {d.name: d for n in ("proposals", "outcomes") for d in columns_of(file[n])}
        self._rows = rows
        self._held: dict[str, tuple[int, Any]] = {}

    def rows(self, part: slice, left_out: set[str]) -> Mapping[str, Any]:
        """Some rows of the columns by name. A column is read when it is asked for."""
        return _Rows(self, [name for name in self._columns if name not in left_out], part)

    def read(self, name: str, part: slice) -> Any:
        """Some rows of one column."""
        first, values = self._held.get(name, (0, ()))
        if part.start < first or part.stop > first + len(values):
            first, last = part.start, max(part.stop, part.start + self._rows)
            values = self._columns[name][first:last]
            self._held[name] = first, values
        return values[part.start - first : part.stop - first]


class _Rows(Mapping[str, Any]):
    """Some rows of columns, by name."""

    def __init__(self, ahead: Ahead, names: list[str], part: slice):
        self.ahead, self.names, self.part = ahead, names, part

    def __getitem__(self, name: str) -> Any:
        return self.ahead.read(name, self.part)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


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
    previous, ahead = genesis_digest(file), Ahead(file)
    for t in range(int(file.attrs["iterations"])):
        group = file[f"iterations/{t}"]
        first, rows = int(group.attrs["first_row"]), int(group.attrs["rows"])
        if str(group.attrs["previous"]) != previous:
            problems.append(f"iteration {t}: does not name the digest of the iteration before it")
        if iteration_digest(file, group, ahead) != str(group.attrs["digest"]):
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
