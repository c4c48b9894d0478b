"""The section `early_stopping`: a kind for each rule, which decides whether an evaluation ends early.

A rule is a pure function of curves. Another package adds a rule by an entry point of the group
`dngo.stoppings`, of the kind's name, that leads to a subclass of `Stopping`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from dngo.fronts import ranks
from dngo.kinds import Kinds
from dngo.stopping.curves import Curve, Signs
from dngo.storage.text import value_text

Sign = float | Signs  # of the only objective, or of each of several
EARLIEST = 0.1  # share of the longest curve before which nothing is stopped
NAMED = {"required": ["kind"]}


@dataclass(frozen=True)
class Decision:
    """Why an evaluation is stopped: at a step, it was worse than this many of the others that got
    there.

    step: its last step. at: the step at which it was compared with the others. value: its last
    reported value, in natural units, NaN if that was no number; of several objectives one for each.
    target: the last step of the longest curve so far. chance: to end well, if the rule knows it.
    names: of several objectives.
    """

    kind: str
    step: float
    value: float | tuple[float, ...]
    at: float
    worse_than: int
    of: int
    target: float
    chance: float | None = None
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        target = f" of {self.target:.6g}" if self.target > self.step else ""
        where = "that step" if self.at == self.step else f"step {self.at:.6g}"
        chance = "" if self.chance is None else f", chance of a good end {self.chance:.2g}"
        names = self.names or ("",) * len(self.values)
        pairs = zip(names, self.values, strict=True)
        values = " and ".join(f"{name} {value_text(v)}".lstrip() for name, v in pairs)
        return (
            f"stopped at step {self.step:.6g}{target}, {values}, worse than "
            f"{self.worse_than} of {self.of} at {where}{chance} ({self.kind})"
        )

    @property
    def values(self) -> tuple[float, ...]:
        """The last value of each objective."""
        return self.value if isinstance(self.value, tuple) else (self.value,)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        found = {name: value for name, value in vars(self).items() if value not in (None, ())}
        values = [v if math.isfinite(v) else None for v in self.values]
        return {**found, "value": values if isinstance(self.value, tuple) else values[0]}

    @classmethod
    def of_plain(cls, document: dict[str, Any]) -> Decision:
        """What `plain` gave; raises TypeError, ValueError, KeyError."""
        given = document["value"]
        values = [math.nan if v is None else float(v) for v in np.atleast_1d(given)]
        value = tuple(values) if isinstance(given, list) else values[0]
        names = tuple(map(str, document.get("names", ())))
        return cls(**{**document, "value": value, "names": names})


class Stopping(BaseModel):
    """What every rule has. `grace` belongs to the supervisor, everything else to the rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # Whether it can compare evaluations of several objectives.
    takes_several: ClassVar[bool] = False

    kind: str
    min_steps: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="No evaluation is stopped before this step. Default: a tenth of the longest "
        "curve that has ended; as long as none has ended, nothing is stopped.",
    )
    min_curves: int = Field(
        5,
        ge=1,
        le=100_000,
        description="No evaluation is stopped before this many others have reached its step.",
    )
    grace: float = Field(
        5.0,
        ge=0,
        le=3600,
        description="Seconds between the request to stop (SIGTERM, or `dngo.should_stop()`) and "
        "the kill: time to write a checkpoint.",
    )

    def decide(self, curve: Curve, others: Sequence[Curve], sign: Sign) -> Decision | None:
        """Why an evaluation must be stopped now; None: it goes on.

        others: the curves of other evaluations, as far as they have come. sign: 1 where small values are
        good, -1 where large ones are; of several objectives one for each.
        """
        if not curve.points:
            return None
        target = max((o.reach for o in others), default=0.0)
        step, *values, _ = curve.last
        first = self.min_steps or EARLIEST * longest(others)
        if not first or step < first or step >= target:
            return None
        found = self.counted(curve, others, sign, first)
        if found is None:
            return None
        value = tuple(values) if isinstance(sign, tuple) else values[0]
        return Decision(self.kind, step, value, *found, target)

    @abstractmethod
    def counted(
        self, curve: Curve, others: Sequence[Curve], sign: Sign, first: float
    ) -> tuple[float, int, int] | None:
        """The step at which too many others are better, with the numbers; None if the evaluation
        goes on."""


