"""The sections `surrogate:` and `classifier:` of the configuration. Imports nothing heavy.

A surrogate is one of several kinds, and each class here has exactly the keys that act under its kind,
and the way to fit it. A package, this one as well, adds a kind by an entry point of the group
`dngo.surrogates`, named as the kind is, that refers to a subclass of `SurrogateKind`; and a way to train
the networks of adaptive bases by one of the group `dngo.trainings`, that refers to a function which is
called as `dngo.surrogates.training.train_networks` is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticKnownError

from dngo.kinds import Kinds
from dngo.plugins import Registry

if TYPE_CHECKING:
    import numpy as np

    from dngo.surrogates.problem import Fit, Problem
    from dngo.types import Progress


class Section(BaseModel):
    """Settings: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, but an unknown key is a ValueError, since it would have no effect."""
        unknown = [key for key in update or {} if key not in type(self).model_fields]
        if unknown:
            raise ValueError(f"{type(self).__name__} has no key {', '.join(unknown)}")
        return super().model_copy(update=update, deep=deep)


def _only_where(
    given: Any, key: str, default: Any, other: str, value: Any, *, otherwise: Any
) -> Any:
    """`given` with a key that acts only if another key has some value. Its default is filled
    in there; elsewhere giving it is an error. otherwise: what the other key is by default."""
    if not isinstance(given, Mapping):
        return given
    if given.get(other, otherwise) == value:
        return {**given, key: default} if given.get(key) is None else given
    if given.get(key) is not None:
        raise ValueError(f"{key} acts only with {other}: {str(value).lower()}; remove it")
    return given


# ---- networks -----------------------------------------------------------------------------------


class NetworkSettings(Section):
    """A network's size, and what one of its steps looks at."""

    layers: int = Field(default=3, ge=1, le=8, description="Hidden layers of each network.")
    width: int = Field(default=50, ge=1, le=1024, description="Units in each hidden layer.")
    minibatch: int = Field(default=256, ge=1, description="Observations in one step, at most.")
    device: Literal["cpu", "cuda"] = Field(
        default="cpu",
        description="Where the networks are trained. cuda: on a GPU, for many observations and wide "
        "networks; untested, and replay then needs a GPU too.",
    )


class TrainedNetworkSettings(NetworkSettings):
    """A network that is trained by minibatches, and how."""

    activation: Literal["tanh", "relu_tanh", "relu"] = Field(
        default="tanh",
        description="tanh in every hidden layer, or relu with a tanh in the last one only "
        "(section 3.1.1), for objectives that are not smooth, or relu in all of them.",
    )
    optimizer: Literal["adam", "sgd"] = Field(
        default="adam", description="How the networks are trained; the paper has sgd with momentum."
    )
    momentum: float | None = Field(
        default=None, ge=0, lt=1, description="Of sgd alone, and there 0.9 if left out."
    )
    learning_rate: float = Field(
        default=0.01,
        gt=0,
        description="The optimizer's largest step; it falls to zero along a cosine.",
    )
    weight_decay: float = Field(
        default=0.03,
        ge=0,
        description="Decay of the networks' weights: decoupled with adam, an l2 penalty with sgd.",
    )
    steps: int = Field(default=1000, ge=0, description="Training steps, at least.")
    epochs: int = Field(
        default=40,
        ge=0,
        description="Passes over the observations, at least; with many observations this decides, "
        "and the cost of a fit is linear in their number.",
    )

    @model_validator(mode="before")
    @classmethod
    def _momentum_is_of_sgd(cls, given: Any) -> Any:
        return _only_where(given, "momentum", 0.9, "optimizer", "sgd", otherwise="adam")


class EnsembleSettings(TrainedNetworkSettings):
    """Several such networks side by side, each of which leaves out a part of the observations."""

    ensemble: int = Field(
        default=5,
        ge=1,
        le=64,
        description="Networks in the ensemble; the paper has one. Out of fold, each leaves out one fold "
        "of as many, and a network alone one of five.",
    )


