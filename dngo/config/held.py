"""The section `constraints` of a study's configuration: the reported values, and the bounds that
they must keep.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from dngo.config.messages import short, shown, threshold_form
from dngo.thresholds import Threshold


def _held(given: Any) -> Any:
    if isinstance(given, str):
        return str(Threshold.parse(given))
    if given is not True:
        raise ValueError(f"must be true (a flag) or a bound such as '<= 350', not {shown(given)}")
    return given


def by_name(given: Any) -> Any:
    """Constraints as a mapping, from a mapping or from a list of names and mappings."""
    if callable(given):
        raise ValueError(
            "are names of what the function reports, with bounds: {heat: '<= 350'}; what parameters "
            "must keep stands in space_constraints: ['x + y <= 1']"
        )
    if isinstance(given, str):
        right = threshold_form(given) or f"[{short(given)}]"
        raise ValueError(f"must be a list of names, or a mapping of names to bounds; write {right}")
    if not isinstance(given, list):
        return given
    found: dict[str, Any] = {}
    for item in given:
        if not isinstance(item, str | dict):
            raise ValueError(f"each must be a name, or a name with a bound, not {shown(item)}")
        for name, held in ({item: True} if isinstance(item, str) else item).items():
            if name in found:
                raise ValueError(f"{short(name)} is listed twice; list each constraint once")
            found[name] = held
    return found


# What a reported value must be: true for a flag, within its bound for a number.
Held = Annotated[bool | str, BeforeValidator(_held, json_schema_input_type=Literal[True] | str)]
