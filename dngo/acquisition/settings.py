"""The `acquisition:` section of the configuration. Imports nothing heavy."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

Baseline = Literal["random", "sobol", "optuna"]


class AcquisitionSettings(BaseModel):
    """How a batch is chosen: Monte Carlo expected improvement (Snoek et al. 2015, section 3.3)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["mcei", "pi", "lcb", "thompson", Baseline] = Field(
        default="mcei",
        description="How the picks that local_share leaves are made. mcei: Monte Carlo expected "
        "improvement over fantasies of everything pending (section 3.3); with nothing pending, "
        "expected improvement. pi, lcb: probability of improvement and lower confidence bound "
        "(Snoek et al. 2012, section 2.2) over the same fantasies. thompson: each pick "
        "minimises a function drawn from the same posterior. Baselines, without a surrogate and "
        "for the whole batch: random: uniform. sobol: one scrambled sequence, that of the design, "
        "continued. optuna: the sampler of that package that `sampler` names.",
    )
    kappa: float = Field(
        default=2.0,
        ge=0,
        description="Of lcb: the deviations that the bound lies below the mean.",
    )
    per: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$",
        description="Improvement per cost: the acquisition times the expected inverse cost (Snoek "
        "et al. 2012, section 3.2), whose logarithm is modelled beside the objective. duration: "
        "the measured seconds; or a number that the objective reports in its metadata.",
    )
    sampler: Literal["tpe", "gp", "cmaes", "nsgaii", "qmc", "random"] = Field(
        default="tpe", description="Of optuna: tpe, gp, cmaes, nsgaii, qmc or random."
    )
    local_share: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="Share of a batch that goes to trust regions around the best points: there a "
        "Gaussian process is fitted to the nearest points, and each pick minimises a function "
        "drawn from it. Between 0 and 1 it is where a study starts: what points near the best one "
        "and elsewhere have gained changes it. A region whose functions promise nothing any more "
        "gives way to the next, and at last to the search of the whole space. "
        "These picks ignore what they cost: with `per` the default is 0.",
    )
    vanishing: float = Field(
        default=1e-3,
        ge=0,
        description="Where no candidate's expected improvement reaches this share of the largest "
        "predictive deviation, or with pi its probability this number, the rest of the batch is "
        "picked by Thompson sampling. With mcei every other batch first doubts the "
        "model: its deviations are doubled until that much is expected somewhere.",
    )
    when_vanished: Literal["thompson", "explore"] = Field(
        default="thompson",
        description="What follows there. thompson: minima of functions drawn from the posterior. "
        "explore: the point whose value is least certain (Brofos, Shu and Jin 2015, section 3.1).",
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
    ascents: int = Field(
        default=4,
        ge=0,
        description="Best candidates, apart from each other, from which the acquisition's gradient "
        "is then followed along the continuous parameters.",
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
        "the limits of the feasible region can still be corrected; 0: none. In a batch, turns that "
        "fall to trust regions are not made up for.",
    )

    @property
    def is_baseline(self) -> bool:
        """Whether batches are chosen without a surrogate."""
        return self.kind in get_args(Baseline)

    @property
    def missing_package(self) -> str:
        """What is to be installed before this kind of batch can be chosen; empty if nothing is."""
        if self.kind == "optuna":
            for name in ("optuna", *(["cmaes"] if self.sampler == "cmaes" else [])):
                if find_spec(name) is None:
                    return (
                        f"{self.sampler} needs the Python package {name}: "
                        "pip install 'dngo[exchange]'"
                    )
        return ""

    @model_validator(mode="before")
    @classmethod
    def _costs_are_heeded_everywhere(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("per") is not None:
            return {"local_share": 0.0, **given}
        return given

    @model_validator(mode="after")
    def _per_needs_a_surrogate(self) -> AcquisitionSettings:
        if self.per is not None and self.is_baseline:
            raise ValueError(f"per needs a surrogate, and kind: {self.kind} has none; remove per")
        return self
