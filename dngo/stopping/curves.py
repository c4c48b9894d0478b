"""What an evaluation reported while it ran: a curve of values by step, thinned so that it stays
small.

The rule: every point is kept while there are few; then every second one, every fourth and so on, counted
from the first. The first, the last, the lowest and the highest point are always kept, and no more than
`MOST` points are. A step that is not beyond the last one means that the run went back, for example to
a checkpoint. It replaces the reports of that step and of later ones.

If a run goes back again and again, its steps do not say how far it has come: a counter restarts, or
counts down. Then its reports are counted instead.

Of several objectives each point has a value for each, in the order of their names.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

MOST = 200  # points of a curve
SHOWN = 8  # points in a line of text
# Reports and steps back from which on steps may be useless, and how many reports share one step then.
FEWEST, BACK, SHARED = 8, 3, 3
# Step, the value of each objective, seconds since the start (NaN: unknown).
Point = tuple[float, ...]
# Of each objective: 1 where small values are good, -1 where large ones are.
Signs = tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """The points of one evaluation, by rising step. Values are in natural units, NaN if unknown.

    ended: whether the evaluation has ended, in whatever way. level: of its fidelity, 0 without one.
    """

    points: tuple[Point, ...] = ()
    ended: bool = True
    level: int = 0

    @cached_property
    def steps(self) -> list[float]:
        return [point[0] for point in self.points]

    @cached_property
    def reach(self) -> float:
        """The last step, 0 where there is no point."""
        return self.points[-1][0] if self.points else 0.0

    def until(self, step: float) -> Curve:
        """The curve as if the run had ended at a step; the curve itself if it had."""
        if self.reach <= step:
            return self
        if step not in self._cut:
            points = self.points[: bisect_right(self.steps, step)]
            self._cut[step] = replace(self, points=points, ended=True)
        return self._cut[step]

    @cached_property
    def _cut(self) -> dict[float, Curve]:
        return {}

    @cached_property
    def _best(self) -> dict[float, list[float]]:
        return {}

    @cached_property
    def _each(self) -> tuple[Curve, ...]:
        number = len(self.points[0]) - 2 if self.points else 1
        if number == 1:
            return (self,)
        return tuple(
            replace(self, points=tuple((p[0], p[1 + j], p[-1]) for p in self.points))
            for j in range(number)
        )

    def of_objective(self, j: int) -> Curve:
        """The curve of the j-th of several objectives; without points where it has none."""
        return self._each[j] if j < len(self._each) else replace(self, points=())

    def bests_until(self, step: float, signs: Signs) -> tuple[float, ...] | None:
        """`best_until` of each objective, whose signs these are."""
        found = [self.of_objective(j).best_until(step, sign) for j, sign in enumerate(signs)]
        return None if None in found else tuple(b for b in found if b is not None)

    @property
    def last(self) -> Point:
        """The last point; raises IndexError where there is none."""
        return self.points[-1]

    def best_until(self, step: float, sign: float) -> float | None:
        """The best value up to a step, times `sign` so that less is better; None if the curve did
        not get there.

        Infinite where no value was a number.
        """
        steps = self.steps
        if not steps or steps[-1] < step:
            return None
        best = self._best.get(sign)
        if best is None:
            values = (math.inf if math.isnan(p[1]) else sign * p[1] for p in self.points)
            best = self._best[sign] = list(accumulate(values, min))
        i = bisect_right(steps, step)
        return best[i - 1] if i else None

    def __str__(self) -> str:
        """A line: the first points, some in between, and the last."""
        n, shown = len(self.points), min(len(self.points), SHOWN)
        rows = sorted({round(i * (n - 1) / max(shown - 1, 1)) for i in range(shown)})
        kept = [self.points[i] for i in rows]
        points = ", ".join(f"{p[0]:.6g}: {' and '.join(f'{v:.4g}' for v in p[1:-1])}" for p in kept)
        return f"{points}" + (f" ({n} points)" if n > shown else "")

    def plain(self) -> list[list[float | None]]:
        """As JSON: null if a value is no number."""
        return [[v if math.isfinite(v) else None for v in point] for point in self.points]

    @classmethod
    def of(cls, points: Iterable[Sequence[Any]]) -> Curve:
        """The curve of points as `plain` gives them; raises ValueError, TypeError for others."""
        found = [tuple(math.nan if v is None else float(v) for v in point) for point in points]
        if found and (len(found[0]) < 3 or len({len(point) for point in found}) > 1):
            raise ValueError("a point of a curve is not a step, values and seconds")
        return cls(tuple(found))


class Growing:
    """A curve to which points are added, one after another. most: how many points are kept."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._grid: list[Point] = []
        self._stride, self._count = 1, 0
        self._last: Point | None = None
        self._ends: dict[tuple[int, float], Point] = {}  # the lowest and the highest, by objective

    def add(self, point: Point) -> None:
        """Add what was reported of a step."""
        if self._last is not None and point[0] <= self._last[0]:
            self._go_back(point[0])
        if self._count % self._stride == 0:
            self._grid.append(point)
            if len(self._grid) > self._most - 1 - 2 * (len(point) - 2):
                self._grid = self._grid[::2]
                self._stride *= 2
        self._count += 1
        self._take(point)

    @property
    def count(self) -> int:
        """About how many points there are, also of those that were left out."""
        return self._count

    def curve(self) -> Curve:
        """The points that have been kept so far."""
        last = [] if self._last is None else [self._last]
        # NaN does not equal NaN, so a point is known by its step.
        points = {p[0]: p for p in (*self._grid, *self._ends.values(), *last)}
        return Curve(tuple(points[step] for step in sorted(points)))

    def _take(self, point: Point) -> None:
        self._last = point
        for j in range(1, len(point) - 1):
            if math.isnan(point[j]):
                continue
            for sign in (1.0, -1.0):
                known = self._ends.get((j, sign))
                if known is None or sign * point[j] < sign * known[j]:
                    self._ends[j, sign] = point

    def _go_back(self, step: float) -> None:
        kept = [p for p in self.curve().points if p[0] < step]
        self._grid = [p for p in self._grid if p[0] < step]
        self._count = len(self._grid) * self._stride
        self._last, self._ends = None, {}
        for point in kept:
            self._take(point)


class Reports:
    """The curve of what one evaluation reports.

    count: its reports. back: how many of them did not go on to a later step. counted: whether
    reports are counted instead of steps.
    """

    def __init__(self) -> None:
        self._by_step, self._by_count = Growing(), Growing()
        self._step = -math.inf
        self.count = self.back = 0
        self.counted = False

    def add(self, point: Point) -> None:
        """Add what was reported of a step."""
        self.count, self.back = self.count + 1, self.back + (point[0] <= self._step)
        self._step = point[0]
        self._by_step.add(point)
        self._by_count.add((float(self.count), *point[1:]))
        lost = self._by_step.count * SHARED < self.count
        self.counted |= self.count >= FEWEST and self.back >= BACK and lost

    @property
    def unclear(self) -> bool:
        """Whether there are too few reports to know what its steps mean."""
        return self.back > 0 and self.count < FEWEST

    def curve(self) -> Curve:
        """The points that have been kept so far."""
        return (self._by_count if self.counted else self._by_step).curve()


def thinned(points: Iterable[Point], most: int = MOST) -> Curve:
    """The curve of these points, as it is kept."""
    growing = Growing(most)
    for point in points:
        growing.add(point)
    return growing.curve()
