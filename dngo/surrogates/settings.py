"""The sections `surrogate:` and `classifier:` of the configuration. This module imports nothing
heavy.

Each class here is a kind of surrogate. It has exactly the keys that act under its kind, and the way to fit
it. Every package, this one as well, adds a kind by an entry point of the group `dngo.surrogates` that is
named like the kind and refers to a subclass of `SurrogateKind`. No fit imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from dngo.kinds import Kinds
from dngo.objects import Reference
from dngo.surrogates.kernels import Covariance
from dngo.surrogates.sections import EnsembleSettings, LabelSettings, Section, Training, only_where

if TYPE_CHECKING:
    import numpy as np

    from dngo.surrogates.problem import Fit, Problem
    from dngo.types import Progress


# ---- kinds of surrogates ------------------------------------------------------------------------

NAMED = {"required": ["kind"]}  # in the schema, for kinds that are not the default


class SurrogateKind(Section):
    """The keys of every kind of surrogate: the scale of the objective, and `fit`.

    To add a kind, write a subclass with a field `kind: Literal["name"] = "name"`, a field for each
    key of its own, and `fit`.
    """

    kind: str
    warp: bool = Field(
        default=True,
        description="Model the objective on the scale with the highest evidence: a power transform if it "
        "is skewed, or the logarithm of its height if walls (such as penalties) are far higher than the "
        "rest. Values far from the median count by their logarithm. Improvement is counted on that "
        "scale. false: only standardise.",
    )
    highest_power: float | None = Field(
        default=None,
        ge=1,
        le=2,
        description="Largest power of that transform; default: 2. A power above 1 draws low values "
        "together, which suits objectives with narrow holes. 1: never do that. Only with warp.",
    )

    learn_infeasible: bool = Field(
        default=True,
        description="Learn the objective also from points that break a constraint, if they reported it. "
        "The best point is always a feasible one. false: learn only from feasible points, as the papers "
        "do.",
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
    def reuses_up_to(self) -> int:
        """Rows up to which what is learnt slowly serves several fits (`dngo.surrogates.lessons`)."""
        return 0

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
        description="Whether each input of the Gaussian process has its own lengthscale.",
    )
    hyperparameter_samples: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Slice samples of the hyperparameters. Every prediction is averaged over them.",
    )

    @property
    def covariance(self) -> Covariance:
        return Covariance(self.kernel, self.ard)


class Own(SurrogateKind, Reference, json_schema_extra=NAMED):
    """An object of your own with fit(x, y) and predict(x): docs/own-models.md. From Python, pass it:
    `surrogate=MyModel()`.
    """

    recalls: ClassVar[bool] = False
    kind: Literal["own"] = "own"
    noise: float = Field(
        default=1e-6,
        gt=0,
        description="Variance of an observation, in units of the targets' variance.",
    )

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        import numpy as np

        from dngo.surrogates.own import OwnComponent
        from dngo.surrogates.problem import Fit

        component = OwnComponent(self.reference, problem.x, problem.targets, np.array([self.noise]))
        component.latent(problem.x[:1])  # a mistake is said here, and not when points are proposed
        return Fit((component,), {})


# Beyond so many observations a fit in a process of its own would take a third longer, and a number with a
# threshold learns from some.
LONG = 300

Calibration = Literal["out_of_fold", "in_sample"]


class Auto(_Process):
    """A mixture of a Gaussian process and adaptive bases. Each is weighted by how well it predicts
    observations that it has not seen. Beyond gp_limit the process is sparse."""

    kind: Literal["auto"] = "auto"
    gp_limit: int = Field(
        default=1000,
        ge=0,
        description="Up to this many observations the Gaussian process is exact; beyond, it is sparse. Of "
        "more than 300 some teach its lengthscales.",
    )
    inducing: int = Field(
        default=200,
        ge=0,
        le=2000,
        description="Inducing inputs of the sparse Gaussian process, whose cost is linear in the "
        "observations. 0: none; beyond gp_limit only the adaptive bases are used.",
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
    def reuses_up_to(self) -> int:
        return min(self.gp_limit, LONG)

    @property
    def for_numbers(self) -> SurrogateKind:
        return Numbers(
            kernel=self.kernel,
            ard=self.ard,
            warp=self.warp,
            highest_power=self.highest_power,
            gp_limit=min(self.gp_limit, LONG),
            hyperparameter_samples=self.hyperparameter_samples,
        )


class ExactProcess(_Process, json_schema_extra=NAMED):
    """An exact Gaussian process (Snoek, Larochelle and Adams 2012). It is better with few
    observations, and its cost is cubic in their number."""

    kind: Literal["gp"] = "gp"

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        from dngo.surrogates.gaussian_process import fit_process

        samples = self.hyperparameter_samples
        return fit_process(problem, self.covariance, samples, rng=rng, progress=progress)


class Numbers(ExactProcess):
    """The settings by which `auto` fits numbers; no configuration names them.

    A study may have a dozen thresholds, so each may take only a tenth of an objective's cost. A
    bound needs less than an optimum: on which side a point lies, and how sure that is. So a process
    has few samples while observations are few. With more, it is at the mode of its hyperparameters,
    and Student's odds (`Bounded`) cover their uncertainty. With very many it learns from some: most
    lie near the study's best point, where bounds decide, and the others represent the whole space.
    """

    gp_limit: int = LONG

    @property
    def reuses_up_to(self) -> int:
        return self.gp_limit

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        from dngo.rules import current
        from dngo.surrogates.apart import around
        from dngo.surrogates.gaussian_process import fit_process

        rules, samples, n = current().numbers, self.hyperparameter_samples, len(problem.x)
        if n > max(self.gp_limit, rules.sampled_up_to):
            problem = problem.at(around(problem, rules.most, rules.near, *rng.spawn(1)))
        samples = min(samples, rules.samples) if n <= rules.sampled_up_to else 0
        return fit_process(problem, self.covariance, samples, rng=rng)


class ClassifierSettings(Section):
    """How the constraints are modelled: adaptive bases with a Bayesian classifier (section 3.2)."""

    likelihood: Literal["logistic", "step"] = Field(
        default="logistic",
        description="How a constraint's flag depends on the point (section 3.2). logistic: chance "
        "decides near the boundary. step: a point has the same flag every time.",
    )
    calibration: Calibration = Field(
        default="out_of_fold",
        description="How the prior precision of the weights is found. out_of_fold: learnt from left-out "
        "points. in_sample: always 1, which is overconfident; for comparisons.",
    )
    networks: LabelSettings = LabelSettings()


# How a kind is built: `SurrogateSettings(kind="gp", ard=False)`.
SurrogateSettings = Kinds(group="dngo.surrogates", default="auto")
