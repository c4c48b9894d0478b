"""The `acquisition:` section of the configuration. Imports nothing heavy."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class AcquisitionSettings(BaseModel):
    """How a batch is chosen: Monte Carlo expected improvement (Snoek et al. 2015, section 3.3)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["mcei", "thompson"] = Field(
        default="mcei",
        description="How the picks that local_share leaves are made. mcei: Monte Carlo expected "
        "improvement over fantasies of everything pending (section 3.3). thompson: each pick "
        "minimises a function drawn from the same posterior.",
    )
    local_share: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="Share of a batch that goes to trust regions around the best points: there a "
        "Gaussian process is fitted to the nearest points, and each pick minimises a function "
        "drawn from it. A region whose functions promise nothing any more gives way to the next.",
    )
    vanishing: float = Field(
        default=1e-3,
        ge=0,
        description="Where no candidate's expected improvement reaches this share of the largest "
        "predictive deviation, the rest of the batch is picked by Thompson sampling.",
    )
    fantasies: int = Field(
        default=10,
        ge=1,
        le=10000,
        description="Fantasised outcomes of the pending points, for each hyperparameter sample of "
        "each network.",
    )
    noisy_improvement: bool = Field(
        default=False,
        description="Count the noise variance 1 / beta into the expected improvement, as equation "
        "(5) of the paper has it. Without it a point is worth what the function, not one noisy "
        "observation of it, may gain there.",
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
    refinements: int = Field(
        default=4,
        ge=0,
        description="Rounds of further candidates near the ones of the highest acquisition.",
    )
    shortlist: int = Field(
        default=2048,
        ge=1,
        description="Candidates kept for the picks of a batch, most of them those best before "
        "any pick; at least ten for each point of the batch.",
    )
    min_distance: float = Field(
        default=0.01,
        ge=0,
        lt=1,
        description="Points of a batch, and those pending, stay this far apart: root mean square "
        "over the parameters, each scaled to [0, 1]. Given up where nothing else is left.",
    )
    min_feasibility: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="Lowest probability of holding all constraints that a pick may have, unless "
        "no candidate reaches it.",
    )
    boundary_every: int = Field(
        default=5,
        ge=0,
        description="Every so many picks, one needs only a quarter of min_feasibility, so that "
        "the limits of the feasible region can still be corrected; 0: none.",
    )
