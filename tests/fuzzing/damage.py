"""What a bad disk, a careless editor or another program does to bytes, JSON and HDF5."""

from __future__ import annotations

import random

import h5py
import numpy as np


def damaged_bytes(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Bytes after a bad disk, a cut connection or a careless editor."""
    kind = rng.choice(["flip", "flip", "flip", "cut", "swap", "zero", "double", "noise"])
    array, n = bytearray(data), len(data)
    if n == 0:
        return "empty", data
    if kind == "flip":
        for _ in range(rng.choice([1, 1, 4, 32])):
            array[rng.randrange(n)] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del array[rng.randrange(n) :]
    elif kind == "zero":
        start, size = rng.randrange(n), rng.choice([8, 64, 4096])
        array[start : start + size] = bytes(len(array[start : start + size]))
    elif kind == "noise":
        start, size = rng.randrange(n), rng.choice([1, 8, 64])
        array[start : start + size] = rng.randbytes(len(array[start : start + size]))
    else:
        size = rng.choice([8, 64, 512, 4096])
        a, b = (rng.randrange(max(1, n - size)) for _ in range(2))
        block = array[a : a + size]
        if kind == "double":
            array[b:b] = block
        else:
            array[a : a + size], array[b : b + size] = array[b : b + size], block
    return kind, bytes(array)


JSON = [None, True, -1, 10**30, 1e300, "", "x\0", "\ud800", [], {}, [[]], {"a": 1}, "9" * 5000]


def damaged_json(document: object, rng: random.Random) -> object:
    """A JSON document in which something was replaced, lost or added."""
    if rng.random() < 0.15 or not isinstance(document, dict | list) or not document:
        return rng.choice(JSON)
    if isinstance(document, list):
        i = rng.randrange(len(document))
        if rng.random() < 0.2:
            return document[:i]
        return [damaged_json(x, rng) if i == j else x for j, x in enumerate(document)]
    key = rng.choice(sorted(document))
    if rng.random() < 0.2:
        return {k: v for k, v in document.items() if k != key}
    if rng.random() < 0.1:
        return {**document, "more": rng.choice(JSON)}
    return {k: damaged_json(v, rng) if k == key else v for k, v in document.items()}


def objects_of(file: h5py.File) -> tuple[list[str], list[str]]:
    groups, datasets = ["/"], []
    file.visititems(
        lambda name, item: (groups if isinstance(item, h5py.Group) else datasets).append(name)
    )
    return groups, datasets


def attribute_of(file: h5py.File, rng: random.Random) -> tuple[h5py.AttributeManager, str]:
    names: list[str] = ["/"]
    file.visit(names.append)
    holders = [n for n in names if len(file[n].attrs)]
    attributes = file[rng.choice(holders)].attrs
    return attributes, rng.choice(sorted(attributes))


ODD = [
    -1,
    10**9,
    2**62,
    1e300,
    float("nan"),
    "",
    "x",
    "[" * 5000,
    "{}",
    "[]",
    "null",
    '{"a": 1}',
    b"\xff\xfe",
    np.zeros(1000),
    np.array([], dtype="i8"),
    np.array(["a", "b"], dtype=object),
]


def plant(file: h5py.File, rng: random.Random, kind: str | None = None) -> str:
    """Damage a sound HDF5 file as a program would; says what was done."""
    groups, datasets = objects_of(file)
    if not datasets:
        file["more"] = np.zeros(3)
        datasets = ["more"]
    group, name = file[rng.choice(groups)], rng.choice(datasets)
    parent, _, leaf = f"/{name}".rpartition("/")
    parent = parent or "/"
    kind = kind or rng.choice(PLANTED)
    if kind == "attribute":
        attributes, key = attribute_of(file, rng)
        del attributes[key]
        attributes[key] = rng.choice(ODD)
    elif kind == "lost attribute":
        attributes, key = attribute_of(file, rng)
        del attributes[key]
    elif kind == "counts":
        file.attrs[rng.choice(["rows", "iterations"])] = rng.choice([0, 1, 2, 10**9, 2**62])
    elif kind == "lost dataset":
        del file[name]
    elif kind == "lost group":
        del file[rng.choice(groups[1:] or datasets)]
    elif kind == "soft link":
        group[f"more{rng.random()}"] = h5py.SoftLink(rng.choice(["/proposals", "/nowhere", "/"]))
    elif kind == "external link":
        del file[name]
        file[name] = h5py.ExternalLink("/etc/passwd", "/")
    elif kind == "cycle":
        group[f"more{rng.random()}"] = file[rng.choice(groups)]
    elif kind == "second name":
        file[f"{name}2"] = file[name]
    else:
        shape, dtype = file[name].shape, file[name].dtype
        del file[name]
        _replace(file[parent], leaf, kind, shape, dtype, rng)
    return f"{kind} at {name}"


PLANTED = [
    *("attribute", "attribute", "lost attribute", "counts", "lost dataset", "lost group"),
    *("soft link", "external link", "cycle", "second name", "outside", "virtual", "shape"),
    *("type", "bomb", "huge", "compound", "reference", "named type", "text", "values"),
    *("group", "deep"),
]


def _replace(
    group: h5py.Group, name: str, kind: str, shape: tuple[int, ...], dtype: np.dtype, rng
) -> None:
    """Replace a dataset by one of a kind that no archive has."""
    if kind == "outside":
        group.create_dataset(name, (64,), "u1", external=[("/etc/passwd", 0, 64)])
    elif kind == "virtual":
        layout = h5py.VirtualLayout((10,), "f8")
        layout[:] = h5py.VirtualSource("/etc/passwd", "data", (10,))
        group.create_virtual_dataset(name, layout)
    elif kind == "shape":
        odd = rng.choice([(), (0,), (3,), (*shape, 2), (2**20,)])
        group.create_dataset(name, data=np.zeros(odd))
    elif kind == "type":
        odd = rng.choice(["i1", "f4", "S5", "c16", "bool", "u8"])
        group.create_dataset(name, data=np.zeros(shape, odd))
    elif kind == "bomb":
        group.create_dataset(
            name, (2**29,), "f8", chunks=(2**20,), compression="gzip", fillvalue=1.0
        )
    elif kind == "huge":
        group.create_dataset(name, (2**50,), "f8", chunks=(2**20,))
    elif kind == "compound":
        group.create_dataset(name, data=np.zeros(shape, [("a", "f8"), ("b", "i4")]))
    elif kind == "reference":
        group.create_dataset(name, shape, rng.choice([h5py.ref_dtype, h5py.regionref_dtype]))
    elif kind == "named type":
        group[name] = np.dtype("f8")
    elif kind == "text":
        odd = rng.choice([b"\xff\xfe", b"", b"x" * 100000, b"[" * 10000, b"[]"])
        data = np.array([odd] * (shape[0] if shape else 1), dtype=object)
        group.create_dataset(name, data=data, dtype=h5py.string_dtype())
    elif kind == "values":
        if dtype.kind == "O":
            group.create_dataset(name, shape, h5py.string_dtype())
        else:
            odd = rng.choice([-1, 0, 77, 1e300, np.nan, np.inf, -np.inf])
            with np.errstate(all="ignore"):
                group.create_dataset(name, data=np.full(shape, odd).astype(dtype), dtype=dtype)
    elif kind == "group":
        group.create_group(name)
    else:
        group.create_group(name + "/deep" * 2000)
