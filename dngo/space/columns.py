"""One varying parameter as a column of numbers: its natural values and its coordinate axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dngo.space.parameters import Boolean, Categorical, Float, Int, Ordinal, Parameter

Kind = Literal["float", "int", "grid", "categorical"]


@dataclass(frozen=True)
class Column:
    """One varying parameter as a column of ``v``.

    name: the parameter's name.
    kind: "float", "int", "grid" (listed values with an order) or "categorical" (no order).
    levels: number of distinct values, None for a continuous one.
    low, high: limits in natural units (of the index, for choices).
    log: coordinates are logarithmic.
    values: (levels,) sorted numbers of a grid, or None.
    choices: the natural values behind the indices of an ordinal, categorical or boolean, or None.
    step: grid of a stepped float or integer, or None.
    integer: natural values are integers.
    default: the natural value (index for choices) used where the parameter is inactive.
    conditions: pairs (column index, admissible values in ``v``); all must hold.
    """

    name: str
    kind: Kind
    levels: int | None
    low: float
    high: float
    log: bool
    values: np.ndarray | None
    choices: tuple[Any, ...] | None
    step: float | None
    integer: bool
    default: float
    conditions: tuple[tuple[int, tuple[float, ...]], ...]


def make_column(name: str, p: Parameter, conditions: tuple) -> Column:
    kind: Kind
    values = choices = step = None
    levels: int | None
    log = False
    if isinstance(p, Float | Int) and p.values is not None:
        values = np.array(sorted(float(x) for x in p.values))
        kind, low, high, log = "grid", values[0], values[-1], p.log
        levels = len(values)
        default = float(p.default) if p.default is not None else values[(len(values) - 1) // 2]
    elif isinstance(p, Float | Int):
        assert p.low is not None and p.high is not None  # validated
        kind = "int" if isinstance(p, Int) else "float"
        low, high, log = float(p.low), float(p.high), p.log
        step = float(p.step) if p.step is not None else (1.0 if kind == "int" else None)
        levels = None if step is None else math.floor((high - low) / step + 1e-9) + 1
        middle = math.sqrt(low * high) if log else (low + high) / 2
        default = float(p.default) if p.default is not None else middle
    else:
        assert isinstance(p, Ordinal | Categorical | Boolean)
        choices = (False, True) if isinstance(p, Boolean) else p.listed
        kind = "grid" if isinstance(p, Ordinal) else "categorical"
        levels, low, high = len(choices), 0.0, float(len(choices) - 1)
        fallback = (levels - 1) // 2 if kind == "grid" else 0
        default = float(index_of(choices, p.default)) if p.default is not None else float(fallback)
    column = Column(
        name=name,
        kind=kind,
        levels=levels,
        low=low,
        high=high,
        log=log,
        values=values,
        choices=choices,
        step=step,
        integer=isinstance(p, Int),
        default=default,
        conditions=conditions,
    )
    # A middle value that nobody typed is rounded as any other.
    return replace(column, default=float(nearest(column, np.array([default]))[0]))


def index_of(choices: tuple[Any, ...], value: Any) -> int:
    # `True == 1` in Python: the type is part of a choice's identity.
    for i, choice in enumerate(choices):
        if choice == value and isinstance(choice, bool) == isinstance(value, bool):
            return i
    raise ValueError(f"{value!r} is not one of {list(choices)}")


def to_column(column: Column, value: Any) -> float:
    if column.choices is not None:
        return float(index_of(column.choices, value))
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{column.name}: {value!r} is not a number")
    if not column.low <= value <= column.high:
        raise ValueError(f"{column.name}: {value!r} is outside [{column.low}, {column.high}]")
    return float(value)


def natural(column: Column, value: float) -> Any:
    if column.choices is not None:
        return column.choices[int(value)]
    return int(value) if column.integer else value


def edges(column: Column) -> tuple[float, float]:
    """Ends of the coordinate axis; integers own half a step on either side, as in every bin."""
    if column.choices is not None:
        return -0.5, column.high + 0.5
    if column.step is not None and column.kind in ("int", "float"):
        low = column.low - column.step / 2
        top = column.low + ((column.levels or 1) - 0.5) * column.step
        if column.log and low <= 0:
            low = column.low / 2
        return low, top
    return column.low, column.high


class Axes:
    """The coordinate axes of some columns: natural values v (n, k) and coordinates u (n, k) in [0, 1]."""

    def __init__(self, columns: Sequence[Column]) -> None:
        ends = np.array([edges(c) for c in columns]).reshape(-1, 2)
        self._logs = np.flatnonzero([c.log for c in columns])
        ends[self._logs] = np.log(ends[self._logs])
        self._low, self._span = ends[:, 0], ends[:, 1] - ends[:, 0]
        self._flat = np.flatnonzero(self._span == 0)

    def coordinates(self, v: np.ndarray) -> np.ndarray:
        """Those of values (n, k), .5 in a column of one value."""
        u = np.array(v)
        u[:, self._logs] = np.log(u[:, self._logs])
        u -= self._low
        u[:, self._flat] = 0.5
        u /= np.where(self._span == 0, 1.0, self._span)
        return np.clip(u, 0.0, 1.0, out=u)

    def between(self, u: np.ndarray) -> np.ndarray:
        """Values at coordinates (n, k) before they are rounded to those that the columns have."""
        v: np.ndarray = self._low + u * self._span
        v[:, self._logs] = np.exp(v[:, self._logs])
        return v


def nearest(column: Column, value: np.ndarray) -> np.ndarray:
    if column.values is not None:
        middle = np.sqrt(column.values[1:] * column.values[:-1]) if column.log else None
        if middle is None:
            middle = (column.values[1:] + column.values[:-1]) / 2
        return column.values[np.searchsorted(middle, value)]
    if column.choices is not None:
        return np.clip(np.floor(value + 0.5), 0, column.high)
    if column.step is not None:
        steps = np.floor((value - column.low) / column.step + 0.5)
        steps = np.clip(steps, 0, (column.levels or 1) - 1)
        # Rounded to a trillionth of the step: 0.1 * 3 is to be 0.3 for people and jobs.
        digits = 12 - math.floor(math.log10(column.step))
        rounded = np.round(column.low + steps * column.step, digits)
        return np.clip(rounded, column.low, column.high)
    return np.clip(value, column.low, column.high)
