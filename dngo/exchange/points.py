"""Rows of a table as points of a space."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Rational, Real
from typing import Any

import numpy as np

from dngo.config.messages import as_yaml
from dngo.exchange.rows import Row
from dngo.space import Column, Space
from dngo.space.columns import meant, written
from dngo.space.parameters import text
from dngo.storage.text import composed, number_in, shown


def points_of(space: Space, rows: list[Row]) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The parameters of each row, and the mistakes of rows outside the space.

    The cell of a parameter that does not exist at its point is ignored.
    """
    v = np.full((len(rows), space.k), np.nan)
    problems: dict[int, str] = {}
    for j, column in enumerate(space.columns):  # parents first
        for i in np.flatnonzero(space.exists(v, j)).tolist():
            try:
                v[i, j] = _natural(column, rows[i].get(column.name, "parameter_"))
            except ValueError as error:
                problems.setdefault(i, str(error))
        if column.choices is None:
            known = np.flatnonzero(~np.isnan(v[:, j])).tolist()
            v[known, j], wrong = meant(column, v[known, j])
            for at, why in wrong.items():
                problems.setdefault(known[at], why)
    for i, row in enumerate(rows):
        for name, value in space.fixed.items():
            if (cell := row.get(name, "parameter_")) is not None and not _same(value, cell):
                problems.setdefault(i, f"{name}: is fixed at {value!r}, but is {shown(cell)} here")
    return space.to_parameters(v), problems


def _natural(column: Column, value: Any) -> float:
    """A cell as a value of its column; raises ValueError if it is empty or of another kind."""
    if value is None:
        raise ValueError(f"{column.name} has no value")
    if column.choices is not None:
        for same in (_same, _same_text):
            for i, choice in enumerate(column.choices):
                if same(choice, value):
                    return float(i)
        known = ", ".join(as_yaml(c) if isinstance(c, bool) else repr(c) for c in column.choices)
        raise ValueError(f"{column.name}: {shown(value)} is not one of [{known}]")
    found = number(column.name, value)
    if isinstance(found, float) and math.isnan(found):
        raise ValueError(f"{column.name} has no value")
    try:
        rounded = float(found)
    except OverflowError:
        rounded = math.inf
    if column.integer and rounded != found and isinstance(found, int):
        low, high = written(column, column.low), written(column, column.high)
        raise ValueError(f"{column.name}: {shown(found)} is outside {low} to {high}")
    return rounded


def _same(choice: Any, value: Any) -> bool:
    """Whether a cell means a choice. A table may hold numbers and flags as text."""
    if not isinstance(value, str | Real | Decimal):
        return False  # such as a list, which is never a choice
    if isinstance(choice, bool) or isinstance(value, bool):
        known = isinstance(value, bool | int | float | str)
        return known and text(choice).lower() == text(value).strip(" \t").lower()
    if isinstance(choice, str):
        return choice == value
    try:
        return bool(choice == number("", value))
    except ValueError:
        return False


def _same_text(choice: Any, value: Any) -> bool:
    """Whether two texts are equal up to their Unicode form: an accented e is one character or two."""
    texts = isinstance(choice, str) and isinstance(value, str)
    return texts and composed(choice) == composed(value)


def number(name: str, value: Any) -> int | float:
    """A cell as a number; a whole number keeps all its digits.

    Raises ValueError if it is no number.
    """
    found = value.item() if isinstance(value, np.generic) else value
    try:
        if isinstance(found, str):
            found = number_in(found)
        elif not isinstance(found, bool | int | float):
            rounded = float(found)
            whole = (
                isinstance(found, Rational | Decimal) and abs(rounded) < 2**64 and found % 1 == 0
            )
            found = int(found) if whole else rounded
    except (TypeError, ValueError, ArithmeticError):
        found = None
    if found is None or isinstance(found, bool):
        raise ValueError(f"{name}: {shown(value)} is not a number")
    return found
