"""The `acquisition:` section of the configuration: one class for each kind. It makes a batch's stages.

Reading a configuration imports nothing heavy: a kind imports its stages when it makes them. No stage
imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from dngo.acquisition.keys import Keys, NoKeys
from dngo.kinds import Kinds
from dngo.objects import Reference
from dngo.types import Repeats
from dngo.units import Units

if TYPE_CHECKING:
    from dngo.acquisition.state import Stage

NAMED = {"required": ["kind"]}  # in the schema, for kinds that are not the default


class Acquisition(BaseModel):
    """What every kind has.

    A package, this one as well, adds a kind by an entry point of the group `dngo.acquisition`, of the
    kind's name, that leads to a subclass: of `Modelled` if it asks a surrogate, else of this with
    `is_baseline`. Its stages do what `dngo.acquisition.Stage` says. CONTRIBUTING.md has an
    example.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    is_baseline: ClassVar[bool] = False  # whether batches are chosen without a surrogate
    # Whether it can be asked where there are several objectives.
    takes_several: ClassVar[bool] = False
    needs_fidelity: ClassVar[bool] = False  # whether it is for studies with `fidelity` alone
    kind: str

    def shared(self) -> Keys:
        """The keys that all stages use."""
        return NoKeys()

    def stages(self) -> Sequence[Stage]:
        """The stages of a batch, as new objects, in order."""
        raise NotImplementedError

    def stages_of_several(self) -> Sequence[Stage]:
        """The stages of a batch with several objectives, the same for all kinds with a surrogate."""
        return self.stages()

    def inward(self, units: Units) -> Acquisition:
        """The same, with values of the objective in the units in which models see it."""
        return self

    @property
    def missing_package(self) -> str:
        """The package to install before this kind can choose a batch; empty if none is missing."""
        return ""


