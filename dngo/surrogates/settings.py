"""The sections `surrogate:` and `classifier:` of the configuration. Imports nothing heavy.

Each class here is a kind of surrogate. It has exactly the keys that act under its kind, and the way to fit
it. Every package, this one as well, adds a kind by an entry point of the group `dngo.surrogates` that is
named like the kind and refers to a subclass of `SurrogateKind`. No fit imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from dngo.kinds import Kinds
from dngo.surrogates.kernels import Covariance
from dngo.surrogates.sections import EnsembleSettings, Section, Training, only_where

if TYPE_CHECKING:
    import numpy as np

    from dngo.surrogates.problem import Fit, Problem
    from dngo.types import Progress


# ---- kinds of surrogates ------------------------------------------------------------------------

NAMED = {"required": ["kind"]}  # in the schema, for kinds that are not the default


class SurrogateKind(Section):
    """What every kind of surrogate has: the scale of the objective, and `fit`.

    To add a kind, write a subclass with a field `kind: Literal["name"] = "name"`, a field for each
    key of its own, and `fit`.
    """

    kind: str
    warp: bool = Field(
        default=True,
        description="Model a power transform of the objective where it is skewed, or the logarithm of "
        "its height where walls (penalties, say) are far higher than all that is to be found between "
        "them, by evidence, and the logarithm of what lies many deviations from the median; improvement "
        "is then counted on that scale. false: the objective as it is, standardised.",
    )
    highest_power: float | None = Field(
        default=None,
        ge=1,
        le=2,
        description="Largest power of that transform, 2 if left out. Over 1 it draws low values "
        "together, which describes an objective with narrow holes far better; 1: never. With warp "
        "alone.",
    )

    learn_infeasible: bool = Field(
        default=True,
        description="Learn the objective from points that break a constraint as well, wherever it was "
        "reported. The best point is a feasible one either way. false: from feasible points alone, as "
        "the papers do.",
    )

    @model_validator(mode="before")
    @classmethod
    def _power_is_of_warp(cls, given: Any) -> Any:
        return only_where(given, "highest_power", 2.0, "warp", True, otherwise=True)

    @property
    def for_numbers(self) -> SurrogateKind:
        """The settings for numbers with thresholds: there may be many numbers."""
        return self

    embeds_tasks: ClassVar[bool] = False
    """Whether `fit` distinguishes several tasks itself; otherwise each other task is an input."""

    recalls: ClassVar[bool] = True
    """Whether `fit` may ask `Problem.past` for earlier models: the archive then holds all of them."""

    @property
    def covariance(self) -> Covariance:
        """The kernel of the process that judges scales of the objective."""
        return Covariance()

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        """Components of the posterior given standardised targets, n >= 1.

        The result depends only on the problem, the settings and the state of `rng`. `progress` is called
        with the finished share, from 0 to 1.
        """
        raise NotImplementedError


class _Process(SurrogateKind):
    recalls: ClassVar[bool] = False
    kernel: Literal["matern52", "matern32", "squared_exponential"] = Field(
        default="matern52", description="Covariance function of the Gaussian process."
    )
    ard: bool = Field(
        default=True,
        description="A lengthscale for each input of the Gaussian process, or one for all.",
    )
    hyperparameter_samples: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Slice samples of the hyperparameters that every prediction is averaged over.",
    )

    @property
    def covariance(self) -> Covariance:
        return Covariance(self.kernel, self.ard)


Calibration = Literal["out_of_fold", "in_sample"]


class Auto(_Process):
    """A Gaussian process and adaptive bases in a mixture, weighted by how well each predicts
    observations it has not seen; the process is sparse beyond gp_limit."""

    kind: Literal["auto"] = "auto"
    gp_limit: int = Field(
        default=300,
        ge=0,
        description="Most observations with which the Gaussian process is exact; beyond, it is a "
        "sparse one.",
    )
    inducing: int = Field(
        default=200,
        ge=0,
        le=2000,
        description="Inducing inputs of the sparse Gaussian process, of a cost linear in the "
        "observations; 0: none, so that the adaptive bases stand alone beyond gp_limit.",
    )
    training: Training = "map"
    networks: EnsembleSettings = EnsembleSettings()

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        from dngo.surrogates.mixture import fit_mixture
        from dngo.surrogates.regression import Ensemble

        return fit_mixture(
            problem,
            self.covariance,
            Ensemble(self.training, self.hyperparameter_samples, self.networks),
            most_exact=self.gp_limit,
            inducing=self.inducing,
            rng=rng,
            progress=progress,
        )

    @property
    def for_numbers(self) -> SurrogateKind:
        return Numbers(
            kernel=self.kernel,
            ard=self.ard,
            warp=self.warp,
            highest_power=self.highest_power,
            gp_limit=self.gp_limit,
            hyperparameter_samples=self.hyperparameter_samples,
        )


class ExactProcess(_Process, json_schema_extra=NAMED):
    """An exact Gaussian process (Snoek, Larochelle and Adams 2012), better with few observations, of a
    cost cubic in them."""

    kind: Literal["gp"] = "gp"

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        from dngo.surrogates.gaussian_process import fit_process

        samples = self.hyperparameter_samples
        return fit_process(problem, self.covariance, samples, rng=rng, progress=progress)


class Numbers(ExactProcess):
    """The settings by which `auto` fits numbers; no configuration names them.

    A study may have a dozen thresholds, each at a tenth of the cost of an objective. A bound needs less
    than an optimum: the side on which a point lies, and how sure that is. So a process has few samples
    for few observations. Then it is at the mode of its hyperparameters, and Student's odds (`Bounded`)
    cover their uncertainty.
    """

    gp_limit: int = 300

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        from dngo.rules import current
        from dngo.surrogates.gaussian_process import fit_process
        from dngo.surrogates.sparse_process import fit_sparse_process

        rules, samples, n = current().numbers, self.hyperparameter_samples, len(problem.x)
        if n > max(self.gp_limit, rules.sampled_up_to):
            inducing = current().sparse.inducing
            return fit_sparse_process(problem, self.covariance, samples, inducing, rng=rng)
        samples = min(samples, rules.samples) if n <= rules.sampled_up_to else 0
        return fit_process(problem, self.covariance, samples, rng=rng)


class ClassifierSettings(Section):
    """How the constraints are modelled: adaptive bases with a Bayesian classifier (section 3.2)."""

    likelihood: Literal["logistic", "step"] = Field(
        default="logistic",
        description="How a constraint's flag depends on the point (section 3.2). logistic: by "
        "chance near the boundary. step: without chance, if a flag is the same every time.",
    )
    calibration: Calibration = Field(
        default="out_of_fold",
        description="Where the prior precision of the weights is learnt. out_of_fold: from what each "
        "network has left out. in_sample: nowhere, it is 1; overconfident, kept for comparison.",
    )
    networks: EnsembleSettings = EnsembleSettings()


# How a kind is built: `SurrogateSettings(kind="gp", ard=False)`.
SurrogateSettings = Kinds(group="dngo.surrogates", default="auto")
