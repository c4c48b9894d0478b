"""Converts configurations in archives of earlier releases to this release.

Only archives are converted, never a user's file. In a user's file, an old key is an error that
names today's key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dngo.acquisition import settings as acquisition
from dngo.config.placeholders import doubled
from dngo.errors import UserError
from dngo.storage.text import shown
from dngo.surrogates import settings as surrogates

CONFIG_VERSION = 3  # of documents from `Config.resolved`
Document = dict[str, Any]

# Keys of earlier versions whose name or place has changed, for messages.
MOVED = {
    "surrogate.constraint_likelihood": "classifier.likelihood",
    "surrogate.networks": "surrogate.networks.ensemble",
    **{f"acquisition.{old}": f"acquisition.{new}" for old, new in acquisition.RENAMED.items()},
}


def _by_kind(document: Document) -> Document:
    """Convert one set of keys for all kinds into a set for each kind."""
    found = dict(document)
    if "acquisition" in found:
        found["acquisition"] = acquisition.upgrade(found["acquisition"])
    if "surrogate" in found:
        found["surrogate"], found["classifier"] = surrogates.upgrade(found["surrogate"])
    return found


def _with_double_braces(document: Document) -> Document:
    """Convert commands in which `{{` meant two braces. Now it means one."""
    objective = document.get("objective")
    if not objective or not objective.get("command"):
        return document
    return {**document, "objective": {**objective, "command": doubled(objective["command"])}}


# The conversion from each version to the next.
STEPS: dict[int, Callable[[Document], Document]] = {1: _by_kind, 2: _with_double_braces}


def upgrade(document: Mapping[str, Any], version: int, source: str) -> Document:
    """An archived document of some version, or some of its sections, as this release writes it.

    Raises UserError if it is of a later version. source: the archive, for the message.
    """
    if version > CONFIG_VERSION:
        raise UserError(
            f"{source}: its configuration has version {version}, but this dngo reads "
            f"versions up to {CONFIG_VERSION}; update dngo"
        )
    found = dict(document)
    for step in range(version, CONFIG_VERSION):
        try:
            found = STEPS[step](found)
        except (AttributeError, LookupError, TypeError) as error:
            what = shown(str(error).strip("'"))
            what = shown(str(error).strip("'"))
            raise UserError(
                f"{source}: its configuration does not have version {step}: {what}"
            ) from None
    return found