class Modelled(Keys, Acquisition):
    """A kind that asks a surrogate."""

    def shared(self) -> Keys:
        return self

    def stages(self) -> Sequence[Stage]:
        """The first stages of all kinds, the kind's own, and draws for the remaining picks."""
        from dngo.acquisition.stages.beyond import Beyond
        from dngo.acquisition.stages.draws import ThompsonDraws
        from dngo.acquisition.stages.first_feasible import FirstFeasible
        from dngo.acquisition.stages.trust_regions import TrustRegions
        from dngo.acquisition.stages.untried import Untried

        regions = TrustRegions(self.trust_region_share, conditions=not self.is_joint)
        return [FirstFeasible(), Beyond(), Untried(), regions, *self.own_stages(), ThompsonDraws()]

    @property
    def is_joint(self) -> bool:
        """Whether functions that are drawn together choose a batch, and nothing is fantasised for
        its own picks."""
        return False

    def own_stages(self) -> Sequence[Stage]:
        """The stages between these."""
        return ()

    def stages_of_several(self) -> Sequence[Stage]:
        from dngo.acquisition.stages.again import Again
        from dngo.acquisition.stages.first_feasible import FirstFeasible
        from dngo.acquisition.stages.front import AlongFront

        return [FirstFeasible(), Again(), AlongFront()]


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
        description="Best candidates, apart from each other, from which the acquisition's gradient is "
        "then followed along the continuous parameters.",
    )
    shortlist: int = Field(
        default=2048,
        ge=1,
        description="Candidates to keep for the picks of a batch, mostly the best ones before the first "
        "pick. At least ten are kept for each point.",
    )

    @property
    def explores(self) -> bool:
        """Whether the next stage takes over even if nothing is pending yet."""
        return False

    def own_stages(self) -> Sequence[Stage]:
        from dngo.acquisition.stages.improvement import Exploration, Improvement

        # For one point the expected improvement is known exactly.
        most = 1 if self.is_joint else math.inf
        improvement = Improvement(
            self.refinements, self.ascents, self.shortlist, self.vanished_below, self.explores, most
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
    """Monte Carlo expected improvement over everything pending (Snoek et al. 2015, section 3.3); with
    nothing pending, expected improvement. A batch is chosen by functions drawn together, and with
    trust_region_share: 0 by fantasies, as published.
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

    @property
    def is_joint(self) -> bool:
        """Whether a batch is chosen by functions that are drawn together: not as published."""
        return self.trust_region_share > 0 and not self.explores

    def own_stages(self) -> Sequence[Stage]:
        from dngo.acquisition.stages.joint import Joint

        stages = super().own_stages()
        return [*stages, Joint(least=2)] if self.is_joint else stages


class OwnGain(Modelled, Reference, json_schema_extra=NAMED):
    """A gain of your own, a function of values of drawn functions (docs/own-models.md). From Python, pass
    it: `acquisition=my_gain`.
    """

    kind: Literal["own"] = "own"
    # Constraints act inside each drawn function, and nothing is fantasised.
    trust_region_share: ClassVar[float] = 0.0  # type: ignore[misc]
    fantasies: ClassVar[int] = 1  # type: ignore[misc]
    noisy_improvement: ClassVar[bool] = False  # type: ignore[misc]
    min_feasibility: ClassVar[float] = 0.5  # type: ignore[misc]
    boundary_every: ClassVar[int] = 0  # type: ignore[misc]

    def stages(self) -> Sequence[Stage]:
        from dngo.acquisition.joint import own_gain
        from dngo.acquisition.stages.first_feasible import FirstFeasible
        from dngo.acquisition.stages.joint import Joint

        return [FirstFeasible(), Joint(own_gain(self.reference))]


class Learn(Modelled, json_schema_extra=NAMED):
    """The whole function is to be learnt, and not its lowest point: each pick takes away most of the
    variance.
    """

    kind: Literal["learn"] = "learn"
    trust_region_share: ClassVar[float] = 0.0  # type: ignore[misc]
    fantasies: ClassVar[int] = 1  # type: ignore[misc]
    noisy_improvement: ClassVar[bool] = False  # type: ignore[misc]
    local_candidates: ClassVar[int] = 0  # type: ignore[misc]
    incumbents: ClassVar[int] = 1  # type: ignore[misc]
    replicates: ClassVar[Repeats] = "never"  # type: ignore[misc]

    def stages(self) -> Sequence[Stage]:
        from dngo.acquisition.stages.first_feasible import FirstFeasible
        from dngo.acquisition.stages.learning import Learning

        return [FirstFeasible(), Learning(self.level)]

    @property
    def level(self) -> float | None:
        """The level of interest; None: the whole function."""
        return None


class LevelSet(Learn, json_schema_extra=NAMED):
    """Where the objective crosses a level is to be learnt, such as a limit that a design must keep."""

    kind: Literal["level_set"] = "level_set"  # type: ignore[assignment]
    at: float = Field(description="The level, in units of the objective.", allow_inf_nan=False)

    @property
    def level(self) -> float:
        return self.at

    def inward(self, units: Units) -> LevelSet:
        return self.model_copy(update={"at": float(units.inward(np.array(self.at)))})


class Robust(Modelled, json_schema_extra=NAMED):
    """The point is wanted that is best on average while its inputs waver: not a narrow hole, but a wide
    basin.
    """

    kind: Literal["robust"] = "robust"
    within: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        min_length=1,
        description="How far each wavering parameter may lie from what it is set to, in its own units: "
        "{pressure: 0.02}. Each place within it counts alike.",
    )
    # Regions and fantasies are of the function itself.
    trust_region_share: ClassVar[float] = 0.0  # type: ignore[misc]
    fantasies: ClassVar[int] = 1  # type: ignore[misc]
    noisy_improvement: ClassVar[bool] = False  # type: ignore[misc]

    def stages(self) -> Sequence[Stage]:
        from dngo.acquisition.stages.draws import ThompsonDraws
        from dngo.acquisition.stages.first_feasible import FirstFeasible
        from dngo.acquisition.stages.joint import Joint

        return [FirstFeasible(), Joint(within=self.within), ThompsonDraws()]


class Thompson(Modelled, json_schema_extra=NAMED):
    """Thompson sampling: each pick minimises a function drawn from the posterior."""

    takes_several = True
    kind: Literal["thompson"] = "thompson"


# How a kind of acquisition is built: `AcquisitionSettings(kind="lcb", kappa=1.0)`.
AcquisitionSettings = Kinds(group="dngo.acquisition", default="mcei")
