"""The types of parameters, of this package and of others, found by entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from dngo.errors import UserError
from dngo.kinds import Kinds
from dngo.space.parameters import ARCHIVED, Parameter

TYPES = Kinds(group="dngo.parameters", key="type")

if TYPE_CHECKING:
    AnyParameter = Parameter
else:
    AnyParameter = TYPES.field

_SPACE: TypeAdapter[dict[str, Parameter]] = TypeAdapter(dict[str, AnyParameter])


def parameters_of_archive(space: Any) -> dict[str, Parameter]:
    """The parameters in an archive's space.

    Raises UserError if one is of a type of a package that is not installed, and pydantic's ValidationError
    if they are no parameters.
    """
    for name, section in space.items() if isinstance(space, dict) else ():
        kind = section.get("type") if isinstance(section, dict) else None
        if isinstance(kind, str) and kind not in TYPES.registry.names():
            raise UserError(
                f"space.{name}: no package that is installed here has parameters of type {kind!r}; install "
                "the one that this study was run with"
            )
    return _SPACE.validate_python(space, context=ARCHIVED)
