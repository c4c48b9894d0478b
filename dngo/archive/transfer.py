"""Evaluations of earlier studies from which a new study learns (`transfer:` in the configuration).

They are copied into the study's archive when it is created. After that, their files are no longer
needed. Only successful evaluations in the new space are taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from dngo.archive.layout import TRANSFER_ARRAYS, TRANSFER_ATTRIBUTES, plain
from dngo.archive.reading import (
    Header,
    Table,
    iteration_attributes,
    read_header,
    read_space,
    read_table,
    reading,
)
from dngo.archive.verification import verify
from dngo.errors import UserError
from dngo.fronts import sign_of
from dngo.space import Space
from dngo.space.ladder import Ladder, ladder_of
from dngo.storage import hdf5
from dngo.storage.digest import digest_file
from dngo.storage.files import at_home
from dngo.storage.hdf5 import our_own

MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class Earlier:
    """The evaluations of one earlier study, in the space of this study.

    task: the earlier study's name; file: as the configuration names it; sha256: of the file;
    digest: of the archive in it. rows: the number of its evaluations; unsuccessful: how many are
    not ok; outside: how many are ok, but not in this space, or below the highest level of a fidelity that
    this study does not have.
    v: (n, k) natural values;
    x: (n, d) encoded;
    y: (n,) objective, minimised; NaN if this study has several objectives. objectives: for these,
    the values (n,) of each one that both studies have, minimised, by name. numbers: for each
    constraint that has a threshold in both studies: the points that reported a number, feasible or
    not, x (m, d), and the numbers (m,).
    """

    task: str
    file: str
    sha256: str
    digest: str
    rows: int
    unsuccessful: int
    outside: int
    v: np.ndarray
    x: np.ndarray
    y: np.ndarray
    numbers: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    objectives: dict[str, np.ndarray] = field(default_factory=dict)

    def __str__(self) -> str:
        left_out = f"{self.unsuccessful} not ok and {self.outside} outside the space left out"
        each = f", of {', '.join(self.objectives)}" if self.objectives else ""
        return f"{len(self.y)} evaluations of {self.task} ({self.file}){each}; {left_out}"


@dataclass(frozen=True)
class Wanted:
    """What a study takes from earlier ones: points of its space, numbers of its constraints with a
    threshold, and the directions of its objectives, by name if they have names.
    """

    space: Space
    numbers: Sequence[str] = ()
    directions: Mapping[str, str] = field(default_factory=dict)


def read(paths: Sequence[str], wanted: Wanted, *, beside: Path = Path()) -> list[Earlier]:
    """The evaluations in archives of earlier studies. Raises UserError, one line that names the file.

    beside: the folder that relative paths start from; a file that is not there may be in the
    current folder.

    A file may come from a stranger. This reads only numbers and JSON, and nothing outside the file.
    Every value must have its recorded digest.
    """
    found, studies = [], dict[str, str]()
    for name in paths:
        path = beside / name if (beside / name).exists() else Path(at_home(name))
        found.append(_read(path, name, wanted))
        # Copies of one archive begin alike, whatever was added to them later.
        begun = str(iteration_attributes(path, 0)["digest"])
        if (same := studies.setdefault(begun, name)) != name or paths.count(name) > 1:
            raise UserError(
                f"transfer: {name}: is the study of {same} once more, and its evaluations would count "
                "twice; name one of them"
            )
    return found


def _read(path: Path, name: str, wanted: Wanted) -> Earlier:
    try:
        if path.is_dir():
            raise UserError(f"{name}: is a folder; name the archive in it, {name}/archive.h5")
        with reading(path) as file:
            if file.attrs["rows"] > MOST_ROWS:
                raise UserError(f"{name}: has more than {MOST_ROWS} evaluations")
            return _taught(path, name, wanted)
    except UserError as error:
        raise UserError(f"transfer: {error}") from None


def _taught(path: Path, name: str, wanted: Wanted) -> Earlier:
    space = wanted.space
    problems = verify(path)
    if problems:
        raise UserError(f"{name}: {problems[0]}; transfer from a copy that nobody changed")
    header = read_header(path)
    assert header is not None
    theirs = read_space(path)
    missing = [n for n in space.parameters if n not in theirs.parameters]
    if missing:
        raise UserError(
            f"{name}: lacks the parameters {', '.join(missing)}; it has "
            f"{', '.join(theirs.parameters)[:200]}, but needs all parameters of this study"
        )
    table = read_table(path)
    y, objectives = _objectives(name, header, table, wanted)
    ladder = _ladder(path, header, theirs)
    # Where this study has no such parameter, its evaluations are like those at the highest level.
    alike = np.ones(len(table), dtype=bool)
    if ladder is not None and ladder.name not in space.parameters:
        alike = ladder.is_top(table.v)
        if not alike.any():
            top = f"{ladder.name} {ladder.text(ladder.top)}"
            raise UserError(f"{name}: none of its {len(table)} evaluations has {top}")
    ok = alike & (table.status == "ok")
    ok &= np.all([np.isfinite(c) for c in objectives.values() or [y]], axis=0)
    v, inside = _points(space, theirs, table.v[ok])
    if not inside.any():
        raise UserError(f"{name}: none of its {len(v)} evaluations lies in the space")
    return Earlier(
        task=str(header.identity["study"]),
        file=name,
        sha256=digest_file(path),
        digest=header.digest,
        rows=len(table),
        unsuccessful=int((alike & ~ok).sum()),
        outside=int((~inside).sum() + (~alike).sum()),
        v=v[inside],
        x=space.encode(v[inside]),
        y=y[ok][inside],
        numbers={
            number: _known(space, theirs, table.v[alike], table.numbers[number][alike])
            for number in sorted(wanted.numbers)
            if number in table.numbers
        },
        objectives={n: c[ok][inside] for n, c in objectives.items()},
    )


def _ladder(path: Path, header: Header, theirs: Space) -> Ladder | None:
    """The levels of the earlier study's fidelity; None if it has none."""
    config = json.loads(iteration_attributes(path, header.iterations - 1)["config"])
    return ladder_of(theirs, config.get("fidelity"))


