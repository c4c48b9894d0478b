"""One thing altered, added or taken away in an archive: `verify` must not pass it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from dngo.batch import STATUSES
from fuzzing.archive import ARCHIVES, recent
from fuzzing.damage import attribute_of, objects_of
from fuzzing.guard import Result, command, guarded


def corruption(folder: Path, rng: random.Random) -> Iterator[tuple[str, Result]]:
    """One thing altered, added or taken away in an archive: `verify` must not pass it."""
    path = folder / "archive.h5"
    shutil.copy(rng.choice([*ARCHIVES, recent()]), path)
    with h5py.File(path, "r+") as file:
        what = corrupt(file, rng)
    result = guarded(command("verify", str(path)))
    missed = result.status == 0
    yield what, Result(70, "Traceback: nobody noticed") if missed else result


def corrupt(file: h5py.File, rng: random.Random) -> str:
    """Alter, add or take away one thing. Returns what was done."""
    groups, datasets = objects_of(file)
    group, name = file[rng.choice(groups)], rng.choice([n for n in datasets if file[n].size])
    data = file[name]
    kind = rng.choice(CORRUPTIONS)
    if kind == "lost attribute":
        attributes, name = attribute_of(file, rng)
        del attributes[name]
    elif kind == "lost dataset":
        del file[name]
    elif kind == "lost group":
        name = rng.choice(groups[1:])
        del file[name]
    elif kind == "added attribute":
        holder = file[rng.choice([*groups, *datasets])]
        holder.attrs["note"] = rng.choice(["x", 1.0])
        name = holder.name
    elif kind == "added dataset":
        group["more"] = rng.choice([np.zeros(3), np.zeros(20), "text"])
        name = group.name
    elif kind == "added link":
        group["more"] = rng.choice(
            [h5py.SoftLink("/proposals"), h5py.ExternalLink("a.h5", "/"), file["outcomes"]]
        )
        name = group.name
    elif kind == "renamed":
        file.move(name, f"{name}2")
    elif kind == "swapped":
        other = rng.choice(sorted({n for n in datasets if n != name}))
        file.move(name, "held")
        file.move(other, name)
        file.move("held", other)
        if _same(file[name], file[other]):
            return corrupt(file, rng)
        name += f" and {other}"
    elif kind == "rows swapped":
        a, b = (rng.randrange(len(data)) for _ in range(2))
        first, second = data[a], data[b]
        if np.array_equal(first, second) or str(first) == str(second):
            return corrupt(file, rng)
        data[a], data[b] = second, first
    elif kind == "rows":
        name = rng.choice([n for n in datasets if file[n].maxshape[:1] == (None,)])
        file[name].resize(len(file[name]) + rng.choice([1, -1]), axis=0)
    elif kind == "iteration added":
        last = int(file.attrs["iterations"])
        file.copy("iterations/0", file["iterations"], str(last + rng.choice([0, 1])))
        file.attrs["iterations"] = last + rng.choice([0, 1])
    else:
        name = "outcomes/status"
        values = file[name][()]
        del file[name]
        shifted = {s: (i + 1) % len(STATUSES) for i, s in enumerate(STATUSES)}
        file.create_dataset(name, data=values, dtype=h5py.enum_dtype(shifted, "u1"))
    return f"{kind}: {name}"


def _same(a: h5py.Dataset, b: h5py.Dataset) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    # Columns of NaN alone, as a baseline's, are the same, too.
    return np.array_equal(a[()], b[()], equal_nan=a.dtype.kind == "f")


# Altered values, comments and added groups are tried one by one in test_archive.py and test_archive_safety.py.
CORRUPTIONS = [
    *("lost attribute", "lost dataset", "lost group", "added attribute", "added dataset"),
    *("added link", "renamed", "swapped", "rows swapped", "rows", "iteration added"),
    "statuses renamed",
]
