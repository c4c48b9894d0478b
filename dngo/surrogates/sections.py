"""Settings of networks. Code that trains and uses networks does not know the kinds of surrogates.

Another way to train the networks of adaptive bases is an entry point of the group `dngo.trainings`. It
refers to a function that is called like `dngo.surrogates.training.train_networks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticKnownError

from dngo.plugins import Registry


class Section(BaseModel):
    """Settings: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Like pydantic's, but an unknown key is a ValueError, since it would have no effect."""
        unknown = [key for key in update or {} if key not in type(self).model_fields]
        if unknown:
            raise ValueError(f"{type(self).__name__} has no key {', '.join(unknown)}")
        return super().model_copy(update=update, deep=deep)


def only_where(
    given: Any, key: str, default: Any, other: str, value: Any, *, otherwise: Any
) -> Any:
    """`given` with a key that acts only if another key has a certain value. If it has, this key's
    default is filled in. If not, giving this key is an error. otherwise: the other key's
    default."""
    if not isinstance(given, Mapping):
        return given
    if given.get(other, otherwise) == value:
        return {**given, key: default} if given.get(key) is None else given
    if given.get(key) is not None:
        raise ValueError(f"{key} acts only with {other}: {str(value).lower()}; remove it")
    return given


Activation = Literal["silu", "tanh", "relu_tanh", "relu"]
UNITS = (
    "silu, tanh: in every hidden layer; the papers use tanh. relu_tanh: relu, and tanh in the last layer "
    "(section 3.1.1), for objectives that are not smooth. relu: in every layer."
)


class NetworkSettings(Section):
    """A network's size, and the observations of one step."""

    layers: int = Field(default=3, ge=1, le=8, description="Hidden layers of each network.")
    width: int = Field(default=50, ge=1, le=1024, description="Units in each hidden layer.")
    minibatch: int = Field(default=256, ge=1, description="Observations in one step, at most.")
    device: Literal["cpu", "cuda"] = Field(
        default="cpu",
        description="Where the networks are trained. cuda: on a GPU, for many observations and wide "
        "networks; untested, and replay then needs a GPU too.",
    )


class TrainedNetworkSettings(NetworkSettings):
    """A network that is trained by minibatches, and its training."""

    activation: Activation = Field(default="silu", description=UNITS)
    optimizer: Literal["adam", "soap", "sgd"] = Field(
        default="adam",
        description="How the networks are trained. soap is adam in rotated coordinates: it follows a "
        "smooth objective more closely and costs one and a half times as much, up to a width of 128. The "
        "paper uses sgd with momentum.",
    )
    momentum: float | None = Field(
        default=None, ge=0, lt=1, description="Only for sgd; default there: 0.9."
    )
    learning_rate: float = Field(
        default=0.01,
        gt=0,
        description="The largest step. It falls along a cosine, and is halved if the training diverges.",
    )
    weight_decay: float = Field(
        default=0.03,
        ge=0,
        description="Decay of the networks' weights: with sgd an l2 penalty, otherwise decoupled.",
    )
    steps: int = Field(default=1000, ge=0, description="Training steps, at least.")
    epochs: int = Field(
        default=40,
        ge=0,
        description="Passes over the observations, at least. With many observations this decides the "
        "number of steps, which for adam stops growing at 20,000.",
    )

    @model_validator(mode="before")
    @classmethod
    def _momentum_is_of_sgd(cls, given: Any) -> Any:
        return only_where(given, "momentum", 0.9, "optimizer", "sgd", otherwise="adam")


class EnsembleSettings(TrainedNetworkSettings):
    """Several such networks; each leaves out a part of the observations."""

    ensemble: int = Field(
        default=5,
        ge=1,
        le=64,
        description="Networks in the ensemble; the paper has one. Out of fold, each of several networks "
        "leaves out one fold, and a single network leaves out a fifth.",
    )


class LabelSettings(EnsembleSettings):
    """An ensemble that learns labels: for these `silu` gains 0.03 nats, at twice the cost."""

    activation: Activation = Field(default="tanh", description=UNITS)


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
        description="What the training maximises. map: the posterior density of all weights. evidence: "
        "the marginal likelihood (8) of the last layer (section 3.1.2); slower.",
        json_schema_extra={"enum": [*TRAININGS.own]},
    ),
]
