"""A copy of an archive for others. It leaves out what looks like a secret, and names on request.

An archive never changes, so the copy is a new archive. Its numbers and its replay are the same. Its
texts differ, and so do its digests. It names the digest of the archive from which it was made.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dngo.archive.digests import genesis_digest, iteration_digest
from dngo.archive.reading import reading
from dngo.archive.verification import verify
from dngo.archive.writing import LAYOUT, PACKING
from dngo.errors import UserError
from dngo.redaction import each_text, redacted, redacted_objective
from dngo.storage.files import replacing

# Text from the search space. It is a part of the study's identity.
_KEPT = ("/proposals/parameters/", "/proposals/stage", "/proposals/source", "/transfer/")
_HOME = re.compile(r"(?:/home|/Users)/([^/\s:;,'\"]+)|/root(?=/|$)")
Change = Callable[[str, str], str]  # kinds of text, by the name of the attribute or dataset


@dataclass
class Aliases:
    """Hosts, people and home folders in an archive, and what a copy without names writes for each."""

    hosts: dict[str, str] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=dict)
    homes: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, file: h5py.File) -> Aliases:
        """The names in an archive's fields."""
        found = cls()
        for host in np.unique(file["outcomes/host"].asstr()[:]):
            found.add_host(str(host))
        for _, text in _texts(file):
            found.homes.update(home[0] for home in _HOME.finditer(text))
            for home in _HOME.finditer(text):
                found.add_person(home[1] or "", "")
            if document := _document(text):
                _look(document, found)
        return found

    def add_host(self, host: str) -> None:
        if host:
            self.hosts.setdefault(host, f"host-{len(self.hosts) + 1}")

    def add_person(self, person: str, host: str) -> None:
        if person:
            self.people.setdefault(person, f"person-{len(self.people) + 1}")
        self.add_host(host)

    def without(self, text: str) -> str:
        """A text with `~` for home folders, and a number for each host and person."""
        text = _HOME.sub("~", text)
        for known in (self.people, self.hosts):
            for name in sorted(known, key=len, reverse=True):
                text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", known[name], text)
        return text

    def __str__(self) -> str:
        counts = (
            (len(self.hosts), "host"),
            (len(self.people), "person"),
            (len(self.homes), "home folder"),
        )
        plural = {"person": "people"}
        return ", ".join(
            f"{n} {what if n == 1 else plural.get(what, f'{what}s')}" for n, what in counts if n
        )


def _look(document: dict[str, Any], names: Aliases) -> None:
    """Find the hosts and people in the fields of a JSON document."""
    waiting: list[Any] = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            if isinstance(host := part.get("host"), str):
                names.add_host(host)
            if isinstance(by := part.get("by"), str):
                person, _, where = by.partition("@")
                names.add_person(person, where)
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def changes(path: Path, *, anonymous: bool = False) -> tuple[Counter[str], Aliases]:
    """How many texts a copy would change, by kind, and the people and hosts in them."""
    with reading(path) as file:
        names = Aliases.of(file)
        change = _change(names if anonymous else None)
        return Counter(name for name, text in _texts(file) if change(name, text) != text), names


def publish(path: Path, target: Path, *, anonymous: bool = False) -> None:
    """Write the copy; raises UserError if a value of the archive was altered."""
    with reading(path) as file:
        change = _change(Aliases.of(file) if anonymous else None)
        with replacing(target) as temporary:
            # Write a new file. If text were replaced in place, the old text could stay in gaps of
            # the file.
            with h5py.File(temporary, "w", **LAYOUT) as copy:
                _copy(file, copy, change)
                _sign(file, copy)
            for problem in verify(temporary)[:1]:
                raise UserError(f"{path}: its copy cannot be used: {problem}")


def _change(names: Aliases | None) -> Change:
    """A function that changes a text as the copy needs it."""

    def plain(text: str) -> str:
        return names.without(redacted(text)) if names else redacted(text)

    def change(name: str, text: str) -> str:
        document = _document(text)
        if document is None:
            return plain(text)
        found = document
        if isinstance(document.get("objective"), Mapping):
            found = {**document, "objective": redacted_objective(document["objective"])}
        # The space is a part of what a study is.
        inner = {"space": document["space"]} if "space" in document else {}
        found = {**each_text(found, plain), **inner}
        return text if found == document else json.dumps(found)

    return change


def _document(text: str) -> dict[str, Any] | None:
    """The JSON object in a text; None if the text is something else."""
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _texts(group: h5py.Group) -> Iterator[tuple[str, str]]:
    """Every text that may change, with the name of its attribute or dataset."""
    for name, value in group.attrs.items():
        if isinstance(value, str):
            yield name, value
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            yield from _texts(item)
        elif item.dtype.kind == "O" and not item.name.startswith(_KEPT):
            yield from ((name, str(text)) for text in np.unique(np.atleast_1d(item.asstr()[()])))


def _copy(source: h5py.Group, target: h5py.Group, change: Change) -> None:
    for name, value in source.attrs.items():
        target.attrs[name] = change(name, value) if isinstance(value, str) else value
    for name, item in source.items():
        if isinstance(item, h5py.Group):
            _copy(item, target.create_group(name), change)
        elif item.dtype.kind != "O" or item.name.startswith(_KEPT):
            source.copy(name, target)
        elif item.shape == ():
            target.create_dataset(name, data=change(name, item.asstr()[()]), dtype=item.dtype)
        else:
            known: dict[str, str] = {}
            for text in item.asstr()[:]:
                known.setdefault(text, change(name, text))
            values = np.array([known[text] for text in item.asstr()[:]], dtype=object)
            shape = {"maxshape": item.maxshape, "chunks": item.chunks} if item.chunks else {}
            target.create_dataset(
                name,
                data=values,
                dtype=item.dtype,
                shape=item.shape,
                **shape,
                **(PACKING if shape else {}),
            )


def _sign(source: h5py.File, copy: h5py.File) -> None:
    """Write new digests for the copy, from the first iteration to the last."""
    digest = genesis_digest(copy)
    anew = {genesis_digest(source): digest}
    groups = [copy[f"iterations/{t}"] for t in range(int(copy.attrs["iterations"]))]
    for group in groups:
        learnt = [group, *([group["surrogate"]] if "surrogate" in group else [])]
        for each in learnt:
            before = str(each.attrs.get("training_digest", ""))
            if before in anew:
                each.attrs["training_digest"] = anew[before]
        if group == groups[-1]:
            merged = {**json.loads(group.attrs["merged"]), "copy_of": str(source.attrs["digest"])}
            group.attrs["merged"] = json.dumps(merged, sort_keys=True)
        group.attrs["previous"] = digest
        digest = iteration_digest(copy, group)
        anew[str(group.attrs["digest"])] = digest
        group.attrs["digest"] = digest
    copy.attrs["digest"] = digest
