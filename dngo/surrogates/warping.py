"""The scale on which the objective is modelled, chosen by evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dngo.surrogates.apart import apart
from dngo.surrogates.data import TargetScale
from dngo.surrogates.evidence import RULES as PROCESS
from dngo.surrogates.evidence import Evidence
from dngo.surrogates.problem import Problem
from dngo.surrogates.settings import SurrogateKind
from dngo.types import Array


@dataclass(frozen=True, kw_only=True)
class WarpingRules:
    """Which scales are compared, and by what. None was measured by itself but for `floors`."""

    powers: tuple[float, ...] = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
    # Shares of the observations that lie on the floor, whose depth is resolved (benchmarks/rules.md, walls
    # and floors). None further is tried where one is so much less likely, in nats, than the best: most
    # functions have no floor. price: in nats, that of the least likely power.
    floors: tuple[float, ...] = (0.5, 0.25, 0.1, 0.03)
    hopeless: float = 10.0
    price: float = 2.0
    prior_deviation: float = 1.0  # of the power about 1: a handful of observations stays unbent
    fewest: int = 8  # observations with which any power but 1 is thought of
    most: int = 120  # observations that the powers are judged by, each at the cost of a mode
    spread: int = 1000  # those, apart from each other, that the scale is fitted to
    steps: int = 15  # of L-BFGS-B from a neighbour's mode


RULES = WarpingRules()


def choose_scale(
    x: Array, y: Array, settings: SurrogateKind, *, rng: np.random.Generator
) -> tuple[TargetScale, dict[str, float]]:
    """The scale under which a Gaussian process finds the objective likeliest.

    x: (n, d) unit cube, y: (n,) objective, finite. What counts is whether the function is smooth
    and evenly scaled over the cube, which the values by themselves (as in the usual maximum
    likelihood of a normal distribution) do not tell. Evidences of different scales are compared as
    densities of y, with the slope of the map. At most RULES.most random observations have a say, so that
    the cost does not grow with n.
    """
    if not settings.warp:
        return TargetScale.fit(y, tails=False), {}
    spread = np.union1d(apart(x, RULES.spread, rng), [np.argmin(y), np.argmax(y)])
    plain = TargetScale.fit(y[spread])
    if len(spread) < RULES.fewest:
        return plain, {}
    # The kinds without a process have these judged by the default one.
    kernel, ard = getattr(settings, "kernel", "matern52"), getattr(settings, "ard", True)
    rows = np.sort(rng.permutation(spread)[: RULES.most])
    best, highest = plain, -np.inf
    modes: dict[float, Array] = {}

    def evidence(scale: TargetScale, start: Array | None) -> tuple[Array, float]:
        found = Evidence(Problem(x[rows], scale.to_model(y[rows])), kernel, ard)
        mode, value = found.mode(start, PROCESS.steps if start is None else RULES.steps)
        return mode, value + float(np.sum(scale.log_slope(y[rows])))

    # The plain scale first: each search starts from the mode of its neighbour.
    for power in sorted(RULES.powers, key=lambda p: abs(p - 1.0)):
        if power > (settings.highest_power or 1.0):
            continue
        scale = TargetScale.fit(y[spread], power)
        near = min(modes, key=lambda p: abs(p - power), default=None)
        modes[power], value = evidence(scale, None if near is None else modes[near])
        value -= 0.5 * ((power - 1.0) / RULES.prior_deviation) ** 2
        if value > highest:
            best, highest = scale, value
    start, found = modes[1.0], {"power": best.power}
    for floor in RULES.floors:
        scale = TargetScale.fit(y[spread], floor=floor)
        if np.isinf(scale.depth):
            break
        start, value = evidence(scale, start)
        value -= RULES.price
        if value > highest:
            best, highest, found = scale, value, {"power": 1.0, "floor": floor}
        elif value < highest - RULES.hopeless:
            break
    return best, found
