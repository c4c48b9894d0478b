"""What may never change in a study, and the message if it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dngo.errors import UserError
from dngo.space.types import parameters_of_archive


def check_identity(place: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare the study that an archive or a batch belongs to with the one that is configured.

    place: the file that `found` is from.  found, wanted: as `Config.identity` gives them.
    Raises UserError that names what changed, from what to what, and the way on.
    """
    if repr(found) == repr(wanted):  # as nearly always
        return
    changes = [
        f"{name} was {_show(found.get(key, empty))} and is {_show(wanted.get(key, empty))}"
        for key, name, empty in (
            ("study", "study", ""),
            ("direction", "objective.direction", ""),
            ("objectives", "objectives", {}),
            ("constraints", "constraints", []),
            ("thresholds", "which constraints are numbers with a bound", []),
            ("transfer", "transfer", []),
            ("space_constraints", "space_constraints", []),
        )
        if found.get(key, empty) != wanted.get(key, empty)
    ]
    changes += _changed_space(_today(found.get("space")), _today(wanted["space"]))
    if changes:
        home = _archive(place)
        more = (
            ", and bring along what was evaluated: "
            f"`dngo fork {home} --config` that other study's configuration"
        )
        raise UserError(
            f"{place}: its study was begun with another configuration, and what cannot change has "
            f"changed: {'; '.join(changes)[:600]}. Nothing was evaluated or written: put the old "
            f"value back and go on, or give the study another name{more if home.exists() else ''}"
        )


def _archive(place: Path) -> Path:
    """The archive of the study that a file belongs to: itself, or of a batch the one two folders above."""
    return place if place.suffix == ".h5" else place.parents[2] / "archive.h5"


def _changed_space(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    changes = []
    for name in sorted({*found, *wanted}):
        if name not in wanted:
            changes.append(f"space.{name} is gone")
        elif name not in found:
            changes.append(f"space.{name} is new")
        else:
            old, new = found[name], wanted[name]
            changes += [
                f"space.{name}.{key} was {_show(old.get(key))} and is {_show(new.get(key))}"
                for key in sorted({*old, *new})
                if repr(old.get(key)) != repr(new.get(key))  # 1, 1.0 and true are three choices
            ]
    return changes


def _today(space: Any) -> dict[str, Any]:
    """A space as this release writes it, with what an earlier release did not know filled in."""
    try:
        return {n: p.model_dump(mode="json") for n, p in parameters_of_archive(space).items()}
    except ValidationError:
        return dict(space) if isinstance(space, dict) else {}


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
