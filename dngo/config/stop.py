"""The section `stop` of a study's configuration."""

from __future__ import annotations

from pydantic import Field

from dngo.space.parameters import Finite, Section


class Stop(Section):
    """When a study or a run ends before all iterations are done."""

    target: Finite | dict[str, Finite] | None = Field(
        None,
        description="Ends the study when the objective is at least this good. With several objectives, "
        "{error: 5, speed: 8000}: ends it when one point is at least this good in all that are named.",
    )
    evaluations: int | None = Field(
        None, ge=1, description="No iteration starts after this many evaluations."
    )
    hypervolume_gain: float | None = Field(
        None,
        gt=0,
        description="With several objectives: ends the study when the next batch is expected to "
        "increase the hypervolume of the front by less than this share.",
    )
    expected_improvement: float | None = Field(
        None,
        gt=0,
        description="Ends the study when five further batches are expected to improve the best value "
        "by less than this, in the objective's units.",
    )
    distance: float | None = Field(
        None,
        gt=0,
        description="Ends the study when, with `probability`, the best value is within this distance "
        "of the best value that the surrogate thinks possible.",
    )
    probability: float = Field(
        0.95, gt=0, lt=1, description="The probability that the surrogate must give to `distance`."
    )
    failures: int = Field(
        20,
        ge=0,
        le=1000,
        description="A run stops with an error if this many evaluations in a row have failed in the "
        "same way, if the whole design has failed, or if the first failure shows a mistake "
        "in the set-up. The same command goes on. 0: never stop, for spaces where most "
        "points fail.",
    )

    @property
    def needs_expected_gain(self) -> bool:
        """Whether a key needs the expected gain."""
        keys = (self.hypervolume_gain, self.expected_improvement, self.distance)
        return any(key is not None for key in keys)