class Shared(Stopping):
    """Rules that look at the share of other evaluations that are better."""

    takes_several: ClassVar[bool] = True

    patience: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="An evaluation is stopped only if it was too bad at every report over this "
        "many steps. Default: a tenth of the longest curve that has ended.",
    )

    def counted(
        self, curve: Curve, others: Sequence[Curve], sign: Sign, first: float
    ) -> tuple[float, int, int] | None:
        last = curve.last[0]
        patience = self.patience
        if patience is None:
            patience = EARLIEST * longest(others) if self.min_steps else first
        if last - patience < first:
            return None
        found = None
        # From the last report backwards, since for most runs the last one decides.
        for step in reversed(curve.steps):
            if step < last - patience:
                break
            worse, number = rank(curve, others, step, sign)
            if number < self.min_curves or worse <= self.most * number:
                return None
            found = found or (last, worse, number)
        return found

    @property
    @abstractmethod
    def most(self) -> float:
        """An evaluation is stopped if more than this share of the others is better."""


class Median(Shared, json_schema_extra=NAMED):
    """Stops an evaluation that is worse than half of the others at the same step. Each counts with
    its best value so far."""

    kind: Literal["median"] = "median"

    @property
    def most(self) -> float:
        return 0.5


class Quantile(Shared, json_schema_extra=NAMED):
    """Stops an evaluation that is worse than a share of the others at the same step. Each counts
    with its best value so far."""

    kind: Literal["quantile"] = "quantile"
    share: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="An evaluation is stopped if more than this share of the others is better.",
    )

    @property
    def most(self) -> float:
        return self.share


class Asha(Stopping, json_schema_extra=NAMED):
    """Asynchronous successive halving, the variant that stops (Li et al. 2020).

    At each rung, a step `eta` times that of the rung before, the best 1/eta of the evaluations that
    got there go on.
    """

    takes_several: ClassVar[bool] = True

    kind: Literal["asha"] = "asha"
    min_curves: int = Field(
        3,
        ge=1,
        le=100_000,
        description="No evaluation is stopped before this many others have reached its step.",
    )
    eta: float = Field(
        3.0,
        ge=1.5,
        le=100,
        description="Of this many evaluations at a rung, one goes on to the next.",
    )

    def counted(
        self, curve: Curve, others: Sequence[Curve], sign: Sign, first: float
    ) -> tuple[float, int, int] | None:
        step = curve.last[0]
        rung = first * self.eta ** math.floor(math.log(step / first, self.eta) + 1e-9)
        worse, number = rank(curve, others, rung, sign)
        if number < self.min_curves or worse < max(1, math.floor((number + 1) / self.eta)):
            return None
        return rung, worse, number


def longest(curves: Iterable[Curve]) -> float:
    """The last step of the longest curve among ended evaluations; 0 as long as none has ended."""
    return max((c.reach for c in curves if c.ended), default=0.0)


def comparable(curves: Sequence[Curve], level: int) -> list[Curve]:
    """The curves of other evaluations, cut where an evaluation of this level ends.

    Evaluations at a higher level go further, and compared with them this one would be stopped at
    its end. How far a level goes is known from evaluations that have ended there.
    """
    if all(c.level <= level for c in curves):
        return list(curves)
    length = longest(c for c in curves if c.level == level)
    return [c if c.level <= level else c.until(length) for c in curves]


def rank(curve: Curve, others: Iterable[Curve], step: float, sign: Sign) -> tuple[int, int]:
    """At a step: how many others are better than this curve, and how many got there.

    Each counts with its best value so far. Of several objectives it counts with the best in each, and
    better are those on earlier fronts.
    """
    if isinstance(sign, tuple):
        return _rank_of_several(curve, others, step, sign)
    own = curve.best_until(step, sign)
    reached = [best for o in others if (best := o.best_until(step, sign)) is not None]
    if own is None:
        return 0, len(reached)
    return len([best for best in reached if best < own]), len(reached)


def _rank_of_several(
    curve: Curve, others: Iterable[Curve], step: float, signs: Signs
) -> tuple[int, int]:
    own = curve.bests_until(step, signs)
    reached = [best for o in others if (best := o.bests_until(step, signs)) is not None]
    if own is None:
        return 0, len(reached)
    most = np.finfo(float).max  # for a value that was no number
    front = ranks(np.minimum(np.array([own, *reached]), most))
    return int((front[1:] < front[0]).sum()), len(reached)


# How a kind of rule is built: `StoppingSettings(kind="quantile", share=0.7)`.
StoppingSettings = Kinds(group="dngo.stoppings", default="median")
