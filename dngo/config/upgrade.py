"""Configurations as archives of earlier releases hold them, brought up to this one.

Only archives are upgraded, never a user's file: there a key of yesterday is an error that names the
key of today.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dngo.acquisition import settings as acquisition
from dngo.config.placeholders import doubled
from dngo.errors import UserError
from dngo.storage.text import shown
from dngo.surrogates import settings as surrogates

CONFIG_VERSION = 3  # of the documents that `Config.resolved` writes
Document = dict[str, Any]

# Keys of earlier versions that have another name or place now, for messages.
MOVED = {
    "surrogate.constraint_likelihood": "classifier.likelihood",
    "surrogate.networks": "surrogate.networks.ensemble",
    **{f"acquisition.{old}": f"acquisition.{new}" for old, new in acquisition.RENAMED.items()},
}


def _by_kind(document: Document) -> Document:
    """From one set of keys for all kinds to a set for each kind."""
    found = dict(document)
    if "acquisition" in found:
        found["acquisition"] = acquisition.upgrade(found["acquisition"])
    if "surrogate" in found:
        found["surrogate"], found["classifier"] = surrogates.upgrade(found["surrogate"])
    return found


def _with_double_braces(document: Document) -> Document:
    """From commands in which `{{` meant two braces to commands in which it means one."""
    objective = document.get("objective")
    if not objective or not objective.get("command"):
        return document
    return {**document, "objective": {**objective, "command": doubled(objective["command"])}}


# From each version to the next.
STEPS: dict[int, Callable[[Document], Document]] = {1: _by_kind, 2: _with_double_braces}


def upgrade(document: Mapping[str, Any], version: int, source: str) -> Document:
    """An archived document of some version, or some sections of it, as this release writes it.

    Raises UserError if it is of a later version. source: the archive, for the message.
    """
    if version > CONFIG_VERSION:
        raise UserError(
            f"{source}: its configuration has version {version}, and this dngo reads up to "
            f"{CONFIG_VERSION}; update dngo"
        )
    found = dict(document)
    for step in range(version, CONFIG_VERSION):
        try:
            found = STEPS[step](found)
        except (AttributeError, LookupError, TypeError) as error:
            what = shown(str(error).strip("'"))
            what = shown(str(error).strip("'"))
            raise UserError(
                f"{source}: its configuration is not of version {step}: {what}"
            ) from None
    return found
