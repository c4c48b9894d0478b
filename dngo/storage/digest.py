"""Digests of values, not of bytes on disk: a copied or repacked archive keeps its digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def digest(*parts: Any) -> str:
    """SHA-256, in hex, of a canonical form of values: text, numbers, arrays, lists and mappings."""
    state = hashlib.sha256()
    for part in parts:
        _feed(state, part)
    return state.hexdigest()


def digest_parameters(parameters: Mapping[str, Any]) -> str:
    """The identity of a point: which parameters, with which values."""
    return digest(json.dumps(parameters, sort_keys=True))


def digest_file(path: Path) -> str:
    """SHA-256, in hex, of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _feed(state: Any, value: Any) -> None:
    if isinstance(value, str):
        state.update(_text(value))
    elif isinstance(value, bytes):
        state.update(b"b%d:" % len(value) + value)
    elif isinstance(value, Mapping):
        state.update(b"m%d:" % len(value))
        for key in sorted(value):
            _feed(state, key)
            _feed(state, value[key])
    elif isinstance(value, list | tuple):
        state.update(b"l%d:" % len(value))
        for item in value:
            _feed(state, item)
    elif value is None:
        state.update(b"n")
    else:
        array = np.asarray(value)
        shape = json.dumps(array.shape).encode()
        if array.dtype.kind in "OSU":
            items = array.ravel().tolist()
            known = {item: _text(item) for item in set(items)}  # texts repeat
            state.update(b"t" + shape + b"".join([known[item] for item in items]))
        elif array.dtype.kind in "biu":
            state.update(b"i" + shape + array.astype("<i8").tobytes())
        else:
            floats = array.astype("<f8")
            if np.isnan(floats).any():
                # every NaN counts as the same, whatever its bits
                floats = np.where(np.isnan(floats), np.nan, floats)
            state.update(b"f" + shape + floats.tobytes())


def _text(item: Any) -> bytes:
    data = item if isinstance(item, bytes) else str(item).encode()
    return b"s%d:" % len(data) + data
