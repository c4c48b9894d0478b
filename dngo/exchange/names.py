"""What the columns of a table and the names in a dict mean. Each means one thing, or is an error.

A prefix says the kind of a name: `parameter_NAME`, `constraint_NAME` (a flag), `number_NAME` (of a
constraint with a threshold), `objective_NAME` and `noise_NAME` (of several objectives). A name
without a prefix is looked up in this order: parameters, `dngo.outcomes.NAMES`, constraints and
objectives. In earlier studies a parameter may have the name of an outcome's column. If
`parameter_NAME` is there as well, the name without a prefix means the outcome.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dngo.config import Config
from dngo.config.messages import nearest
from dngo.evaluation.unreadable import why
from dngo.exchange.rows import Row, known
from dngo.outcomes import NAMES, OF_OBJECTIVES, SEVERAL
from dngo.storage.text import number_in, shown
from dngo.thresholds import Constraints

# Columns of an export that say nothing about an outcome.
BESIDE = (
    *("iteration", "slot", "stage", "source", "origin", "acquisition", "runner_up", "mean", "std"),
    *("feasibility", "num_pending", "deviation_scale", "attempts", "host", "job"),
    *("last_step", "last_value", "stopped_worse_than", "stopped_of"),
)
PARAMETER, FLAG, NUMBER, OBJECTIVE, NOISE, CONSTRAINT, OUTCOME, OTHER = (
    *("parameter_", "constraint_", "number_", "objective_", "noise_"),
    *("constraint", "outcome", "other"),
)
MOST_KEPT = 1000  # sets of keys whose meanings are cached


@dataclass(frozen=True)
class ColumnNames:
    """The names that mean something in a study.

    objective: what the column of the objective is called.  objectives: the names of several.
    """

    parameters: Collection[str]
    constraints: Collection[str] = ()
    objective: str = "objective"
    objectives: Collection[str] = ()
    # The meanings of each set of keys, cached: a million rows of a file may have the same keys.
    _known: dict[tuple[Any, ...], dict[Any, tuple[str, str]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, config: Config, objective: str | None = None) -> ColumnNames:
        return cls(
            config.space, config.constraints, objective or "objective", sorted(config.objectives)
        )

    def meanings(self, keys: Collection[Any]) -> Iterator[tuple[str, str]]:
        """The meaning of each key of a row; raises ValueError as `meaning` does."""
        if len(self._known) > MOST_KEPT:
            self._known.clear()
        known = self._known.setdefault(tuple(keys), {})
        for key in keys:
            if key not in known:
                known[key] = self.meaning(key, keys)
            yield known[key]

    def meaning(self, key: Any, keys: Collection[Any]) -> tuple[str, str]:
        """The kind of a key, as a constant of this module, and its name without a prefix.

        keys: all keys of the row. Raises ValueError if the key is unknown or ambiguous.
        """
        key = str(key)
        found = [
            (prefix, key.removeprefix(prefix))
            for prefix in (PARAMETER, FLAG, NUMBER, OBJECTIVE, NOISE)
            if key.startswith(prefix) and key.removeprefix(prefix) in self._of(prefix)
        ]
        if key in self.parameters and PARAMETER + key not in keys:
            found.append((PARAMETER, key))
        if len(found) > 1:
            raise ValueError(
                f"{shown(key)} may be {found[0][1]!r} or the parameter of this name; "
                f"write {PARAMETER}{key}"
            )
        if found:
            return found[0]
        if key == self.objective:
            return OUTCOME, "objective"
        if key == "objective":
            return OTHER, key  # the user named another column for the objective
        if key in (*NAMES, "id") or (key == SEVERAL and self.objectives):
            return OUTCOME, key
        if key in self.objectives and OBJECTIVE + key not in keys:
            return OBJECTIVE, key
        if self.objectives and any(
            key.startswith(f"{of}_") and key.removeprefix(f"{of}_") in self.objectives
            for of in OF_OBJECTIVES
        ):
            return OTHER, key
        if key in self.constraints and not {FLAG + key, NUMBER + key} & set(keys):
            return CONSTRAINT, key
        if key in BESIDE:
            return OTHER, key
        if key in (*self.parameters, *self.constraints, *self.objectives):
            raise ValueError(f"{shown(key)} is there twice, with a prefix and without")
        raise ValueError(f"unknown name {shown(key)}{self._nearest(key)}")

    def _of(self, prefix: str) -> Collection[str]:
        if prefix in (OBJECTIVE, NOISE):
            return self.objectives
        return self.parameters if prefix == PARAMETER else self.constraints

    def _nearest(self, key: str) -> str:
        bare = [*self.parameters, self.objective, *self.constraints, *self.objectives, *NAMES, "id"]
        found = [PARAMETER + name for name in self.parameters]
        found += [prefix + name for name in self.constraints for prefix in (FLAG, NUMBER)]
        found += [OBJECTIVE + name for name in self.objectives]
        known = ", ".join(dict.fromkeys(bare))
        return nearest(key, bare) or nearest(key, found) or f"; known: {known}"[:300]


def unknown(names: ColumnNames, rows: Iterable[Row]) -> dict[str, str]:
    """The keys of these rows that are unknown or ambiguous, each with the reason."""
    found: dict[str, str] = {}
    seen: dict[frozenset[Any], None] = {}
    for row in rows:
        keys = frozenset(row.values)
        if keys in seen:
            continue
        seen[keys] = None
        for key in row.values:
            try:
                names.meaning(key, keys)
            except ValueError as error:
                found.setdefault(str(key), str(error))
    return found


def said_in(row: Row, names: ColumnNames, reported: Constraints) -> dict[str, Any]:
    """What a row says of an outcome, by name, for `dngo.outcomes.judge`; raises ValueError.

    Empty cells say nothing. In a table all may have become text: what is a number or a flag is read.
    """
    said: dict[str, Any] = {}
    given: dict[str, dict[str, Any]] = {"constraints": {}, SEVERAL: {}, "noise": {}}
    unknown: dict[str, list[str]] = {"constraints": [], SEVERAL: [], "noise": []}
    meanings = names.meanings(row.values)
    for value, (kind, name) in zip(row.values.values(), meanings, strict=True):
        # NaN says that there is no objective.
        cell = known(value, nan=kind == OBJECTIVE or (kind == OUTCOME and name == "objective"))
        if kind in (PARAMETER, OTHER) or name == "id":
            continue
        if kind == OUTCOME:
            if cell is not None:
                said[name] = _read(name, cell)
            continue
        part, read = {OBJECTIVE: SEVERAL, NOISE: "noise"}.get(kind, "constraints"), _number
        if part == "constraints":
            # An export has a flag and a number of each bound; the number counts.
            if kind != CONSTRAINT and (kind == NUMBER) != (reported[name] is not None):
                if cell is None:
                    unknown[part].append(name)
                continue
            read = _flag if reported[name] is None else _number
        if cell is None:
            unknown[part].append(name)
        else:
            given[part][name] = read(name, cell) if isinstance(cell, str) else cell
    for part, found in given.items():
        _join(said, part, found)
    _fill(said, "constraints", unknown["constraints"])
    if said.get(SEVERAL):
        _fill(said, SEVERAL, unknown[SEVERAL])
    return said


def _fill(said: dict[str, Any], key: str, names: Iterable[str]) -> None:
    """Say that the names of empty cells are unknown, unless they are known from elsewhere."""
    inside = said.get(key, {})
    if isinstance(inside, Mapping) and (others := [n for n in names if n not in inside]):
        said[key] = {**inside, **dict.fromkeys(others, math.nan)}


def _join(said: dict[str, Any], key: str, given: dict[str, Any]) -> None:
    """Add values from separate columns to a mapping; raises ValueError if it has one already."""
    inside = said.get(key)
    if isinstance(inside, Mapping):
        for name in inside:
            if name in given:
                raise ValueError(f"{key.removesuffix('s')} {shown(name)} is there twice")
        said[key] = {**inside, **given}
    elif inside is None and given:
        said[key] = given


def _read(name: str, cell: Any) -> Any:
    """The value of a cell in an outcome's column; text is read as a number or a flag."""
    if not isinstance(cell, str):
        return cell
    if name in ("metadata", "constraints", SEVERAL):
        return _document(cell)
    if name in ("objective", "noise", "duration"):
        return _number(name, cell)
    if name in ("started", "finished"):
        seconds = number_in(cell)
        return cell if seconds is None else seconds
    return cell


def _number(name: str, cell: str) -> float:
    found = number_in(cell)
    if found is None:
        reason = why(cell)
        raise ValueError(f"{name}: {shown(cell)} is not a number{f': {reason}' if reason else ''}")
    return found


def _flag(name: str, cell: str) -> bool:
    word = cell.strip().lower()
    if word in ("true", "1", "1.0"):
        return True
    if word in ("false", "0", "0.0"):
        return False
    raise ValueError(f"{name}: {shown(cell)} is neither true nor false")


def _document(cell: str) -> Any:
    """The mapping that an export wrote as this text. Any other text stays text."""
    try:
        found = json.loads(cell, strict=False)
    except (ValueError, RecursionError):
        return cell
    return found if isinstance(found, dict) else cell
