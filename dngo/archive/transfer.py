"""Evaluations of earlier studies, which a new study learns from (`transfer:` in the configuration).

They are read once, when the study's archive is created, and copied into it: from then on nothing
asks for the files they came from. Only what succeeded is taken, where it lies in the new space.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from dngo.archive.layout import TRANSFER_ARRAYS, TRANSFER_ATTRIBUTES, plain
from dngo.archive.reading import read_header, read_space, read_table, reading
from dngo.archive.verification import verify
from dngo.errors import UserError
from dngo.space import Space
from dngo.storage import hdf5
from dngo.storage.files import at_home
from dngo.storage.hdf5 import our_own

MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class Earlier:
    """What one earlier study taught, in the space of this one.

    task: its name; file: as the configuration names it; sha256: of the file; digest: of the
    archive in it. rows: evaluations there; unsuccessful: those not ok; outside: ok, but not in this
    space. v: (n, k) natural values; x: (n, d) encoded; y: (n,) objective, minimised.
    numbers: of constraints that have a threshold in both studies, by name, where they were reported,
    feasible or not: x (m, d) and the numbers (m,).
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

    def __str__(self) -> str:
        left_out = f"{self.unsuccessful} not ok and {self.outside} outside the space left out"
        return f"{len(self.y)} evaluations of {self.task} ({self.file}); {left_out}"


def read(
    paths: Sequence[str], space: Space, numbers: Iterable[str] = (), *, beside: Path = Path()
) -> list[Earlier]:
    """The evaluations in archives of earlier studies. Raises UserError, one line, naming the file.

    numbers: which constraints of this study have a threshold.  beside: the folder that relative paths
    are relative to; what is not there may be in the current one.

    A file may come from a stranger: what is read are numbers and JSON, nothing outside the file,
    and only if every value has the digest that was recorded.
    """
    there = (beside / path for path in paths)
    return [
        _read(t if t.exists() else Path(at_home(p)), p, space, sorted(numbers))
        for t, p in zip(there, paths, strict=True)
    ]


def _read(path: Path, name: str, space: Space, numbers: list[str]) -> Earlier:
    try:
        with reading(path) as file:
            if file.attrs["rows"] > MOST_ROWS:
                raise UserError(f"{name}: has more than {MOST_ROWS} evaluations")
            return _taught(path, name, space, numbers)
    except UserError as error:
        raise UserError(f"transfer: {error}") from None


def _taught(path: Path, name: str, space: Space, numbers: list[str]) -> Earlier:
    problems = verify(path)
    if problems:
        raise UserError(f"{name}: {problems[0]}; transfer from an untouched copy")
    header = read_header(path)
    assert header is not None
    if len(header.identity.get("objectives", {})) > 1:
        raise UserError(f"{name}: has several objectives, and transfer is of one so far")
    theirs = read_space(path)
    missing = [n for n in space.parameters if n not in theirs.parameters]
    if missing:
        raise UserError(
            f"transfer: {name}: knows no parameter {', '.join(missing)}; it knows "
            f"{', '.join(theirs.parameters)[:200]}, and needs all of this study"
        )
    table = read_table(path)
    ok = (table.status == "ok") & np.isfinite(table.objective)
    sign = 1.0 if header.identity["direction"] == "minimize" else -1.0
    v, inside = _points(space, theirs, table.v[ok])
    if not inside.any():
        raise UserError(f"{name}: none of its {len(v)} evaluations lies in the space")
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return Earlier(
        task=str(header.identity["study"]),
        file=name,
        sha256=sha256,
        digest=header.digest,
        rows=len(table),
        unsuccessful=int((~ok).sum()),
        outside=int((~inside).sum()),
        v=v[inside],
        x=space.encode(v[inside]),
        y=sign * table.objective[ok][inside],
        numbers={
            number: _known(space, theirs, table.v, table.numbers[number])
            for number in numbers
            if number in table.numbers
        },
    )


def _known(
    space: Space, theirs: Space, v: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where a number was reported that lies in the space, encoded (m, d), and the number (m,)."""
    rows = np.isfinite(number)
    found, inside = _points(space, theirs, v[rows])
    return space.encode(found[inside]), number[rows][inside]


def _points(space: Space, theirs: Space, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of another space in this one, v (n, k), and which of them lie in it, (n,).

    By name. A number between the values that this space lists can be learnt from as well.
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
    """As a file, whose group `transfer` is the archive's."""

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

    hdf5.write(path, fill)


def files(path: Path) -> list[str]:
    """Which files a file that was written here was made of."""
    with our_own(path) as file:
        group = file["transfer"]
        return [str(group[str(i)].attrs["file"]) for i in range(len(group))]


def recorded(path: Path) -> list[Earlier]:
    """What the archive of a study holds of earlier ones."""
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
            )
            for i in range(len(group))
        ]
