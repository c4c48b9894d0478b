"""The section `early_stopping` of a study's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from dngo.stopping.settings import Stopping, StoppingSettings

if TYPE_CHECKING:
    Section = Stopping
else:
    Section = StoppingSettings.field


WORDS = {"yes": True, "on": True, "no": False, "off": False}  # truth values in YAML 1.1 alone


def _of_key(given: Any) -> Any:
    """The value of the key: true means the usual rule, and false no rule."""
    if given is True:
        return StoppingSettings.default
    if isinstance(given, str) and given.lower() in WORDS:
        right = "true" if WORDS[given.lower()] else "false"
        raise ValueError(f"must be true, false or a rule; {given!r} is text in YAML: write {right}")
    return None if given is False else given


EarlyStopping = Annotated[
    Section | None,
    BeforeValidator(_of_key, json_schema_input_type=bool | Section | None),
    Field(
        description="Ends evaluations that report as they run (`{progress}`, `dngo.progress`) and are "
        "worse than others were at the same step: true, or a rule with its keys, {kind: asha, eta: 4}. "
        "false: each comes to its end."
    ),
]
