"""Values at equal steps, exactly: those of the decimal numbers that people wrote."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dngo.types import Array

EXACT = 2**53
"""Every whole number up to this one is a float of its own."""
ROUNDING = 1e-9
"""Share of a step: a number this near to a value of a grid is that value, apart from rounding."""
_MOST = 2**60  # levels, for archives from before such ranges were refused


@dataclass(frozen=True)
class Grid:
    """The values (first + k * step) / unit, for k = 0 ... levels - 1. first, step, unit: whole numbers.

    Each is the float nearest to the decimal number: 0.1, 3 steps on from 0, is 0.3 for people and jobs.
    """

    first: int
    step: int
    unit: int
    levels: int

    @classmethod
    def of(cls, low: float, high: float, step: float) -> Grid:
        """The grid from low to high as they are written. If a rounded step such as 1/3 misses high,
        the grid ends at high."""
        start, end, width = (Fraction(repr(number)) for number in (low, high, step))
        count = (end - start) // width
        # The rounding of the step, summed up at the end, and of the end.
        slack = Fraction(0)
        if not (isinstance(low, int) and isinstance(step, int)):
            slack = (count + 1) * Fraction(math.ulp(step)) + Fraction(math.ulp(high))
        if start + (count + 1) * width - end <= max(slack, Fraction(ROUNDING) * width):
            count += 1
        if count and 0 < abs(end - start - count * width) <= slack:
            width = (end - start) / count
        unit = math.lcm(start.denominator, width.denominator)
        return cls(int(start * unit), int(width * unit), unit, min(count + 1, _MOST))

    def keeps(self, step: float | None) -> bool:
        """Whether its step is this decimal number to the last digit."""
        return step is not None and Fraction(self.step, self.unit) == Fraction(repr(step))

    def nearest(self, number: float) -> float:
        """The value that is nearest to a number."""
        k = round((Fraction(number) * self.unit - self.first) / self.step)
        return self._value(min(max(k, 0), self.levels - 1))

    def values(self, k: Array) -> Array:
        """The values of some steps k, whole numbers or NaN."""
        if max(abs(self.first) + (self.levels - 1) * self.step, self.unit) <= EXACT:
            # Both sides are exact, and a division is rounded once.
            found: Array = (self.first + k * self.step) / self.unit
            return found
        numbers = [math.nan if i != i else self._value(int(i)) for i in np.ravel(k).tolist()]
        return np.array(numbers, dtype=float).reshape(np.shape(k))

    def _value(self, i: int) -> float:
        return (self.first + i * self.step) / self.unit
