"""Values of any library as JSON. No measured value is lost because of its type.

Imports only the standard library, since it runs with every function that is evaluated.
"""

from __future__ import annotations

import datetime
import json
import math
import numbers
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dngo.storage.text import storable

MOST_BYTES = 2**24  # of an outcome document
MOST_METADATA = MOST_BYTES - 2**20  # of its metadata
MAX_DEPTH = 64  # of metadata; other programs' JSON readers give up at some depth
TOO_DEEP = "[left out: nested too deeply]"
MOST_VALUES = 10_000  # most values of an array that is kept as a list
MOST_TEXT = 2000  # most characters of a value that is kept as text
MOST_NODES = 2**20  # values in all


_SMALL = (type(None), bool, int, float, str)


def left_out(size: int) -> str:
    """The remark instead of a value of so many bytes."""
    return f"[left out: {size} bytes]"


def fitting(values: dict[str, Any], most: int = MOST_METADATA) -> dict[str, Any]:
    """A mapping of JSON without its largest values, so that it has at most `most` bytes as JSON."""
    if len(json.dumps(values)) <= most:
        return values
    sizes = {name: len(json.dumps(value)) for name, value in values.items()}
    total, found = len(json.dumps(values)), dict(values)
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if total <= most:
            break
        value, others = values[name], total - sizes[name]
        inner = most - others
        small = isinstance(value, dict) and inner > 0
        found[name] = fitting(value, inner) if small else left_out(sizes[name])
        total = others + len(json.dumps(found[name]))
    return found


def scalar(value: Any) -> Any:
    """The value of an array or a tensor that has only one; anything else is returned unchanged."""
    item = getattr(value, "item", None)
    if not callable(item) or isinstance(value, type):
        return value
    try:
        if getattr(getattr(value, "dtype", None), "kind", "") == "M":  # a time that has a unit
            return value.astype("datetime64[us]").item()
        if getattr(value, "mask", None) is not None and bool(value.mask):
            return math.nan  # NumPy's masked value: the value behind the mask is no measurement
        return item()
    except Exception:  # it holds several values, or no value
        return value


def plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A value as JSON. It never raises: a value that JSON lacks becomes text, or a remark that it
    was left out."""
    return _plain(value, depth, (), [MOST_NODES])


def _plain(value: Any, depth: int, around: tuple[int, ...], budget: list[int]) -> Any:
    """around: the containers of the value, by identity. budget: how many more values are allowed."""
    budget[0] -= 1
    if budget[0] < 0:
        return f"[left out: more than {MOST_NODES} values]"
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return storable(str(value))
    if isinstance(value, int):
        return int(value) if value.bit_length() < 4096 else _named(value)
    if isinstance(value, float):
        return float(value)
    try:
        within = _within(value)
        if isinstance(within, dict | list) and (depth <= 0 or id(value) in around):
            return TOO_DEEP
        inside = depth - 1, (*around, id(value)), budget
        if isinstance(within, dict):
            named = _named_apart(within)
            # Large values do not use up what the small ones beside them need.
            order = sorted(named, key=lambda name: not isinstance(named[name], _SMALL))
            found = {name: _plain(named[name], *inside) for name in order}
            return {name: found[name] for name in named}
        if isinstance(within, list):
            if len(within) > budget[0]:
                return f"[left out: a list of {len(within)} values]"
            return [_plain(v, *inside) for v in within]
        return within
    except Exception:  # of a user's class
        return _named(value)


def _named_apart(values: dict[Any, Any]) -> dict[str, Any]:
    """A mapping whose keys are text. If there are 1 and "1", the first becomes "1 (int)", so that
    neither is lost."""
    found: dict[str, Any] = {storable(k): v for k, v in values.items() if isinstance(k, str)}
    if len(found) == len(values):
        return found
    found = {}
    for key, value in values.items():
        name = storable(str(key))
        if name != key and (name in values or name in found):
            name = f"{name} ({type(key).__name__})"
        while name in found:
            name += "'"
        found[name] = value
    return found


def _within(value: Any) -> Any:
    """A value that JSON lacks, as a dict, a list, a number or a text."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real | Decimal):
        return float(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return storable(repr(bytes(value[:MOST_TEXT]))[:MOST_TEXT])
    listed = getattr(value, "tolist", None)  # NumPy's arrays, PyTorch's tensors, columns of pandas
    if callable(listed) and not isinstance(value, type):
        shape = tuple(getattr(value, "shape", ()))
        if math.prod(shape) > MOST_VALUES:
            return f"[left out: {type(value).__name__} of {' x '.join(map(str, shape))} values]"
        found = listed()
        return found if isinstance(found, list) else plain(found)
    return storable(str(value)[:MOST_TEXT])


def _named(value: Any) -> str:
    return f"[left out: {type(value).__name__}]"
