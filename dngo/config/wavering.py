"""The inputs that waver, of `acquisition: {kind: robust}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dngo.config.messages import Located, nearest
from dngo.space.parameters import Number

if TYPE_CHECKING:
    from dngo.config.model import Config


def check(config: Config) -> None:
    """Raise Located for a wavering input that is no number of the space."""
    for name in getattr(config.acquisition, "within", {}):
        where, found = ("acquisition", "within", name), config.space.get(name)
        if found is None:
            raise Located(where, f"there is no parameter {name!r}{nearest(name, config.space)}")
        if not isinstance(found, Number):
            raise Located(where, f"{name} is no number, so it cannot waver; remove it")
