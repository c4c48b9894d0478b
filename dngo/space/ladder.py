"""One parameter as a fidelity: it says how precise an evaluation is, and how much it costs.

An evaluation at a low value says something about one at the highest. The values in use are the
levels of a ladder. A point is the values of the other parameters. It is evaluated at the lowest
level first, and promoted from level to level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dngo.space.columns import natural
from dngo.space.space import Space


class Points(Space):
    """The space of all parameters except one, whose value is fixed.

    Models see the inputs of the whole space: `encode` gives the inputs (n, d) of the whole.
    """

    def __init__(self, whole: Space, name: str, value: float) -> None:
        others = {n: p for n, p in whole.parameters.items() if n != name}
        super().__init__(others, whole.constraints)
        self.whole, self.value = whole, value
        self.j = [column.name for column in whole.columns].index(name)
        self.d = whole.d

    @cached_property
    def plain(self) -> Space:
        """The space without the fidelity, for models that do not use that input."""
        return Space(self.parameters, self.constraints)

    def full(self, v: np.ndarray, value: np.ndarray | float | None = None) -> np.ndarray:
        """Points (n, k) of this space as points (n, k + 1) of the whole, at one fidelity or at one
        each (n,)."""
        return np.insert(np.atleast_2d(v), self.j, self.value if value is None else value, axis=1)

    def of_full(self, v: np.ndarray) -> np.ndarray:
        """The reverse of `full`."""
        return np.delete(np.atleast_2d(v), self.j, axis=1)

    def encode(self, v: np.ndarray) -> np.ndarray:
        """Model inputs x (n, d) of the whole space, with the fidelity at this space's value."""
        v = np.reshape(np.asarray(v, dtype=float), (-1, self.k))
        return self.whole.encode(self.full(v))

    @property
    def continuous_inputs(self) -> list[int]:
        """Model inputs that are the coordinates of the continuous parameters, without the
        fidelity."""
        own = self.whole.input_of(self.j)
        return [i for i in self.whole.continuous_inputs if i != own]

    @cached_property
    def groups(self) -> np.ndarray:
        """As `Space.groups`, of the inputs of the whole space."""
        return self.whole.groups


@dataclass(frozen=True)
class Ladder:
    """The levels of a fidelity.

    space: the whole one. name: of the parameter. levels: its values, rising, at least two. factor:
    of so many points at a level one is promoted.
    """

    space: Space
    name: str
    levels: tuple[float, ...]
    factor: float

    @classmethod
    def of(cls, space: Space, name: str, low: float, high: float, factor: float) -> Ladder:
        """Levels from `low` to `high`, each about `factor` times the one before, as the space has them."""
        column = next(c for c in space.columns if c.name == name)
        steps = max(1, round(math.log(high / low) / math.log(factor)))
        wanted = low * (high / low) ** (np.arange(steps + 1) / steps)
        v = np.repeat(space.defaults(), len(wanted), axis=0)
        v[:, space.columns.index(column)] = wanted
        levels = np.unique(space.on_grid(v)[:, space.columns.index(column)])
        return cls(space, name, tuple(levels.tolist()), factor)

    @cached_property
    def points(self) -> Points:
        """The points, which models see at the highest level."""
        return Points(self.space, self.name, self.levels[-1])

    @property
    def top(self) -> int:
        """The number of the highest level; the lowest is 0."""
        return len(self.levels) - 1

    def values(self, v: np.ndarray) -> np.ndarray:
        """The fidelities of points of the whole space (n, k): (n,)."""
        found: np.ndarray = np.atleast_2d(v)[:, self.points.j]
        return found

    def level(self, v: np.ndarray) -> np.ndarray:
        """The highest level that points of the whole space (n, k) reach, -1 below the lowest: (n,)."""
        reached = np.asarray(self.levels) * (1 - 1e-9)
        return np.searchsorted(reached, self.values(v), side="right") - 1

    def is_top(self, v: np.ndarray) -> np.ndarray:
        """Which points of the whole space are at the highest level, or beyond it: (n,) bool."""
        return self.level(v) == self.top

    def counts(self, v: np.ndarray, ok: np.ndarray) -> np.ndarray:
        """Which of the points (n, k) of the whole space may be the best one: (n,) bool.

        ok: (n,) bool. These are the ok points at the highest level, or at the highest level that
        any of them reached.
        """
        level = self.level(v)
        return ok & (level == level[ok].max(initial=-1))

    def at(self, v: np.ndarray, level: int | np.ndarray) -> np.ndarray:
        """Points (n, k - 1) as points (n, k) of the whole space, all at one level or each at its
        own."""
        return self.points.full(v, np.asarray(self.levels)[np.asarray(level)])

    def text(self, level: int) -> str:
        """The fidelity's value at a level, as people write it."""
        return f"{natural(self.space.columns[self.points.j], self.levels[level]):.6g}"

    def key(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The identity of a point: its parameters without the fidelity."""
        return {n: value for n, value in parameters.items() if n != self.name}

    def costs(self) -> np.ndarray:
        """The cost of an evaluation at each level, in units of the highest level's: (levels,)."""
        found: np.ndarray = np.asarray(self.levels) / self.levels[-1]
        return found


def ladder_of(space: Space, section: dict[str, Any] | None) -> Ladder | None:
    """The ladder of a resolved section `fidelity` of a configuration; None without one."""
    if not section:
        return None
    column = next(c for c in space.columns if c.name == section["parameter"])
    low, high = (
        own if section.get(key) is None else section[key]
        for key, own in (("low", column.low), ("high", column.high))
    )
    return Ladder.of(space, column.name, float(low), float(high), float(section["factor"]))
