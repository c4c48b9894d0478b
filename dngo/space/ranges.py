"""Finds ranges in which values cannot be told apart, and says what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from dngo.space.grids import Grid
from dngo.space.scales import LINEAR, LOGARITHMIC, Scale

# Floats reach 1.8e308, but products of such numbers, and widths of such ranges, would overflow.
LARGEST, SMALLEST = 1e300, 1e-300
APART = 16  # least number of floats from one value to the next, on the parameter's scale
NUMBERS = 2**12  # least number of floats in a continuous range
MOST_LEVELS = 2**49  # most whole numbers: coordinates from 0 to 1 cannot tell more apart
MEMBERS_APART = 1e-9  # least gap between listed values, as a share of their range


def fault_of_range(
    low: float, high: float, step: float | None, *, scale: Scale, whole: bool
) -> str:
    """Why some values from low to high cannot be told apart, and what would be right; empty if all can.

    whole: they are integers, and step is 1 if it is None.
    """
    if wrong := _fault_of_ends(low, high, scale):
        return wrong
    if high - low < SMALLEST:
        return f"the range {low} to {high} is too narrow to calculate with; use a smaller unit"
    place = _place(scale)
    places = (float,) if place is float else (float, place)
    if step is None and not whole:
        number = min((f(high) - f(low)) / _spacing((low, high), f) for f in places)
        if number >= NUMBERS:
            return ""
        return (
            f"only {number:.0f} floating-point numbers lie between low ({low!r}) and high ({high!r}), "
            f"too few to search; search the difference from {low}"
        )
    step = step or 1
    if not 0 < step <= high - low:
        return ""  # which is said elsewhere
    if whole and (levels := Grid.of(low, high, step).levels) > MOST_LEVELS:
        return (
            f"its {levels} values are more than the model can tell apart, {MOST_LEVELS}; narrow the "
            "range, or widen the step"
        )
    for f in places:
        gap = min(f(high) - f(high - step), f(low + step) - f(low))
        if f is float:
            gap = float(step)
        elif scale is LOGARITHMIC:
            gap = -math.log1p(-min(step / high, 0.5))
        exact = whole and f is float
        if gap < APART * _spacing((low, high), f) and not exact:
            on = "" if f is float else " on its scale"
            on = " on a logarithmic scale" if scale is LOGARITHMIC and on else on
            return (
                f"values near {high} that are {step} apart cannot be told apart{on} in floating "
                "point; widen the step, or narrow the range"
            )
    return ""


def fault_of_values(values: list[float] | list[int], *, scale: Scale, whole: bool) -> str:
    """The same for listed values."""
    if wrong := _fault_of_ends(min(values), max(values), scale):
        return wrong
    place = _place(scale)
    values = sorted(values)
    places = [place(x) for x in values]
    least = MEMBERS_APART * (places[-1] - places[0])
    if scale is not LINEAR or not whole:
        least = max(least, APART * _spacing(values, place))
    # Integers are exact, but near a large number floats lie far apart.
    near = 0 if whole else APART
    for (a, b), (x, y) in zip(pairwise(values), pairwise(places), strict=True):
        if y - x < least or b - a < near * math.ulp(max(abs(a), abs(b))):
            return "two values are too close to be told apart; list one of them"
    return ""


def _place(scale: Scale) -> Callable[[float], float]:
    if scale is LINEAR:
        return float
    return math.log if scale is LOGARITHMIC else lambda value: float(scale.to(np.array(value)))


def _spacing(values: Sequence[float], place: Callable[[float], float]) -> float:
    """The largest gap between floating-point numbers on a scale."""
    return math.ulp(max(abs(place(x)) for x in values))


def _fault_of_ends(low: float, high: float, scale: Scale) -> str:
    if max(abs(low), abs(high)) > LARGEST:
        return f"numbers beyond {LARGEST:g} cannot be calculated with; use a larger unit"
    if scale is LOGARITHMIC and low < SMALLEST:
        return f"log: true needs values from {SMALLEST:g} on, and the lowest is {low}"
    return "" if scale in (LINEAR, LOGARITHMIC) or low == high else scale.fault(low, high)
