"""One varying parameter as a column of numbers: its natural values and its coordinate axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dngo.space.grids import ROUNDING, Grid
from dngo.space.parameters import Boolean, Listed, Number, Parameter, Real, Whole
from dngo.space.scales import LINEAR, LOGARITHMIC, Scale

Kind = Literal["float", "int", "grid", "categorical"]


@dataclass(frozen=True)
class Column:
    """One varying parameter as a column of ``v``.

    name: the parameter's name.
    kind: "float", "int", "grid" (listed values with an order) or "categorical" (no order).
    levels: number of distinct values, None for a continuous one.
    low, high: limits in natural units; for choices, of the index. scale: how its coordinates are
    spaced.
    values: (levels,) sorted numbers of a grid, or None.
    choices: the natural values behind the indices of an ordinal, categorical or boolean, or None.
    step: of a stepped float or integer, or None; grid: its values.
    integer: natural values are integers.
    default: the natural value (for choices the index) that a point has where the parameter is
    inactive.
    conditions: pairs (column index, admissible values in ``v``); all must hold.
    """

    name: str
    kind: Kind
    levels: int | None
    low: float
    high: float
    scale: Scale
    values: np.ndarray | None
    choices: tuple[Any, ...] | None
    step: float | None
    grid: Grid | None
    integer: bool
    default: float
    conditions: tuple[tuple[int, tuple[float, ...]], ...]

    @property
    def log(self) -> bool:
        """Whether its coordinates are logarithmic."""
        return self.scale is LOGARITHMIC

    def listed(self) -> np.ndarray:
        """Its natural values, (levels,); of choices, their indices. Not for a continuous one."""
        if self.values is not None:
            return self.values
        if self.choices is not None:
            return np.arange(len(self.choices), dtype=float)
        assert self.levels is not None
        return self.low + np.arange(self.levels, dtype=np.float64) * (self.step or 1.0)


def make_column(name: str, p: Parameter, conditions: tuple) -> Column:
    kind: Kind
    values = choices = step = grid = None
    levels: int | None
    scale, integer = LINEAR, False
    if isinstance(p, Number):
        assert isinstance(p, Real | Whole)
        scale, integer = p.scale, p.whole
    if isinstance(p, Real | Whole) and p.values is not None:
        values = np.array(sorted(float(x) for x in p.values))
        kind, low, high = "grid", values[0], values[-1]
        levels = len(values)
        default = float(p.default) if p.default is not None else values[(len(values) - 1) // 2]
    elif isinstance(p, Real | Whole):
        assert p.low is not None and p.high is not None  # validated
        kind = "int" if integer else "float"
        low, high = float(p.low), float(p.high)
        step = float(p.step) if p.step is not None else (1.0 if kind == "int" else None)
        if step is not None:
            grid = Grid.of(p.low, p.high, 1 if p.step is None else p.step)
        levels = None if grid is None else grid.levels
        default = float(p.default) if p.default is not None else _middle(low, high, scale)
    else:
        assert isinstance(p, Listed | Boolean)
        choices = (False, True) if isinstance(p, Boolean) else p.listed
        kind = "grid" if p.is_ordered else "categorical"
        levels, low, high = len(choices), 0.0, float(len(choices) - 1)
        fallback = (levels - 1) // 2 if kind == "grid" else 0
        default = float(index_of(choices, p.default)) if p.default is not None else float(fallback)
    column = Column(
        name=name,
        kind=kind,
        levels=levels,
        low=low,
        high=high,
        scale=scale,
        values=values,
        choices=choices,
        step=step,
        grid=grid,
        integer=integer,
        default=default,
        conditions=conditions,
    )
    # A computed middle value is rounded like any other value.
    return replace(column, default=float(nearest(column, np.array([default]))[0]))


def index_of(choices: tuple[Any, ...], value: Any) -> int:
    # `True == 1` in Python: the type is part of a choice's identity.
    same = [
        i
        for i, choice in enumerate(choices)
        if choice == value and isinstance(choice, bool) == isinstance(value, bool)
    ]
    if same:
        # Older archives may have 1 beside 1.0.
        return next((i for i in same if type(choices[i]) is type(value)), same[0])
    raise ValueError(f"{value!r} is not one of {list(choices)}")


def _middle(low: float, high: float, scale: Scale) -> float:
    return float(_between(np.array([low]), np.array([high]), scale)[0])


def _between(low: np.ndarray, high: np.ndarray, scale: Scale) -> np.ndarray:
    """The middle on a scale is computed there: on a logarithmic scale, a product could overflow."""
    if scale is LINEAR:
        middle: np.ndarray = (low + high) / 2
        return middle
    if scale is not LOGARITHMIC:
        return np.asarray(scale.back((scale.to(low) + scale.to(high)) / 2))
    with np.errstate(over="ignore", under="ignore"):
        product = low * high
    fits = (product > 1e-300) & (product < 1e300)
    return np.where(fits, np.sqrt(np.where(fits, product, 1.0)), np.sqrt(low) * np.sqrt(high))


def to_column(column: Column, value: Any) -> float:
    if column.choices is not None:
        return float(index_of(column.choices, value))
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{column.name}: {value!r} is not a number")
    if not column.low <= value <= column.high:
        raise ValueError(f"{column.name}: {value!r} is outside [{column.low}, {column.high}]")
    return float(value)


def meant(column: Column, values: np.ndarray) -> tuple[np.ndarray, dict[int, str]]:
    """The values of a column for given numbers (n,), and what is wrong with numbers that have none,
    by row.

    Numbers that people enter come here. A value of the column stands for itself. In a grid or a
    list, a number that is off only by rounding stands for the nearest value; this is so at the ends
    and at zero as well.
    """
    near = nearest(column, values)
    wrong = ~(np.abs(values - near) <= _rounding(column, near))
    problems = {}
    for i in np.flatnonzero(wrong):
        given = float(values[i])
        place = f"is outside {written(column, column.low)} to {written(column, column.high)}"
        if column.low <= given <= column.high:
            place = f"is not on the grid; next to it is {written(column, float(near[i]))}"
        problems[int(i)] = f"{column.name}: {written(column, given)} {place}"
    return near, problems


def never(name: str, parameter: Parameter, values: Sequence[Any]) -> str:
    """The message for values that a parameter can never have; empty if it can have all of them.

    A condition that waits for such a value would never hold.
    """
    if not values:
        return "names no value: never active"
    if not isinstance(parameter, Real | Whole):
        return ""
    column = make_column(name, parameter, ())
    if column.levels is None:
        return (
            f"{name} is continuous, and no condition can wait for {values[0]!r} exactly: give it "
            "values or a step, or add a choice that decides"
        )
    _, problems = meant(column, np.array(values, dtype=float))
    if not problems:
        return ""
    said = f"{name} never has the value {values[min(problems)]!r}; "
    if column.integer and column.values is None and column.step == 1:
        return f"{said}it has the whole numbers from {parameter.low} to {parameter.high}"
    few = np.arange(min(column.levels, 3.0))
    first = column.grid.values(few) if column.grid else np.array(column.values)[:3]
    last = [] if column.levels <= 3 else ["..."] if column.levels > 4 else []
    shown = [written(column, x) for x in first.tolist()]
    if column.levels > 3:
        last.append(written(column, float(nearest(column, np.array([column.high]))[0])))
    return f"{said}it has the values {', '.join([*shown, *last])}"


def contradicted(name: str, parameters: Mapping[str, Parameter]) -> str:
    """The parameter that has no value where `name` is active; empty if there is none.

    A parameter is active only where its parents are, so their conditions are also its conditions.
    """
    left: dict[str, list[Any]] = {}
    waiting, seen = [name], {name}
    while waiting:
        for parent, wanted in parameters[waiting.pop()].active_if.items():
            before = left.get(parent, wanted)
            left[parent] = [x for x in wanted if any(_same(x, y) for y in before)]
            if not left[parent]:
                return parent
            waiting += {parent} - seen
            seen.add(parent)
    return ""


def _same(one: Any, other: Any) -> bool:
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (one, other))
    return math.isclose(one, other) if numbers else one == other


def written(column: Column, value: float) -> str:
    """A number as messages show it."""
    if column.integer and value.is_integer():
        return str(int(value))
    short = f"{value:.15g}"
    return short if float(short) == value else repr(value)


def _rounding(column: Column, near: np.ndarray) -> np.ndarray:
    """How far a number may lie from each of its values (n,) and still count as that value: (n,)."""
    size = np.spacing(max(abs(column.low), abs(column.high)))
    if column.levels is None:
        return np.zeros(len(near))  # every number of its range is a distinct value
    if column.integer:
        return np.clip(4 * np.spacing(np.abs(near)), ROUNDING, 0.25)
    if column.values is None:
        gap = np.full(len(near), column.step)
    else:
        around = np.concatenate([[-np.inf], column.values, [np.inf]])
        at = np.searchsorted(column.values, near) + 1
        gap = np.minimum(near - around[at - 1], around[at + 1] - near)
        gap = np.minimum(gap, np.where(near == 0, np.inf, np.abs(near)))
        gap, size = np.where(np.isinf(gap), 1.0, gap), np.spacing(np.abs(near))
    return np.minimum(np.maximum(ROUNDING * gap, 4 * size), gap / 4)


def natural(column: Column, value: float) -> Any:
    if column.choices is not None:
        return column.choices[int(value)]
    return int(value) if column.integer else value


def edges(column: Column) -> tuple[float, float]:
    """Ends of the coordinate axis. An integer owns half a step on either side, at the ends as
    well."""
    if column.choices is not None:
        return -0.5, column.high + 0.5
    if column.step is not None and column.kind in ("int", "float"):
        low = column.low - column.step / 2
        top = column.low + ((column.levels or 1) - 0.5) * column.step
        if column.log and low <= 0:
            low = column.low / 2
        if column.scale in (LINEAR, LOGARITHMIC) or not column.scale.fault(low, top):
            return low, top
    return column.low, column.high


class Axes:
    """The coordinate axes of some columns: natural values v (n, k) and coordinates u (n, k) in [0, 1]."""

    def __init__(self, columns: Sequence[Column]) -> None:
        ends = np.array([edges(c) for c in columns]).reshape(-1, 2)
        scales = dict.fromkeys(c.scale for c in columns if c.scale is not LINEAR)
        self._bent = [
            (scale, np.flatnonzero([c.scale is scale for c in columns])) for scale in scales
        ]
        for scale, at in self._bent:
            ends[at] = scale.to(ends[at])
        self._low, self._span = ends[:, 0], ends[:, 1] - ends[:, 0]
        self._flat = np.flatnonzero(self._span == 0)

    def coordinates(self, v: np.ndarray) -> np.ndarray:
        """Coordinates of values (n, k); 0.5 in a column that has only one value."""
        u = np.array(v)
        for scale, at in self._bent:
            u[:, at] = scale.to(u[:, at])
        u -= self._low
        u[:, self._flat] = 0.5
        u /= np.where(self._span == 0, 1.0, self._span)
        return np.clip(u, 0.0, 1.0, out=u)

    def between(self, u: np.ndarray) -> np.ndarray:
        """Values at coordinates (n, k), not yet rounded to the columns' values."""
        v: np.ndarray = self._low + u * self._span
        for scale, at in self._bent:
            v[:, at] = scale.back(v[:, at])
        return v


def nearest(column: Column, value: np.ndarray) -> np.ndarray:
    if column.values is not None:
        return _listed(column.values, value, column.scale)
    if column.choices is not None:
        return np.clip(np.floor(value + 0.5), 0, column.high)
    if column.grid is not None and column.step is not None:
        steps = np.floor((value - column.low) / column.step + 0.5)
        found = column.grid.values(np.clip(steps, 0, column.grid.levels - 1))
        return np.clip(found, column.low, column.high)
    return np.clip(value, column.low, column.high)


def _listed(values: np.ndarray, value: np.ndarray, scale: Scale) -> np.ndarray:
    """The nearest of listed values, ascending."""
    low, high = values[:-1], values[1:]
    middle = _between(low, high, scale)
    at = np.searchsorted(values, value).clip(max=len(values) - 1)
    # Where two floats are neighbours, the middle is one of them.
    return np.where(values[at] == value, value, values[np.searchsorted(middle, value)])
