"""The units in which models see the objective: minimised, and as a logarithm on a logarithmic scale.

Surrogates and acquisitions work with inward values. Archives and people have the objective's own
values. On a logarithmic scale, a normal of inward values is a lognormal of the objective's values;
its mean and deviation determine it. So an interval is a factor on either side, and never below
zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dngo.fronts import sign_of
from dngo.thresholds import Threshold
from dngo.types import Array

LARGEST = 600.0  # largest mean and variance of a logarithm; larger ones would overflow
LINEAR, LOG = "linear", "log"


@dataclass(frozen=True)
class Units:
    """sign: 1 if small values are good, -1 if large ones are. log: whether models see the logarithm."""

    sign: float
    log: bool = False

    @classmethod
    def of(cls, resolved: Mapping[str, Any], direction: str) -> Units:
        """The units of the only objective, from a resolved configuration."""
        named = list((resolved.get("objectives") or {}).values())
        section = named[0] if len(named) == 1 else resolved.get("objective", {})
        return cls(sign_of(direction), section.get("scale", LINEAR) == LOG)

    def inward(self, y: Array) -> Array:
        """Values in the models' units: NaN if missing, or if not above 0 on a logarithmic scale."""
        if not self.log:
            return np.asarray(self.sign * y)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.sign * np.where(y > 0, np.log(y), np.nan))

    def inward_noise(self, y: Array, noise: Array) -> Array:
        """Standard deviations of values y, in the models' units."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(y > 0, noise / y, np.nan) if self.log else noise

    def outward(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """Mean and deviation of the objective, from those of a model's normal."""
        if not self.log:
            return np.asarray(self.sign * mean), std
        variance = np.minimum(np.square(std), LARGEST / 2)
        found = np.exp(np.clip(self.sign * mean + 0.5 * variance, -LARGEST, LARGEST))
        return found, found * np.sqrt(np.expm1(variance))

    def moments(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """The inverse of `outward`."""
        if not self.log:
            return np.asarray(self.sign * mean), std
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.log1p(np.square(std / mean))
            return np.asarray(self.sign * (np.log(mean) - 0.5 * variance)), np.sqrt(variance)

    def interval(self, mean: Array, std: Array, deviations: float) -> tuple[Array, Array]:
        """The interval of the objective with this many deviations on either side: low and high.

        mean, std: of the objective.
        """
        if not self.log:
            return mean - deviations * std, mean + deviations * std
        inner, spread = self.moments(mean, std)
        centre = self.sign * inner
        return np.exp(centre - deviations * spread), np.exp(centre + deviations * spread)

    def margin(self, mean: float, std: float) -> str:
        """The 95 % interval around a mean of the objective, as a text after the number."""
        if not self.log:
            return f"± {1.96 * std:.2g}"
        low, high = self.interval(np.array(mean), np.array(std), 1.96)
        return f"from {float(low):.4g} to {float(high):.4g}"

    def log_slope(self, y: Array) -> Array:
        """The term that turns a log density of inward values into one of the objective's values."""
        return -np.log(y) if self.log else np.zeros_like(y)


def units_of(resolved: Mapping[str, Any]) -> dict[str, Units]:
    """The units of each named objective, by name in order, from a resolved configuration."""
    named = resolved.get("objectives") or {}
    return {
        n: Units(sign_of(named[n]["direction"]), named[n].get("scale", LINEAR) == LOG)
        for n in sorted(named)
    }


def finite(
    numbers: Mapping[str, Array], thresholds: Mapping[str, Threshold | None]
) -> dict[str, Array]:
    """The numbers of constraints, name to (n,), with values for infinite ones.

    An infinite number lies beyond all others and beyond the bound. How far is unknown: it counts as
    one more of their range, so that a model learns where such numbers are.
    """
    found = dict(numbers)
    for name, number in numbers.items():
        if np.isinf(number).any():
            bounds = [] if (one := thresholds.get(name)) is None else [one.bound]
            others = [*number[np.isfinite(number)], *bounds]
            low, high = (min(others), max(others)) if others else (0.0, 0.0)
            beyond = high - low if high > low else max(abs(high), 1.0)
            outside = np.where(number > 0, high + beyond, low - beyond)
            found[name] = np.where(np.isinf(number), outside, number)
    return found
