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
    if kind == "value":
        index = tuple(rng.randrange(n) for n in data.shape)
        value = data[index]
        if isinstance(value, bytes):
            data[index] = value + b"x"
        elif data.dtype.kind == "f":
            data[index] = 1.0 if np.isnan(value) else np.nextafter(value, rng.choice([-9e9, 9e9]))
        else:
            data[index] = value ^ 1
    elif kind == "attribute":
        attributes, name = attribute_of(file, rng)
        value = attributes[name]
        if isinstance(value, str):
            place = rng.randrange(len(value) + 1)
            attributes[name] = value[:place] + rng.choice("x0 ") + value[place:]
        else:
            attributes[name] = np.nan_to_num(value) + 1 if np.size(value) else np.array([1])
    elif kind == "lost attribute":
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
    elif kind == "added group":
        names = ["more", "objective", "surrogate", "constraints", "diagnostics", "cost"]
        group.create_group(rng.choice([n for n in names if n not in group]))
        name = group.name
    elif kind == "comment":
        name = rng.choice([*groups, *datasets])
        h5py.h5o.set_comment(file[name].id, b"a note")
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
    elif kind == "row added":
        name = rng.choice([n for n in datasets if file[n].maxshape[:1] == (None,)])
        file[name].resize(len(file[name]) + 1, axis=0)
    elif kind == "row lost":
        name = rng.choice([n for n in datasets if file[n].maxshape[:1] == (None,)])
        file[name].resize(len(file[name]) - 1, axis=0)
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


CORRUPTIONS = [
    *("value", "attribute", "lost attribute", "lost dataset", "lost group"),
    *("added attribute", "added dataset", "added group", "added link", "comment", "renamed"),
    *("swapped", "rows swapped", "row added", "row lost"),
    *("iteration added", "statuses renamed"),
]