# ---- kinds of surrogates ------------------------------------------------------------------------

NAMED = {"required": ["kind"]}  # in the schema, for kinds that are not the default


class SurrogateKind(Section):
    """What every kind of surrogate has: the scale of the objective, and `fit`.

    To add a kind, write a subclass with a field `kind: Literal["name"] = "name"`, a field for each
    key of its own, and `fit` or `fitted_by`.
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
        return _only_where(given, "highest_power", 2.0, "warp", True, otherwise=True)

    @property
    def for_numbers(self) -> SurrogateKind:
        """The settings that numbers with thresholds are fitted by: there may be many numbers."""
        return self

    embeds_tasks: ClassVar[bool] = False
    """Whether `fit` distinguishes several tasks itself; otherwise each other task is an input."""

    recalls: ClassVar[bool] = True
    """Whether `fit` may ask `Problem.past` for earlier models: the archive then holds all of them."""

    fitted_by: ClassVar[str]
    """`module:function`: the function that fits this kind; its second argument is the settings. A
    name, since that module imports these settings, and reading them must not import it."""

    def fit(
        self, problem: Problem, *, rng: np.random.Generator, progress: Progress | None = None
    ) -> Fit:
        """Components of the posterior given standardised targets, n >= 1.

        The result depends on the problem, the settings and the state of `rng` alone; `progress`
        is called with how far it is, from 0 to 1.
        """
        return resolve_name(self.fitted_by)(problem, self, rng=rng, progress=progress)


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


TRAININGS = Registry("dngo.trainings")


def _known_training(name: str) -> str:
    if name not in TRAININGS.names():
        expected = " or ".join(repr(one) for one in TRAININGS.names())
        raise PydanticKnownError("literal_error", {"expected": expected})
    return name


Training = Annotated[
    str,
    AfterValidator(_known_training),
    Field(
        description="What the networks are trained for: map, a point estimate of all weights; "
        "evidence, the marginal likelihood (8) of the last layer (section 3.1.2), slower.",
        json_schema_extra={"enum": [*TRAININGS.own]},
    ),
]
Calibration = Literal["out_of_fold", "in_sample"]


class Auto(_Process):
    """A Gaussian process and adaptive bases in a mixture, weighted by how well each predicts
    observations it has not seen; the process is sparse beyond gp_limit."""

    fitted_by: ClassVar[str] = "dngo.surrogates.mixture:fit_mixture"
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

    fitted_by: ClassVar[str] = "dngo.surrogates.gaussian_process:fit_process"
    kind: Literal["gp"] = "gp"


class Numbers(ExactProcess):
    """The settings by which `auto` fits numbers; no configuration names them."""

    fitted_by: ClassVar[str] = "dngo.surrogates.numbers:fit_number"
    gp_limit: int = 300


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


# ---- what archives of earlier versions hold -----------------------------------------------------


def upgrade(flat: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sections `surrogate` and `classifier` that mean the same as an old flat `surrogate` section.

    Keys without an effect are dropped. `auto` with `calibration: in_sample`, a process for a few
    observations and then bases, becomes the bases.
    """
    old = {**flat, "ensemble": flat["networks"]}
    if old["optimizer"] != "sgd":
        del old["momentum"]
    if not old["warp"]:
        del old["highest_power"]
    if old["kind"] == "auto" and old["calibration"] == "in_sample":
        old["kind"] = "adaptive_basis"

    def section(model: Any, found: Mapping[str, Any]) -> dict[str, Any]:
        fields = model.model_fields
        keys = {name: found[name] for name in fields if name in found and name != "networks"}
        inner = fields.get("networks")
        return keys if inner is None else {**keys, "networks": section(inner.annotation, old)}

    classifier = section(ClassifierSettings, {**old, "likelihood": old["constraint_likelihood"]})
    return section(SurrogateSettings.classes[old["kind"]], old), classifier
