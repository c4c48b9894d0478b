"""The space without its constraints: its columns, its natural values, and the inputs of models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dngo.space.columns import Axes, Column, make_column, meant, natural, nearest, to_column
from dngo.space.expressions import read
from dngo.space.parameters import Fixed, Parameter


class Unconstrained:
    """The parameters of a space, and how a point looks to people, jobs and models.

    constraints: expressions over the parameters that every point keeps (see `dngo.space.expressions`);
    an expression that cannot be read raises ExpressionError.
    """

    def __init__(self, parameters: dict[str, Parameter], constraints: Sequence[str] = ()):
        self.parameters = dict(parameters)  # in the order of the configuration, for people
        self.fixed = {n: p.value for n, p in parameters.items() if isinstance(p, Fixed)}
        order = _parents_first(parameters)
        columns: list[Column] = []
        position: dict[str, int] = {}
        # Parents come first, so that one pass from left to right finds the active columns.
        # Otherwise columns are in the order of their names, so that moving lines in a file does not
        # change the space.
        for name in order:
            parameter = parameters[name]
            if isinstance(parameter, Fixed):
                continue
            conditions = []
            for parent, wanted in parameter.active_if.items():
                if parent in self.fixed:
                    continue  # fixed once the space is validated
                column = columns[position[parent]]
                conditions.append((position[parent], tuple(sorted(_wanted(column, wanted)))))
            position[name] = len(columns)
            columns.append(make_column(name, parameter, tuple(conditions)))
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
        self._unordered = [j for j, c in enumerate(self.columns) if c.kind == "categorical"]
        self.axes = Axes(self.columns)
        self._defaults = np.array([c.default for c in self.columns])
        self._low = np.array([c.low for c in self.columns])
        self._high = np.array([c.high for c in self.columns])
        self._rounded = [j for j, c in enumerate(self.columns) if c.levels is not None]
        self._stepped = [j for j, c in enumerate(self.columns) if c.grid and not c.integer]
        self.d = start + len(self._flag_columns)
        self.constraints = tuple(constraints)
        self.conditions = tuple(c for text in constraints for c in read(text, columns, self.fixed))

    @property
    def size(self) -> float:
        """Number of distinct points, infinite if any parameter is continuous (conditions and
        constraints ignored)."""
        return math.prod(math.inf if c.levels is None else c.levels for c in self.columns)

    # ---- natural values -------------------------------------------------------------------------

    def decode(self, u: np.ndarray) -> np.ndarray:
        """Decode points of the unit cube so that each listed value has equal probability, whatever
        the constraints.

        u: (n, k) in [0, 1].  Returns v: (n, k), rounded, NaN where inactive.
        """
        u = np.atleast_2d(np.asarray(u, dtype=float))
        v = self._nearest(self.axes.between(u))
        for j, column in enumerate(self.columns):
            if column.kind in ("grid", "categorical"):
                levels = column.levels or 1
                index = np.minimum(np.floor(u[:, j] * levels), levels - 1)
                v[:, j] = index if column.values is None else column.values[index.astype(int)]
        return self._mask(v)

    def on_grid(self, v: np.ndarray) -> np.ndarray:
        """Move natural values to the nearest ones that each parameter has, whatever the constraints.

        v: (n, k).  Inactive parameters become NaN, newly active ones their default.
        """
        return self._mask(self._nearest(self._filled(v)))

    def _nearest(self, v: np.ndarray) -> np.ndarray:
        v = np.clip(v, self._low, self._high)
        for j in self._rounded:
            v[:, j] = nearest(self.columns[j], v[:, j])
        return v

    def _filled(self, v: np.ndarray) -> np.ndarray:
        """Natural values v (n, k), with defaults for inactive parameters."""
        v = np.atleast_2d(np.asarray(v, dtype=float))
        return np.where(np.isnan(v), self._defaults, v)

    def active(self, v: np.ndarray) -> np.ndarray:
        """Which parameters matter at each point: (n, k) bool, from the values of their parents."""
        v = np.atleast_2d(v)
        active = np.ones(v.shape, dtype=bool)
        for j, column in enumerate(self.columns):
            for parent, wanted in column.conditions:
                active[:, j] &= active[:, parent] & np.isin(v[:, parent], wanted)
        return active

    def exists(self, v: np.ndarray, j: int) -> np.ndarray:
        """Where column j is active, (n,). Of the points only the earlier columns must be known, NaN
        where inactive."""
        active = np.ones(len(v), dtype=bool)
        for parent, wanted in self.columns[j].conditions:
            active &= np.isin(v[:, parent], wanted)
        return active

    def _mask(self, v: np.ndarray) -> np.ndarray:
        if self._flag_columns:
            v[~self.active(v)] = np.nan
        return v

    # ---- coordinates and model inputs -----------------------------------------------------------

    def unit(self, v: np.ndarray) -> np.ndarray:
        """Coordinates of natural values: (n, k) in [0, 1]; inactive ones at their default."""
        return self.axes.coordinates(self._filled(v))

    def place(self, v: np.ndarray, apart: float) -> np.ndarray:
        """Coordinates (n, k) of natural values v (n, k), in which a category's levels have no order
        and equal distances: any two are at least `apart` of a parameter's range from each other."""
        u = self.unit(v)
        for j in self._unordered:
            levels = self.columns[j].levels or 1
            u[:, j] = apart * np.floor(u[:, j] * levels).clip(max=levels - 1)
        return u

    @cached_property
    def is_ordered(self) -> np.ndarray:
        """Which parameters have values with an order: (k,) bool."""
        return np.array([c.kind != "categorical" for c in self.columns], dtype=bool)

    def at(self, u: np.ndarray) -> np.ndarray:
        """The nearest natural values to coordinates u: (n, k), whatever the constraints."""
        u = np.clip(np.atleast_2d(np.asarray(u, dtype=float)), 0.0, 1.0)
        return self._mask(self._nearest(self.axes.between(u)))

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

    def input_of(self, j: int) -> int:
        """The model input of column j, the first one of a category's."""
        return self._x_slices[j].start

    @property
    def continuous_inputs(self) -> list[int]:
        """Model inputs that are the coordinates of the continuous parameters, in their order."""
        pairs = zip(self.columns, self._x_slices, strict=True)
        return [part.start for column, part in pairs if column.levels is None]

    @cached_property
    def groups(self) -> np.ndarray:
        """Which model inputs belong together, by group numbers (d,), rising from 0. The one-hot columns
        of a categorical parameter share one number."""
        widths = [part.stop - part.start for part in self._x_slices]
        widths += [1] * len(self._flag_columns)
        return np.repeat(np.arange(len(widths)), widths)

    def keys(self, v: np.ndarray) -> list[bytes]:
        """A hashable key for each row. Keys are equal exactly if the points are the same."""
        return [row.tobytes() for row in self.bits(v)]

    def bits(self, v: np.ndarray) -> np.ndarray:
        """The key of each row as integers (n, k)."""
        v = np.ascontiguousarray(np.atleast_2d(v), dtype=float) + 0.0  # -0.0 becomes 0.0
        for j in self._stepped:
            v[:, j] = nearest(self.columns[j], v[:, j])  # earlier releases wrote 64.07000000000001
        v[np.isnan(v)] = np.nan  # every NaN gets the same bits
        return v.view(np.int64)

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
                    point[name] = natural(self.columns[index[name]], float(value))
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
                    v[i, j] = to_column(column, point[column.name])
        return v

    def defaults(self) -> np.ndarray:
        """The point in which every parameter has its default, even if it breaks constraints: (1, k)."""
        return self._mask(np.array([[c.default for c in self.columns]]).reshape(1, self.k))


def _wanted(column: Column, values: Sequence[Any]) -> list[float]:
    """The values of a parent, in its column's form, at which a parameter is active."""
    found = np.array([to_column(column, value) for value in values])
    if column.choices is not None:
        return found.tolist()
    near, problems = meant(column, found)
    # Older archives may have conditions on values that no point ever has.
    return [float(found[i] if i in problems else near[i]) for i in range(len(found))]


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
