"""The parts of a study that can never change, and the message if one has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dngo.errors import UserError
from dngo.space.types import parameters_of_archive


def check_identity(place: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare the study of an archive or a batch with the configured study.

    place: the file with `found`.
    found, wanted: as `Config.identity` returns them.
    Raises UserError that says what changed, from what to what, and how to go on.
    """
    if repr(found) == repr(wanted):  # the usual case
        return
    changes = [
        f"{name} was {_show(found.get(key, empty))} and is {_show(wanted.get(key, empty))}"
        for key, name, empty in (
            ("study", "study", ""),
            ("direction", "objective.direction", ""),
            ("objectives", "objectives", {}),
            ("constraints", "constraints", []),
            ("thresholds", "whether a constraint is a number with a bound", []),
            ("transfer", "transfer", []),
            ("space_constraints", "space_constraints", []),
        )
        if found.get(key, empty) != wanted.get(key, empty)
    ]
    changes += _changed_space(_today(found.get("space")), _today(wanted["space"]))
    if changes:
        home = _archive(place)
        more = (
            f"; to take the evaluations along: `dngo fork {home} --config` with that "
            "study's configuration"
        )
        raise UserError(
            f"{place}: its study began with another configuration, and a part that cannot "
            f"change has changed: {'; '.join(changes)[:600]}. Nothing was evaluated or "
            "written. Put the old value back and go on, or give the study another "
            f"name{more if home.exists() else ''}"
        )


def _archive(place: Path) -> Path:
    """The archive of a file's study: the file itself, or for a batch the archive two folders above."""
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
    """A space as this release writes it. Keys that an earlier release did not know are filled in."""
    try:
        return {n: p.model_dump(mode="json") for n, p in parameters_of_archive(space).items()}
    except ValidationError:
        return dict(space) if isinstance(space, dict) else {}


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