def _objectives(
    name: str, header: Header, table: Table, wanted: Wanted
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The objective of each row, minimised, (n,).

    If this study has several, the objectives with the same names.
    """
    named, directions = header.identity.get("objectives", {}), wanted.directions
    if max(len(named), len(directions)) < 2:
        return sign_of(header.identity["direction"]) * table.objective, {}
    known = table.objectives or dict.fromkeys(named, table.objective)
    shared = {n: sign_of(d) * known[n] for n, d in directions.items() if n in known}
    if not shared:
        theirs = f"it knows {', '.join(known)}" if known else "its objective has no name"
        ours = ", ".join(directions) or "one without a name"
        raise UserError(f"{name}: {theirs}, but this study has other objectives: {ours}")
    if len(directions) == 1:
        (only,) = shared.values()
        return only, {}
    return np.full(len(table), np.nan), shared


def _known(
    space: Space, theirs: Space, v: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The points in the space that reported a number, encoded (m, d), and their numbers (m,)."""
    rows = np.isfinite(number)
    found, inside = _points(space, theirs, v[rows])
    return space.encode(found[inside]), number[rows][inside]


def _points(space: Space, theirs: Space, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of another space converted to this one, v (n, k), and whether each lies in it, (n,).

    Parameters are matched by name. A number between the values that this space lists counts as
    inside.
    """
    v = np.full((len(rows), space.k), np.nan)
    inside = np.ones(len(rows), dtype=bool)
    for i, point in enumerate(theirs.to_parameters(rows)):
        try:
            v[i] = space.from_parameters([point])[0]
        except ValueError:
            inside[i] = False
        inside[i] &= all(point.get(n, value) == value for n, value in space.fixed.items())
    active = space.active(v)
    v[~active] = np.nan
    return v, inside & ~np.any(active & np.isnan(v), axis=1)


# ---- in the archive -----------------------------------------------------------------------------


def write(path: Path, earlier: Sequence[Earlier]) -> None:
    """Write a file whose group `transfer` is the archive's later."""

    def fill(file: h5py.File) -> None:
        for i, one in enumerate(earlier):
            part = file.create_group(f"transfer/{i}")
            for name in TRANSFER_ATTRIBUTES:
                part.attrs[name] = getattr(one, name)
            for name in TRANSFER_ARRAYS:
                part.create_dataset(name, data=getattr(one, name))
            for number, (x, value) in one.numbers.items():
                part.create_dataset(f"numbers/{number}/x", data=x)
                part.create_dataset(f"numbers/{number}/value", data=value)
            for objective, values in one.objectives.items():
                part.create_dataset(f"objectives/{objective}", data=values)

    hdf5.write(path, fill)


def files(path: Path) -> list[str]:
    """The names of the earlier studies' files behind such a file."""
    with our_own(path) as file:
        group = file["transfer"]
        return [str(group[str(i)].attrs["file"]) for i in range(len(group))]


def recorded(path: Path) -> list[Earlier]:
    """The evaluations of earlier studies in a study's archive."""
    with reading(path) as file:
        group = file.get("transfer", {})
        return [
            Earlier(
                **{n: plain(group[str(i)].attrs[n]) for n in TRANSFER_ATTRIBUTES},
                **{n: group[str(i)][n][()] for n in TRANSFER_ARRAYS},
                numbers={
                    name: (part["x"][()], part["value"][()])
                    for name, part in group[str(i)].get("numbers", {}).items()
                },
                objectives={
                    name: values[()] for name, values in group[str(i)].get("objectives", {}).items()
                },
            )
            for i in range(len(group))
        ]
