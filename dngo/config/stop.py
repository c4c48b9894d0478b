"""The section `stop` of a study's configuration."""

from __future__ import annotations

from pydantic import Field

from dngo.space.parameters import Section


class Stop(Section):
    """When a study, or one run of it, ends before all iterations are done."""

    target: float | None = Field(None, description="An objective at least this good is enough.")
    evaluations: int | None = Field(None, ge=1, description="No iteration starts beyond this many.")
    hypervolume_gain: float | None = Field(
        None,
        gt=0,
        description="Of several objectives: ends the study when the next batch is expected to enlarge the "
        "hypervolume of the front by less than this share.",
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
        description="Ends the study when the best value is within this distance of the best that the "
        "surrogate can imagine, with `probability`.",
    )
    probability: float = Field(
        0.95, gt=0, lt=1, description="How sure of `distance` the surrogate must be."
    )
    failures: int = Field(
        20,
        ge=0,
        le=1000,
        description="A run stops with an error when this many evaluations in a row have failed in "
        "the same way, when the whole design has failed, or when the first failure shows a mistake "
        "of the set-up. The same command goes on. 0: never, for spaces where most points fail.",
    )

    @property
    def needs_expected_gain(self) -> bool:
        """Whether a key depends on what is still to be gained."""
        keys = (self.hypervolume_gain, self.expected_improvement, self.distance)
        return any(key is not None for key in keys)
