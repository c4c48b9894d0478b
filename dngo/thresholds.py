"""Bounds on reported numbers: a constraint holds if its number keeps its bound."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dngo.storage.text import number_in

_FORM = re.compile(r"\s*(<=|>=)\s*(\S+)\s*")


@dataclass(frozen=True)
class Threshold:
    """`<= bound`, or `>= bound`. A number equal to the bound keeps it."""

    relation: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Threshold:
        """A threshold from "<= 350" or ">= 0.2"; raises ValueError that says what would be right."""
        found = _FORM.fullmatch(text)
        bound = number_in(found[2]) if found else None
        if found is None or bound is None or not math.isfinite(bound):
            raise ValueError(
                f"a bound must be written like '<= 350' or '>= 0.2', but is {text[:60]!r}"
            )
        return cls(found[1], bound)

    def __str__(self) -> str:
        return f"{self.relation} {self.bound:.15g}"

    @property
    def sign(self) -> float:
        """1 if small numbers are good, -1 if large ones are."""
        return 1.0 if self.relation == "<=" else -1.0

    def keeps(self, number: Any) -> Any:
        """Whether a number, or each number of an array, keeps the bound; NaN does not."""
        return self.sign * number <= self.sign * self.bound


# Constraints that an objective reports, by name: a number with a threshold, or a flag without one.
Constraints = Mapping[str, Threshold | None]


class Reported(dict[str, Threshold | None]):
    """The constraints of a study, and the names of its `objectives`, if it has several.

    positive: the objectives that must be above 0, as on a logarithmic scale; one without a name is
    `objective`.
    """

    def __init__(
        self, constraints: Constraints, objectives: Iterable[str] = (), positive: Iterable[str] = ()
    ) -> None:
        super().__init__(constraints)
        self.objectives, self.positive = tuple(objectives), tuple(positive)


def objectives_of(constraints: Constraints) -> tuple[str, ...]:
    """The names of several objectives; empty for one objective, which has no name."""
    return constraints.objectives if isinstance(constraints, Reported) else ()


def positive_of(constraints: Constraints) -> tuple[str, ...]:
    """The names of the objectives that must be above 0."""
    return constraints.positive if isinstance(constraints, Reported) else ()
