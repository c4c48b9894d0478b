"""Rows of a table as points of a space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dngo.exchange.rows import Row
from dngo.space import Column, Space
from dngo.space.parameters import text
from dngo.storage.text import number_in


def points_of(space: Space, rows: list[Row]) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The parameters of each row, and what is wrong with the rows that do not lie in the space."""
    v = np.full((len(rows), space.k), np.nan)
    problems: dict[int, str] = {}
    for i, row in enumerate(rows):
        try:
            v[i] = [_natural(c, row.get(c.name, "parameter_")) for c in space.columns]
            for name, value in space.fixed.items():
                _check_fixed(name, value, row.get(name, "parameter_"))
        except ValueError as error:
            problems[i] = str(error)
    active = space.active(v)
    v[~active] = np.nan  # a parameter that does not exist at a point has no value there
    near = space.on_grid(v)
    for i, j in np.argwhere(active & ~np.isclose(near, v, rtol=1e-9, atol=1e-300)):
        column = space.columns[j]
        if np.isnan(v[i, j]):
            problems.setdefault(int(i), f"{column.name} has no value")
        else:
            problems.setdefault(
                int(i),
                f"{column.name}: {v[i, j]:.12g} is not on the grid; next to it is {near[i, j]:.12g}",
            )
    return space.to_parameters(near), problems


def _natural(column: Column, value: Any) -> float:
    """A cell as it stands in `v`, NaN if it is empty; raises ValueError outside the space."""
    if value is None:
        return math.nan
    if column.choices is not None:
        for i, choice in enumerate(column.choices):
            if _same(choice, value):
                return float(i)
        raise ValueError(f"{column.name}: {value!r} is not one of {list(column.choices)}")
    found = number(column.name, value)
    if not column.low <= found <= column.high:
        raise ValueError(f"{column.name}: {value} is outside {column.low:g} to {column.high:g}")
    return found


def _same(choice: Any, value: Any) -> bool:
    """Whether a cell means a choice, in a table where all may have become text."""
    if isinstance(choice, bool) or isinstance(value, bool):
        return text(choice).lower() == text(value).lower()
    if isinstance(choice, str):
        return choice == value
    try:
        return bool(choice == _exact("", value))
    except ValueError:
        return False


def _check_fixed(name: str, fixed: Any, value: Any) -> None:
    if value is not None and not _same(fixed, value):
        raise ValueError(f"{name}: is fixed at {fixed!r}, and is {value!r} here")


def number(name: str, value: Any) -> float:
    """A cell as a number; raises ValueError if it is none."""
    try:
        return float(_exact(name, value))
    except OverflowError:
        raise ValueError(f"{name}: is an integer beyond all numbers that can be kept") from None


def _exact(name: str, value: Any) -> int | float:
    """A cell as a number, a whole one with all of its digits; raises ValueError if it is none."""
    found = value.item() if isinstance(value, np.generic) else value
    try:
        if isinstance(found, str):
            found = number_in(found)
        elif not isinstance(found, bool | int | float):
            found = float(found)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or isinstance(found, bool):
        raise ValueError(f"{name}: {value!r} is not a number")
    return found
