"""The kinds of acquisition of these papers. This module imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from dngo.acquisition.settings import NAMED, Greedy, Improving

if TYPE_CHECKING:
    from dngo.acquisition.measures import Measure


class Pi(Improving, json_schema_extra=NAMED):
    """Probability of improvement (Snoek et al. 2012, section 2.2) over the same fantasies."""

    kind: Literal["pi"] = "pi"
    vanishing: float = Field(
        default=1e-3,
        ge=0,
        description="Where no candidate's probability of improvement reaches this, it has "
        "vanished, and when_vanished says what follows.",
    )

    def measure(self) -> Measure:
        from dngo.acquisition.measures import probability_of_improvement

        return probability_of_improvement

    def vanished_below(self, deviation: float) -> float:
        return self.vanishing


class Lcb(Greedy, json_schema_extra=NAMED):
    """Lower confidence bound (Snoek et al. 2012, section 2.2) over the same fantasies."""

    kind: Literal["lcb"] = "lcb"
    kappa: float = Field(
        default=2.0, ge=0, description="How many deviations the bound lies below the mean."
    )

    def measure(self) -> Measure:
        from dngo.papers.bound import lower_bound_improvement

        return lower_bound_improvement(self.kappa)
