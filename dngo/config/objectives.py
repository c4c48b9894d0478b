"""The section `objectives` of a study's configuration: the direction and reference of each objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dngo.config.objective import Scaled

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
