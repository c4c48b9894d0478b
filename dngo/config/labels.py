"""The labels at the axes of figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dngo.config.messages import Located, nearest

if TYPE_CHECKING:
    from dngo.config.model import Config


def check(config: Config) -> None:
    """Raise Located for a label that names neither a parameter nor a reported value."""
    known = [*config.space, *config.constraints, *(config.objectives or ["objective"])]
    for name in config.labels:
        if name not in known:
            raise Located(
                ("labels", name),
                f"there is no {name!r}{nearest(name, known) or '; known: ' + ', '.join(known)}",
            )
