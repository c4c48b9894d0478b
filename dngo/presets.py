"""Published systems as configurations: a name stands for a set of keys.

This package's presets are in `dngo.papers.presets`. Another package adds one with an entry point of
the group `dngo.presets` that leads to a `Preset`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

from dngo.plugins import Registry

PRESETS = Registry("dngo.presets")


@dataclass(frozen=True)
class Preset:
    """A configuration with everything that a paper says about its method.

    paper: its reference.
    document: keys of a configuration, in any number of sections.
    needs: keys that the user must give in addition, each with its purpose.
    """

    paper: str
    document: Mapping[str, Any]
    needs: Mapping[str, str] = field(default_factory=dict)


def find_preset(name: Any) -> Preset | None:
    """The preset with a name; None if there is none."""
    if not isinstance(name, str) or name not in PRESETS.names():
        return None
    found: Preset = PRESETS.find(name)
    return found


def _known(name: str) -> str:
    if find_preset(name) is None:
        raise PydanticKnownError(
            "literal_error", {"expected": " or ".join(map(repr, PRESETS.names()))}
        )
    return name


PresetName = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": [*PRESETS.own]})
]
