"""The kinds of surrogates that stand in this room. Imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from dngo.surrogates.sections import (
    EnsembleSettings,
    NetworkSettings,
    TrainedNetworkSettings,
    Training,
)
from dngo.surrogates.settings import NAMED, Calibration, SurrogateKind

if TYPE_CHECKING:
    import numpy as np

    from dngo.surrogates.problem import Fit, Problem
    from dngo.types import Progress


class AdaptiveBasis(SurrogateKind, json_schema_extra=NAMED):
    """Bayesian linear regression on the last hidden layer of neural networks (Snoek et al. 2015), of
    a cost linear in the observations."""

    recalls: ClassVar[bool] = False
    kind: Literal["adaptive_basis"] = "adaptive_basis"
    calibration: Calibration = Field(
        default="out_of_fold",
        description="Where the predictive variance is learnt. out_of_fold: each network leaves out "
        "one fold and the hyperparameters are sampled from the likelihood of what was left out. "
        "in_sample: the evidence (8) of the points the networks were trained on, as in the paper, "
        "whose networks are trained by sgd (`preset: dngo-2015`); with adam grossly overconfident.",
    )
    training: Training = "map"
    prior_mean: Literal["constant", "quadratic"] = Field(
        default="constant",
        description="Mean of the objective before any observation. quadratic: a bowl of uncertain "
        "centre and widths, equation (9); for calibration in_sample only.",
    )
    equations: Literal["final", "preprint"] = Field(
        default="final",
        description="Of which version of the paper (5) to (8) are. preprint: of arXiv:1502.05700v1, "
        "which are of no probability model; kept for comparison, for calibration in_sample only.",
    )
    hyperparameter_samples: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Slice samples of alpha and beta that every prediction is averaged over.",
    )
    networks: EnsembleSettings = EnsembleSettings()

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        from dngo.papers.in_sample import fit_adaptive_basis

        return fit_adaptive_basis(problem, self, rng=rng, progress=progress)

    @model_validator(mode="after")
    def _acts_in_sample_alone(self) -> AdaptiveBasis:
        for key, default in (("prior_mean", "constant"), ("equations", "final")):
            value = getattr(self, key)
            if value != default and self.calibration != "in_sample":
                raise ValueError(f"{key}: {value} needs calibration: in_sample")
        return self


class Bohamiann(SurrogateKind, json_schema_extra=NAMED):
    """A neural network whose weights are sampled by Hamiltonian Monte Carlo (Springenberg et al.
    2016)."""

    embeds_tasks: ClassVar[bool] = True
    recalls: ClassVar[bool] = False
    kind: Literal["bohamiann"] = "bohamiann"
    posterior_samples: int = Field(
        default=50, ge=2, le=1000, description="Networks that are kept; the paper has 50."
    )
    chains: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Chains of the sampler, side by side; they share the burn-in's scales.",
    )
    burn_in: int = Field(
        default=2000, ge=0, description="Steps of each chain before the first network is kept."
    )
    thin: int = Field(default=100, ge=1, description="Steps between networks kept of one chain.")
    adapt: bool = Field(
        default=True,
        description="Adapt the scale of each weight in the burn-in, equations (8) and (9). `false` is "
        "the vanilla sampler of the paper's table 1, whose `step` has to be tuned.",
    )
    step: float = Field(
        default=0.01,
        ge=0.0001,
        le=0.1,
        description="Step of the sampler (epsilon); the paper has 0.01 for every problem.",
    )
    heteroscedastic: bool = Field(
        default=False,
        description="Let the noise depend on the parameters, as the network's second output.",
    )
    networks: NetworkSettings = NetworkSettings()

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        from dngo.papers.bohamiann import fit_bohamiann

        return fit_bohamiann(problem, self, rng=rng, progress=progress)


class LeastSquares(SurrogateKind, json_schema_extra=NAMED):
    """Ordinary least squares on the last hidden layer of one network (Brofos, Shu and Jin 2015)."""

    kind: Literal["least_squares"] = "least_squares"
    relearn_every: int = Field(
        default=1,
        ge=1,
        description="The network is trained anew after so many iterations; the regression on its "
        "last layer takes in the new observations of every iteration.",
    )
    networks: TrainedNetworkSettings = TrainedNetworkSettings()

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        from dngo.papers.least_squares import fit_least_squares

        return fit_least_squares(problem, self, rng=rng, progress=progress)
