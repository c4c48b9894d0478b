"""The kinds of surrogates of these papers. This module imports nothing heavy."""

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
    """Bayesian linear regression on the last hidden layer of neural networks (Snoek et al. 2015).
    Its cost is linear in the observations."""

    recalls: ClassVar[bool] = False
    kind: Literal["adaptive_basis"] = "adaptive_basis"
    calibration: Calibration = Field(
        default="out_of_fold",
        description="Where the predictive variance is learnt. out_of_fold: from points that the "
        "networks have not seen. Each network leaves out one fold, and the hyperparameters are "
        "sampled from the likelihood of the left-out points. in_sample: from the training "
        "points, by the evidence (8), as in the paper. The paper trains by sgd (`preset: "
        "dngo-2015`); with adam this is grossly overconfident.",
    )
    training: Training = "map"
    prior_mean: Literal["constant", "quadratic"] = Field(
        default="constant",
        description="Mean of the objective before any observation. quadratic: a bowl whose "
        "centre and widths are sampled, equation (9); only with calibration in_sample.",
    )
    equations: Literal["final", "preprint"] = Field(
        default="final",
        description="The version of the paper that equations (5) to (8) come from. preprint: "
        "arXiv:1502.05700v1, whose equations fit no probability model; for comparisons, only "
        "with calibration in_sample.",
    )
    hyperparameter_samples: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Slice samples of alpha and beta. Every prediction is averaged over them.",
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
        default=50,
        ge=2,
        le=1000,
        description="Number of sampled networks to keep; the paper has 50.",
    )
    chains: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Chains of the sampler. They run side by side and share the scales that the "
        "burn-in adapts.",
    )
    burn_in: int = Field(
        default=2000, ge=0, description="Steps of each chain before the first network is kept."
    )
    thin: int = Field(
        default=100, ge=1, description="Steps of a chain between two networks that are kept."
    )
    adapt: bool = Field(
        default=True,
        description="Adapt the scale of each weight in the burn-in, equations (8) and (9). "
        "`false` gives the vanilla sampler of the paper's table 1; then you must tune `step`.",
    )
    step: float = Field(
        default=0.01,
        ge=0.0001,
        le=0.1,
        description="Step size of the sampler (epsilon); the paper has 0.01 for every problem.",
    )
    heteroscedastic: bool = Field(
        default=False,
        description="Let the noise depend on the parameters: the network's second output "
        "predicts it.",
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
        description="The network is trained anew after this many iterations. The regression on "
        "its last layer learns from all observations in every iteration.",
    )
    networks: TrainedNetworkSettings = TrainedNetworkSettings()

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        from dngo.papers.least_squares import fit_least_squares

        return fit_least_squares(problem, self, rng=rng, progress=progress)
