"""The section `objectives` of a study's configuration: the direction and reference of each objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
)

from dngo.config.messages import Located, nearest
from dngo.config.objective import Scaled
from dngo.fronts import MOST

if TYPE_CHECKING:
    from dngo.config.model import Config

Direction = Literal["minimize", "maximize"]


class Aim(Scaled):
    """One of several objectives. Its direction alone is enough, `speed: maximize`."""

    direction: Direction = Field(
        "minimize", description="Whether small or large values of this objective are good."
    )
    reference: float | None = Field(
        None,
        allow_inf_nan=False,
        description="The worst value of interest. Worse points add nothing to the front, and the "
        "search does not look for them. Default: hypervolumes reach to the worst value of "
        "the first batch.",
    )

    scale: Literal["linear", "log"] = Field(
        "linear",
        description="log: this objective is above 0 and spans decades. dngo models its logarithm, "
        "and hypervolumes count it. A value of 0 or less is an invalid outcome. This key may "
        "change at any time.",
    )


def _of_direction(given: Any) -> Any:
    return {"direction": given} if isinstance(given, str) else given


# An aim, or only its direction.
AnAim = Annotated[Aim, BeforeValidator(_of_direction, json_schema_input_type=Aim | Direction)]


def directions_of(resolved: Mapping[str, Any]) -> dict[str, str]:
    """`Config.directions` of a resolved configuration, as a batch stores it."""
    named = resolved.get("objectives") or {}
    return {name: named[name]["direction"] for name in sorted(named)}


def direction_of(resolved: Mapping[str, Any]) -> str:
    """`Config.direction` of a resolved configuration; raises ValueError if there are several."""
    directions = list(directions_of(resolved).values()) or [resolved["objective"]["direction"]]
    (direction,) = directions
    return str(direction)


def check(config: Config) -> None:
    """Raise Located if keys of a study with several objectives do not fit each other."""
    aims, objective = config.objectives, config.objective
    _check_target(config)
    _check_log(config)
    if not aims:
        if objective.direction is None:
            raise Located(("objective", "direction"), "must be 'minimize' or 'maximize'")
        if config.stop.hypervolume_gain is not None:
            raise Located(("stop", "hypervolume_gain"), "is for several `objectives`")
        return
    if objective.direction is not None:
        raise Located(
            ("objective", "direction"),
            "each of `objectives` has its own direction; remove this one",
        )
    if len(aims) > MOST:
        raise Located(
            ("objectives",),
            f"are {len(aims)}, but at most {MOST} are possible: with more, nearly every "
            "point is on the front; turn some of them into constraints with a bound",
        )
    if len(aims) > 1:
        _check_several(config)


def positive(config: Config) -> list[str]:
    """The objectives that must be above 0, since their scale is logarithmic."""
    found = [name for name, aim in sorted(config.objectives.items()) if aim.scale == "log"]
    return [*found, *(["objective"] if config.objective.scale == "log" else [])]


def _check_log(config: Config) -> None:
    if config.objectives and config.objective.scale == "log":
        name = min(config.objectives)
        raise Located(
            ("objective", "scale"),
            f"each of `objectives` has its own scale: {name}: {{scale: log}}; remove this one",
        )
    for name, aim in config.objectives.items():
        if aim.scale == "log" and aim.reference is not None and aim.reference <= 0:
            raise Located(
                ("objectives", name, "reference"),
                f"must be above 0 on a logarithmic scale, but is {aim.reference:g}",
            )
    for name in ("expected_improvement", "distance"):
        if positive(config) and not config.has_several and getattr(config.stop, name) is not None:
            raise Located(
                ("stop", name),
                "is in the objective's units, but on a logarithmic scale (objective.scale) "
                "a gain is a factor; leave it out",
            )


def _check_several(config: Config) -> None:
    several = "works only with one objective; with several, use"
    for name in ("expected_improvement", "distance"):
        if getattr(config.stop, name) is not None:
            raise Located(("stop", name), f"{several} `stop.hypervolume_gain`")
    if config.optimum is not None:
        raise Located(("optimum",), f"{several} the `reference` of each, or `stop.target`")
    if config.early_stopping is not None:
        raise Located(
            ("early_stopping",),
            "so far works only with one objective; with several, `objective.time_limit` bounds an "
            "evaluation",
        )
    if not config.acquisition.takes_several:
        name = getattr(config.acquisition, "sampler", config.acquisition.kind)
        raise Located(
            ("acquisition", "kind"),
            f"{name} {several} mcei, thompson, random, sobol, or a sampler of optuna: tpe, nsgaii, gp",
        )


def _check_target(config: Config) -> None:
    target, where = config.stop.target, ("stop", "target")
    if not config.has_several:
        if isinstance(target, dict):
            raise Located(where, "must be a number, since there is one objective")
        return
    if target is None:
        return
    if not isinstance(target, dict) or not target:
        names = ", ".join(f"{name}: a number" for name in config.directions)
        raise Located(where, f"must have a value for objectives by name: {{{names}}}")
    for name in target:
        if name not in config.objectives:
            known = ", ".join(config.directions)
            hint = nearest(name, config.objectives) or f"; the objectives are {known}"
            raise Located((*where, name), f"is not an objective{hint}")
