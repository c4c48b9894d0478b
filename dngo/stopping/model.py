"""A rule that predicts where an evaluation will end, from evaluations that have ended."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist, fmean
from typing import Literal, Self

from pydantic import Field, model_validator

from dngo.stopping.curves import Curve
from dngo.stopping.settings import NAMED, Decision, Sign, Stopping, longest, rank

WHOLE = 0.999  # share of the longest curve from which on a run counts as a whole one
# Prior belief that ranks at a step say nothing; it weighs as much as so many runs.
PRIOR = 2.0
NORMAL = NormalDist()


class Predicted(Stopping, json_schema_extra=NAMED):
    """Stops an evaluation that will hardly end among the best, by a line through ranks.

    Each evaluation that ran to its end has a rank at this step and a rank at its end. A line
    through the normal scores of both predicts where this evaluation will end, and how surely. If
    curves cross, ranks at a step say little, and the evaluation goes on.
    """

    kind: Literal["model"] = "model"
    share: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="An evaluation ends well if it is in this best share of all that ended or "
        "were stopped.",
    )
    chance: float = Field(
        0.04,
        gt=0,
        lt=1,
        description="An evaluation is stopped if its chance to end well is less than this. It "
        "must be less than `share`, which is the chance as long as nothing is known.",
    )

    @model_validator(mode="after")
    def _leaves_the_unknown(self) -> Self:
        if self.chance >= self.share:
            raise ValueError(
                f"chance must be less than share ({self.share:g}), and is {self.chance:g}: else an "
                "evaluation of which nothing is known is stopped"
            )
        return self

    def decide(self, curve: Curve, others: Sequence[Curve], sign: Sign) -> Decision | None:
        assert not isinstance(sign, tuple)  # it takes one objective
        found = super().decide(curve, others, sign)
        return found and replace(found, chance=self.chance_of(curve, others, sign))

    def counted(
        self, curve: Curve, others: Sequence[Curve], sign: Sign, first: float
    ) -> tuple[float, int, int] | None:
        assert not isinstance(sign, tuple)
        step = curve.last[0]
        worse, number = rank(curve, others, step, sign)
        # The best evaluation is never stopped.
        if not worse or number < self.min_curves:
            return None
        chance = self.chance_of(curve, others, sign)
        return None if chance is None or chance >= self.chance else (step, worse, number)

    def chance_of(self, curve: Curve, others: Sequence[Curve], sign: float) -> float | None:
        """The chance of a good end; None while too few ran to their end."""
        step, whole = curve.last[0], WHOLE * longest(others)
        own = curve.best_until(step, sign)
        there = [(o, best) for o in others if (best := o.best_until(step, sign)) is not None]
        ended = [(o, best) for o, best in there if o.ended and o.reach >= whole]
        if own is None or len(ended) < self.min_curves:
            return None
        reached = sorted([own, *(best for _, best in there)])
        ends = [math.inf if math.isnan(v) else sign * v for o, _ in ended for v in [o.last[1]]]
        known = sorted(ends)
        pairs = sorted(
            (_score(reached, best), _score(known, end))
            for (_, best), end in zip(ended, ends, strict=True)
        )
        mean, deviation = _line(pairs, _score(reached, own))
        good = min(max(1.0, self.share * sum(o.ended for o in others)), len(known) - 0.5)
        return NORMAL.cdf((NORMAL.inv_cdf(good / len(known)) - mean) / deviation)


def _score(values: list[float], value: float) -> float:
    """The normal score of a value among sorted values; equal values have the same score."""
    middle = (bisect_left(values, value) + bisect_right(values, value)) / 2
    return NORMAL.inv_cdf(middle / len(values))


def _line(pairs: Sequence[tuple[float, float]], x: float) -> tuple[float, float]:
    """What a line through pairs (x, y) predicts at x: the mean and the standard deviation of y."""
    n = len(pairs)
    x_mean, y_mean = (fmean(column) for column in zip(*pairs, strict=True))
    width = PRIOR + sum((a - x_mean) ** 2 for a, _ in pairs)
    slope = max(0.0, sum((a - x_mean) * (b - y_mean) for a, b in pairs) / width)
    rest = sum((b - y_mean - slope * (a - x_mean)) ** 2 for a, b in pairs)
    variance = (PRIOR + rest) / (PRIOR + n)
    mean = y_mean + slope * (x - x_mean)
    return mean, math.sqrt(variance * (1 + 1 / n + (x - x_mean) ** 2 / width))
