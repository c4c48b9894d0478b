"""The `acquisition:` section of the configuration: one class for each kind. It makes a batch's stages.

Reading a configuration imports nothing heavy: a kind imports its stages when it makes them. No stage
imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dngo.kinds import Kinds
from dngo.types import Repeats

if TYPE_CHECKING:
    from dngo.acquisition.measures import Measure
    from dngo.acquisition.state import SharedSettings, Stage

NAMED = {"required": ["kind"]}  # in the schema, for kinds that are not the default


class Acquisition(BaseModel):
    """What every kind has.

    A package, this one as well, adds a kind by an entry point of the group `dngo.acquisition`, of the
    kind's name, that leads to a subclass: of `Modelled` if it asks a surrogate, else of this with
    `is_baseline`. Its stages do what `dngo.acquisition.Stage` says. tests/test_acquisition_plugin.py
    is an example.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    is_baseline: ClassVar[bool] = False  # whether batches are chosen without a surrogate
    takes_several: ClassVar[bool] = (
        False  # whether it can be asked where there are several objectives
    )
    needs_fidelity: ClassVar[bool] = False  # whether it is for studies with `fidelity` alone
    kind: str

    def shared(self) -> SharedSettings:
        """The keys that all stages use; for a baseline none."""
        from dngo.acquisition.state import SharedSettings

        return SharedSettings()

    def stages(self) -> Sequence[Stage]:
        """The stages of a batch, as new objects, in order."""
        raise NotImplementedError

    def stages_of_several(self) -> Sequence[Stage]:
        """The stages of a batch with several objectives, the same for all kinds with a surrogate."""
        return self.stages()

    @property
    def missing_package(self) -> str:
        """The package to install before this kind can choose a batch; empty if none is missing."""
        return ""


class Modelled(Acquisition):
    """A kind that asks a surrogate, and what all of these have."""

    per: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$",
        description="Improvement per cost: the acquisition times the expected inverse cost (Snoek "
        "et al. 2012, section 3.2), whose logarithm is modelled beside the objective. duration: "
        "the measured seconds; or a number that the objective reports in its metadata.",
    )
    trust_region_share: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="Share of a batch that goes to trust regions around the best points: there a "
        "Gaussian process is fitted to the nearest points, and each pick minimises a function "
        "drawn from it. Between 0 and 1 it is where a study starts: what points near the best one "
        "and elsewhere have gained changes it. Of a first batch of more than 200 points it is the share "
        "of 200, and the others are all theirs. A region whose functions promise nothing any more "
        "gives way to the next, and at last to the search of the whole space. "
        "These picks ignore what they cost: with `per` the default is 0.",
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
    spacing: float = Field(
        default=0.01,
        ge=0,
        lt=1,
        description="Points of a batch, and those pending, stay this far apart: root mean square "
        "over the parameters, each scaled to [0, 1]. Given up where nothing else is left; steps, where no "
        "model knows the function, stay a hundredth of it apart.",
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
        description="One pick in so many may have a quarter of min_feasibility. It tests where the "
        "feasible region ends. Once little more is gained inside, half of the picks look for another "
        "feasible part. 0: neither. A turn that falls to a trust region is lost.",
    )

    replicates: Repeats = Field(
        default="reported",
        description="Which finished points may be evaluated once more, where that is worth more than "
        "any new point: those whose objective came with a noise, all that have an objective, or "
        "none.",
    )

    def shared(self) -> SharedSettings:
        from dngo.acquisition.state import SharedSettings

        return SharedSettings(
            is_baseline=False,
            measure=self.measure(),
            noisy_improvement=self.noisy_improvement,
            fantasies=self.fantasies,
            uniform_candidates=self.uniform_candidates,
            local_candidates=self.local_candidates,
            incumbents=self.incumbents,
            spacing=self.spacing,
            replicates=self.replicates,
            min_feasibility=self.min_feasibility,
            boundary_every=self.boundary_every,
        )

    def stages(self) -> Sequence[Stage]:
        """The first stages of all kinds, the kind's own, and draws for the remaining picks."""
        from dngo.acquisition.stages.beyond import Beyond
        from dngo.acquisition.stages.draws import ThompsonDraws
        from dngo.acquisition.stages.first_feasible import FirstFeasible
        from dngo.acquisition.stages.trust_regions import TrustRegions

        first = (FirstFeasible(), Beyond(), TrustRegions(self.trust_region_share))
        return [*first, *self.own_stages(), ThompsonDraws()]

    def own_stages(self) -> Sequence[Stage]:
        """The stages between these."""
        return ()

    def stages_of_several(self) -> Sequence[Stage]:
        from dngo.acquisition.stages.first_feasible import FirstFeasible
        from dngo.acquisition.stages.front import AlongFront

        return [FirstFeasible(), AlongFront()]

    def measure(self) -> Measure:
        """The worth of a point. It is recorded with the picks of every stage."""
        from dngo.acquisition.measures import expected_improvement

        return expected_improvement

    @model_validator(mode="before")
    @classmethod
    def _costs_are_heeded_everywhere(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("per") is not None:
            return {"trust_region_share": 0.0, **given}
        return given


class Greedy(Modelled):
    """A kind whose picks each have the highest acquisition, given those before."""

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

    @property
    def explores(self) -> bool:
        """Whether the next stage takes over even if nothing is pending yet."""
        return False

    def own_stages(self) -> Sequence[Stage]:
        from dngo.acquisition.stages.improvement import Exploration, Improvement

        improvement = Improvement(
            self.refinements, self.ascents, self.shortlist, self.vanished_below, self.explores
        )
        return [improvement, *([Exploration()] if self.explores else [])]

    def vanished_below(self, deviation: float) -> float:
        """The value under which nothing is left to gain. deviation: the largest predictive deviation."""
        return -math.inf


class Improving(Greedy):
    """A kind whose value can vanish."""

    when_vanished: Literal["thompson", "explore"] = Field(
        default="thompson",
        description="What follows there. thompson: minima of functions drawn from the posterior. "
        "explore: the point whose value is least certain (Brofos, Shu and Jin 2015, section 3.1).",
    )

    @property
    def explores(self) -> bool:
        return self.when_vanished == "explore"


class Mcei(Improving):
    """Monte Carlo expected improvement over fantasies of everything pending (Snoek et al. 2015,
    section 3.3); with nothing pending, expected improvement.
    """

    takes_several = True
    kind: Literal["mcei"] = "mcei"
    vanishing: float = Field(
        default=1e-3,
        ge=0,
        description="Where no candidate's expected improvement reaches this share of the largest "
        "predictive deviation, the improvement has vanished, and when_vanished says what follows.",
    )

    def vanished_below(self, deviation: float) -> float:
        return self.vanishing * deviation


class Thompson(Modelled, json_schema_extra=NAMED):
    """Thompson sampling: each pick minimises a function drawn from the posterior."""

    takes_several = True
    kind: Literal["thompson"] = "thompson"


# How a kind of acquisition is built: `AcquisitionSettings(kind="lcb", kappa=1.0)`.
AcquisitionSettings = Kinds(group="dngo.acquisition", default="mcei")
