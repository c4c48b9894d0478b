"""The scale on which a number is searched: its own, its logarithm, or a scale of another
package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dngo.types import Array


@dataclass(frozen=True)
class Scale:
    """The search looks at `to(value)`; equal steps there count the same.

    to: values (n,) to places (n,), rising and finite in the parameter's range. back: places to values.
    """

    to: Callable[[Array], Array]
    back: Callable[[Array], Array]

    def __post_init__(self) -> None:
        if not callable(self.to) or not callable(self.back):
            raise TypeError("a scale is two functions of arrays, Scale(to, back)")

    def fault(self, low: float, high: float) -> str:
        """Why it cannot be used between two values; empty if it can."""
        values = np.linspace(low, high, 65)
        with np.errstate(all="ignore"):
            places = np.asarray(self.to(values), dtype=float)
            if places.shape != values.shape or not np.all(np.isfinite(places)):
                return f"its scale is not defined everywhere from {low} to {high}"
            if not np.all(np.diff(places) > 0):
                return f"its scale does not rise from {low} to {high}"
            again = np.asarray(self.back(places), dtype=float)
        if not np.allclose(again, values, rtol=0.0, atol=1e-6 * (high - low)):
            return f"its scale does not lead back to the values from {low} to {high}"
        return ""


LINEAR = Scale(np.positive, np.positive)
LOGARITHMIC = Scale(np.log, np.exp)
