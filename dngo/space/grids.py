"""Values at equal steps, exactly as the decimal numbers that people wrote."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dngo.types import Array

EXACT = 2**53
"""Up to here, every whole number is exactly a float."""
ROUNDING = 1e-9
"""A number that is off a grid's value by less than this share of a step differs only by
rounding."""
_MOST = 2**60  # most levels; archives of earlier releases may have wider ranges


@dataclass(frozen=True)
class Grid:
    """The values (first + k * step) / unit, for k = 0 ... levels - 1. first, step, unit: whole numbers.

    Each value is the float nearest to its decimal number: three steps of 0.1 from 0 give 0.3, for
    people and jobs.
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
        # The rounding of the step, added up over the range, and the rounding of the range's end.
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
        """Whether its step equals this decimal number to the last digit."""
        return step is not None and Fraction(self.step, self.unit) == Fraction(repr(step))

    def nearest(self, number: float) -> float:
        """The value that is nearest to a number."""
        k = round((Fraction(number) * self.unit - self.first) / self.step)
        return self._value(min(max(k, 0), self.levels - 1))

    def values(self, k: Array) -> Array:
        """The values after k steps; k: whole numbers or NaN."""
        if max(abs(self.first) + (self.levels - 1) * self.step, self.unit) <= EXACT:
            # Numerator and denominator are exact, and the division rounds once.
            found: Array = (self.first + k * self.step) / self.unit
            return found
        numbers = [math.nan if i != i else self._value(int(i)) for i in np.ravel(k).tolist()]
        return np.array(numbers, dtype=float).reshape(np.shape(k))

    def _value(self, i: int) -> float:
        return (self.first + i * self.step) / self.unit
