"""The search space: what a configuration may vary, and how a point looks to people, jobs and models.

A point has three faces:

``parameters``  a dict of natural values by name, what the objective is given and the archive shows;
``v: (n, k)``   a matrix of natural values, one column for each parameter that varies: numbers as they
                are, choices as their index, NaN where a conditional parameter is inactive;
``x: (n, d)``   the model's inputs in the unit cube: one column for a number, one-hot columns for a
                categorical, and a 0/1 column "active" for each conditional parameter.

Values are rounded to the user's grid *before* they are encoded, so the model sees exactly the point
that the job runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dngo.space.parameters import Boolean, Categorical, Fixed, Float, Int, Ordinal, Parameter

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


class Space:
    """The search space of a study, built from validated parameters (see `dngo.space.parameters`)."""

    def __init__(self, parameters: dict[str, Parameter]):
        self.parameters = dict(parameters)  # in the order of the configuration, for people
        self.fixed = {n: p.value for n, p in parameters.items() if isinstance(p, Fixed)}
        order = _parents_first(parameters)
        columns: list[Column] = []
        position: dict[str, int] = {}
        # Columns stand parents first, so one pass from left to right settles who is active; else in
        # the order of the names, so that a file with its lines moved is the same space.
        for name in order:
            parameter = parameters[name]
            if isinstance(parameter, Fixed):
                continue
            conditions = []
            for parent, wanted in parameter.active_if.items():
                if parent in self.fixed:
                    continue  # decided once and for all by validation
                column = columns[position[parent]]
                conditions.append(
                    (position[parent], tuple(sorted(_to_column(column, w) for w in wanted)))
                )
            position[name] = len(columns)
            columns.append(_column(name, parameter, tuple(conditions)))
        self.columns = tuple(columns)
        self.k = len(self.columns)
        self._x_slices = []
        start = 0
        for column in self.columns:
            one_hot = column.kind == "categorical" and (column.levels or 0) > 2
            width = (column.levels or 1) if one_hot else 1
            self._x_slices.append(slice(start, start + width))
            start += width
        self._flag_columns = [j for j, c in enumerate(self.columns) if c.conditions]
        self.d = start + len(self._flag_columns)

    @property
    def size(self) -> float:
        """Number of distinct points, infinite if any parameter is continuous (conditions ignored)."""
        return math.prod(math.inf if c.levels is None else c.levels for c in self.columns)

    # ---- natural values -------------------------------------------------------------------------

    def sample(self, u: np.ndarray) -> np.ndarray:
        """Decode points of the unit cube so that each listed value has equal probability.

        u: (n, k) in [0, 1].  Returns v: (n, k), rounded, NaN where inactive.
        """
        u = np.atleast_2d(np.asarray(u, dtype=float))
        v = np.empty_like(u)
        for j, column in enumerate(self.columns):
            if column.kind in ("grid", "categorical"):
                levels = column.levels or 1
                index = np.minimum(np.floor(u[:, j] * levels), levels - 1)
                v[:, j] = index if column.values is None else column.values[index.astype(int)]
            else:
                v[:, j] = _from_coordinate(column, u[:, j])
        return self._mask(v)

    def round(self, v: np.ndarray) -> np.ndarray:
        """Move natural values to the nearest ones the user allows.

        v: (n, k).  Inactive parameters become NaN, newly active ones their default.
        """
        v = np.array(np.atleast_2d(v), dtype=float)
        for j, column in enumerate(self.columns):
            values = np.where(np.isnan(v[:, j]), column.default, v[:, j])
            v[:, j] = _nearest(column, values)
        return self._mask(v)

    def active(self, v: np.ndarray) -> np.ndarray:
        """Which parameters matter at each point: (n, k) bool, from the values of their parents."""
        v = np.atleast_2d(v)
        active = np.ones(v.shape, dtype=bool)
        for j, column in enumerate(self.columns):
            for parent, wanted in column.conditions:
                active[:, j] &= active[:, parent] & np.isin(v[:, parent], wanted)
        return active

    def _mask(self, v: np.ndarray) -> np.ndarray:
        v[~self.active(v)] = np.nan
        return v

    # ---- coordinates and model inputs -----------------------------------------------------------

    def unit(self, v: np.ndarray) -> np.ndarray:
        """Coordinates of natural values: (n, k) in [0, 1]; inactive ones at their default."""
        v = np.atleast_2d(np.asarray(v, dtype=float))
        u = np.empty_like(v)
        for j, column in enumerate(self.columns):
            values = np.where(np.isnan(v[:, j]), column.default, v[:, j])
            u[:, j] = _to_coordinate(column, values)
        return u

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        """The allowed natural values nearest to coordinates u: (n, k)."""
        u = np.clip(np.atleast_2d(np.asarray(u, dtype=float)), 0.0, 1.0)
        columns = [_from_coordinate(c, u[:, j]) for j, c in enumerate(self.columns)]
        v = np.column_stack(columns) if columns else np.empty((len(u), 0))
        return self._mask(v)

    def encode(self, v: np.ndarray) -> np.ndarray:
        """Model inputs x: (n, d) in the unit cube of natural values v: (n, k)."""
        v = np.atleast_2d(np.asarray(v, dtype=float))
        u = self.unit(v)
        x = np.zeros((len(v), self.d))
        for j, (column, part) in enumerate(zip(self.columns, self._x_slices, strict=True)):
            if column.kind != "categorical":
                x[:, part.start] = u[:, j]
                continue
            index = np.where(np.isnan(v[:, j]), column.default, v[:, j]).astype(int)
            if part.stop - part.start == 1:
                x[:, part.start] = index
            else:
                x[np.arange(len(v)), part.start + index] = 1.0
        for i, j in enumerate(self._flag_columns):
            x[:, self.d - len(self._flag_columns) + i] = ~np.isnan(v[:, j])
        return x

    def keys(self, v: np.ndarray) -> list[bytes]:
        """A hashable identity for each row: equal exactly when the points are the same."""
        v = np.ascontiguousarray(np.atleast_2d(v), dtype=float) + 0.0  # -0.0 becomes 0.0
        v[np.isnan(v)] = np.nan  # one bit pattern for every NaN
        return [row.tobytes() for row in v]

    # ---- people and jobs ------------------------------------------------------------------------

    def to_parameters(self, v: np.ndarray) -> list[dict[str, Any]]:
        """Points as dicts of natural Python values, in the order of the configuration.

        Inactive parameters are left out; fixed ones are included.
        """
        rows = []
        index = {c.name: j for j, c in enumerate(self.columns)}
        for row in np.atleast_2d(v):
            point: dict[str, Any] = {}
            for name in self.parameters:
                if name in self.fixed:
                    point[name] = self.fixed[name]
                    continue
                value = row[index[name]]
                if not np.isnan(value):
                    point[name] = _natural(self.columns[index[name]], float(value))
            rows.append(point)
        return rows

    def from_parameters(self, points: list[dict[str, Any]]) -> np.ndarray:
        """The matrix v: (n, k) of points given as dicts; the inverse of `to_parameters`.

        Raises ValueError for a value outside the space.
        """
        v = np.full((len(points), self.k), np.nan)
        for i, point in enumerate(points):
            for j, column in enumerate(self.columns):
                if column.name in point:
                    v[i, j] = _to_column(column, point[column.name])
        return v

    def defaults(self) -> np.ndarray:
        """The point in which every parameter has its default: (1, k)."""
        return self._mask(np.array([[c.default for c in self.columns]]).reshape(1, self.k))


def _parents_first(parameters: dict[str, Parameter]) -> list[str]:
    done: list[str] = []

    def visit(name: str) -> None:
        if name not in done:
            for parent in sorted(parameters[name].active_if):
                visit(parent)
            done.append(name)

    for name in sorted(parameters):
        visit(name)
    return done


def _column(name: str, p: Parameter, conditions: tuple) -> Column:
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
        default = float(_index(choices, p.default)) if p.default is not None else float(fallback)
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
    return replace(column, default=float(_nearest(column, np.array([default]))[0]))


def _index(choices: tuple[Any, ...], value: Any) -> int:
    # `True == 1` in Python: the type is part of a choice's identity.
    for i, choice in enumerate(choices):
        if choice == value and isinstance(choice, bool) == isinstance(value, bool):
            return i
    raise ValueError(f"{value!r} is not one of {list(choices)}")


def _to_column(column: Column, value: Any) -> float:
    if column.choices is not None:
        return float(_index(column.choices, value))
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{column.name}: {value!r} is not a number")
    if not column.low <= value <= column.high:
        raise ValueError(f"{column.name}: {value!r} is outside [{column.low}, {column.high}]")
    return float(value)


def _natural(column: Column, value: float) -> Any:
    if column.choices is not None:
        return column.choices[int(value)]
    return int(value) if column.integer else value


def _edges(column: Column) -> tuple[float, float]:
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


def _to_coordinate(column: Column, value: np.ndarray) -> np.ndarray:
    low, high = _edges(column)
    if high == low:
        return np.full_like(value, 0.5)
    if column.log:
        u = (np.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    else:
        u = (value - low) / (high - low)
    return np.clip(u, 0.0, 1.0)


def _from_coordinate(column: Column, u: np.ndarray) -> np.ndarray:
    low, high = _edges(column)
    if column.log:
        value = np.exp(math.log(low) + u * (math.log(high) - math.log(low)))
    else:
        value = low + u * (high - low)
    return _nearest(column, value)


def _nearest(column: Column, value: np.ndarray) -> np.ndarray:
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
