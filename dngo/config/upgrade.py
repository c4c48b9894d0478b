"""Converts configurations in archives of earlier releases to this release.

Only archives are converted, never a user's file. In a user's file, an old key is an error that
names today's key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dngo.acquisition.settings import AcquisitionSettings
from dngo.config.placeholders import doubled
from dngo.errors import UserError
from dngo.storage.text import shown
from dngo.surrogates.settings import ClassifierSettings, SurrogateSettings

CONFIG_VERSION = 3  # of documents from `Config.resolved`
Document = dict[str, Any]

RENAMED = {"local_share": "trust_region_share", "min_distance": "spacing"}  # of the acquisition
# Keys of earlier versions whose name or place has changed, for messages.
MOVED = {
    "surrogate.constraint_likelihood": "classifier.likelihood",
    "surrogate.networks": "surrogate.networks.ensemble",
    **{f"acquisition.{old}": f"acquisition.{new}" for old, new in RENAMED.items()},
}


def of_acquisition(document: dict[str, Any]) -> dict[str, Any]:
    """Today's form of a section from an archive in which every kind had every key.

    Keys without an effect under their kind are dropped, and some keys get other names. A section in today's
    form does not change.
    """
    chosen = AcquisitionSettings.find(document.get("kind", AcquisitionSettings.default))
    named = {RENAMED.get(key, key): value for key, value in document.items()}
    known = {key for each in AcquisitionSettings.classes.values() for key in each.model_fields}
    return {k: v for k, v in named.items() if k in chosen.model_fields or k not in known}


def of_surrogate(flat: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sections `surrogate` and `classifier` that mean the same as an old flat `surrogate` section.

    Keys without an effect are dropped. `auto` with `calibration: in_sample` was a process for few
    observations, and bases for more; it becomes the bases.
    """
    old = {**flat, "ensemble": flat["networks"]}
    if old["optimizer"] != "sgd":
        del old["momentum"]
    if not old["warp"]:
        del old["highest_power"]
    if old["kind"] == "auto" and old["calibration"] == "in_sample":
        old["kind"] = "adaptive_basis"

    def section(model: Any, found: Mapping[str, Any]) -> dict[str, Any]:
        fields = model.model_fields
        keys = {name: found[name] for name in fields if name in found and name != "networks"}
        inner = fields.get("networks")
        return keys if inner is None else {**keys, "networks": section(inner.annotation, old)}

    classifier = section(ClassifierSettings, {**old, "likelihood": old["constraint_likelihood"]})
    return section(SurrogateSettings.classes[old["kind"]], old), classifier


def _by_kind(document: Document) -> Document:
    """Convert one set of keys for all kinds into a set for each kind."""
    found = dict(document)
    if "acquisition" in found:
        found["acquisition"] = of_acquisition(found["acquisition"])
    if "surrogate" in found:
        found["surrogate"], found["classifier"] = of_surrogate(found["surrogate"])
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
            raise UserError(
                f"{source}: its configuration does not have version {step}: {what}"
            ) from None
    return found
