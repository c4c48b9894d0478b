"""The scale on which the objective is modelled, chosen by evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dngo.rules import current
from dngo.surrogates.apart import SCALED, apart
from dngo.surrogates.data import TargetScale
from dngo.surrogates.evidence import Evidence
from dngo.surrogates.gaussian_process import STEPS
from dngo.surrogates.problem import Problem
from dngo.surrogates.settings import Numbers, SurrogateKind
from dngo.types import Array, Rows

NEXT_STEPS = 15  # most steps of L-BFGS-B from a neighbour's mode
# The same for a number with a threshold, and observations that judge its powers: there may be many numbers.
STEPS_OF_NUMBER, MOST_OF_NUMBER = 8, 48


def choose_scale(
    x: Array,
    y: Array,
    settings: SurrogateKind,
    *,
    rng: np.random.Generator,
    groups: Rows | None = None,
) -> tuple[TargetScale, dict[str, float]]:
    """The scale on which a Gaussian process finds the objective likeliest.

    x: (n, d) unit cube, y: (n,) objective, finite; groups: (d,) as in `Problem`. The scale should make the
    function smooth and evenly scaled over the cube. The values alone do not show that, so the usual
    maximum likelihood of a normal is not enough. To compare scales, the evidence is converted to a
    density of y, by the slope of the map. At most `WarpingRules.most` random observations count, so
    that the cost does not grow with n.
    """
    rules, steps = current().warping, NEXT_STEPS
    if isinstance(settings, Numbers):
        powers, steps = current().numbers.powers, STEPS_OF_NUMBER
        rules = replace(rules, powers=powers, floors=(), most=MOST_OF_NUMBER)
    if not settings.warp:
        return TargetScale.fit(y, tails=False), {}
    spread = np.union1d(apart(x, SCALED, rng, groups), [np.argmin(y), np.argmax(y)])
    plain = TargetScale.fit(y[spread])
    if len(spread) < rules.fewest:
        return plain, {}
    rows = np.sort(rng.permutation(spread)[: rules.most])
    best, highest = plain, -np.inf
    modes: dict[float, Array] = {}

    def evidence(scale: TargetScale, start: Array | None) -> tuple[Array, float]:
        problem = Problem(x[rows], scale.to_model(y[rows]), groups=groups)
        found = Evidence(problem, settings.covariance)
        mode, value = found.mode(start, STEPS if start is None else steps)
        return mode, value + float(np.sum(scale.log_slope(y[rows])))

    # The plain scale comes first. Each search starts from the mode of its neighbour.
    for power in sorted(rules.powers, key=lambda p: abs(p - 1.0)):
        if power > (settings.highest_power or 1.0):
            continue
        scale = TargetScale.fit(y[spread], power)
        near = min(modes, key=lambda p: abs(p - power), default=None)
        modes[power], value = evidence(scale, None if near is None else modes[near])
        value -= 0.5 * ((power - 1.0) / rules.prior_deviation) ** 2
        if value > highest:
            best, highest = scale, value
    start, found = modes[1.0], {"power": best.power}
    for floor in rules.floors:
        scale = TargetScale.fit(y[spread], floor=floor)
        if np.isinf(scale.depth):
            break
        start, value = evidence(scale, start)
        value -= rules.price
        if value > highest:
            best, highest, found = scale, value, {"power": 1.0, "floor": floor}
        elif value < highest - rules.hopeless:
            break
    return best, found
