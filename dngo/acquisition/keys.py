"""The keys that all stages use: the same for all kinds with a surrogate.

Imports nothing heavy. Stages know this module, but not the kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, Field, model_validator

from dngo.types import Repeats

if TYPE_CHECKING:
    from dngo.acquisition.measures import Measure


class Keys(BaseModel):
    """The keys of a kind that asks a surrogate, and the measure of its picks."""

    is_baseline: ClassVar[bool] = False
    per: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$",
        description="Improvement per cost: the acquisition times the expected inverse cost (Snoek et al. "
        "2012, section 3.2), whose logarithm is modelled beside the objective. duration: the measured "
        "seconds; or a number that the objective reports in its metadata.",
    )
    trust_region_share: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="Share of a batch that goes to trust regions around the best points: there a "
        "Gaussian process is fitted to the nearest points, and each pick minimises a function drawn from "
        "it. Between 0 and 1 it is where a study starts: what points near the best one and elsewhere "
        "have gained changes it. Of a first batch of more than 200 points it is the share of 200, and "
        "the others are all theirs. A region whose functions promise nothing any more gives way to the "
        "next, and at last to the search of the whole space. These picks ignore what they cost: with "
        "`per` the default is 0.",
    )
    fantasies: int = Field(
        default=10,
        ge=1,
        le=10000,
        description="Fantasised outcomes of the pending points, for each hyperparameter sample of each "
        "network. Not for batches of `mcei` with trust regions.",
    )
    noisy_improvement: bool = Field(
        default=False,
        description="Count the noise variance 1 / beta into the expected improvement, as equation (5) of "
        "the paper has it. Without it a point is worth what the function, not one noisy observation of "
        "it, may gain there.",
    )
    uniform_candidates: int = Field(
        default=8192, ge=1, description="Candidates spread over the whole space, at least."
    )
    local_candidates: int = Field(
        default=4096, ge=0, description="Candidates near the best points so far."
    )
    incumbents: int = Field(
        default=8, ge=1, description="Best points so far that local candidates surround."
    )
    spacing: float = Field(
        default=0.01,
        ge=0,
        lt=1,
        description="Points of a batch, and those pending, stay this far apart: root mean square over "
        "the parameters, each scaled to [0, 1]. Given up where nothing else is left; steps, where no "
        "model knows the function, stay a hundredth of it apart.",
    )
    min_feasibility: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="Lowest probability of holding all constraints that a pick may have, unless no "
        "candidate reaches it.",
    )
    boundary_every: int = Field(
        default=5,
        ge=0,
        description="One pick in so many may have a quarter of min_feasibility. It tests where the "
        "feasible region ends. Once little more is gained inside, half of the picks look for another "
        "feasible part. 0: neither. A turn that falls to a trust region is lost.",
    )
    replicates: Repeats = Field(
        default="reported",
        description="Which finished points may be evaluated once more, if that is worth more than any "
        "new point: points with a reported noise, all points with an objective, or none.",
    )

    def measure(self) -> Measure:
        """The worth of a point. It is recorded with the picks of every stage."""
        from dngo.acquisition.measures import expected_improvement

        return expected_improvement

    @model_validator(mode="before")
    @classmethod
    def _costs_are_heeded_everywhere(cls, given: Any) -> Any:
        has_share = "trust_region_share" in cls.model_fields
        if isinstance(given, dict) and given.get("per") is not None and has_share:
            return {"trust_region_share": 0.0, **given}
        return given


class NoKeys(Keys):
    """A baseline's: it asks no model, and keeps no distances."""

    is_baseline = True
    spacing: float = 0.0
    replicates: Repeats = "never"
