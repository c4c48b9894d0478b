"""Tables of other programs, with our names: parameters, objective, constraints, status, duration.

A known shape (`dngo.exchange.shapes`) is recognised by its columns. For any other table the user says
which columns are which. What a table has beside these is left out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from dngo.config import Config
from dngo.config.messages import nearest
from dngo.errors import UserError
from dngo.exchange.rows import FileRows, Row, known
from dngo.exchange.shapes import STATES, UNKNOWN, Shape, of_columns, state_of
from dngo.space.parameters import Listed, choices
from dngo.storage.text import number_in, shown, visible

_LENGTH = re.compile(r"(?:(-?\d+) days? \+?)?(\d+):(\d\d):(\d\d(?:\.\d+)?)")


@dataclass(frozen=True)
class Meaning:
    """What the user says of a file.

    objective: its column. columns: the pattern of the parameters' columns, such as "params_*".
    status: the column of the states. study: which of several Optuna studies. ignore: columns to
    leave out.
    """

    objective: str = "objective"
    columns: str = ""
    status: str = ""
    study: str | None = None
    ignore: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.columns and self.columns.count("*") != 1:
            raise UserError(
                f"--columns {visible(self.columns)}: one * stands for the parameters' names, "
                "as in 'params_*'"
            )


def shape_of(columns: Collection[str], meaning: Meaning) -> Shape | None:
    """The shape of a table with these columns; None for a table with our names."""
    found = of_columns(columns)
    if not (meaning.columns or meaning.status):
        return found
    base = found or Shape("a table")
    return replace(
        base, parameters=meaning.columns or base.parameters, status=meaning.status or base.status
    )


def translated(
    path: Path, rows: list[Row], shape: Shape, config: Config, meaning: Meaning
) -> FileRows:
    """The rows of a table with our names, and a line that says how it was read.

    Raises UserError if it is not clear which column is the objective.
    """
    ignored = {*meaning.ignore}
    columns = list(dict.fromkeys(c for row in rows for c in row.values if c not in ignored))
    for column in (shape.status, shape.parameters.replace("*", "")):
        if column and not any(column in c for c in columns):
            raise UserError(f"{path}: has no column {column!r}{nearest(column, columns)}")
    parameters = _parameters(shape, columns, config)
    objectives = _objectives(path, shape, columns, [*parameters], config, meaning)
    if shape.aim and not config.has_several and config.direction != shape.aim:
        other = "maximises" if shape.aim == "maximize" else "minimises"
        raise UserError(
            f"{path}: {shape.name} {other} {next(iter(objectives))}, but the configuration says "
            f"direction: {config.direction}; write direction: {shape.aim}, or a table of your own"
        )
    reader = _Reader(shape, parameters, objectives, _constraints(shape, columns, config), config)
    found, left_out, failed = [], {}, 0
    for row in _last(rows, shape):
        try:
            one, why = reader.row(row)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from None
        if why:
            left_out[row.place] = why
        else:
            found.append(one)
            failed += one.values.get("status") is not None
    said = ", ".join(
        [
            f"read as {shape.name}: {len(parameters)} parameter{'s' * (len(parameters) != 1)}",
            f"{' and '.join(objectives)} as objective{'s' * (len(objectives) > 1)}",
            *(["the last report of each trial"] if len(found) + len(left_out) < len(rows) else []),
            *([f"{failed} failed"] if failed else []),
            *reader.said(),
        ]
    )
    return FileRows(shape.name, found, left_out, visible(said))


def _parameters(shape: Shape, columns: list[str], config: Config) -> dict[str, str]:
    """The names of the parameters by their columns."""
    found = {c: name for c in columns if (name := shape.named(shape.parameters, c)) is not None}
    if shape.parameters != "*":
        return {c: n for c, n in found.items() if not _hides(shape, c)}
    # All columns of such a table have bare names; those of the space are parameters.
    return {c: name for c, name in found.items() if name in config.space}


def _hides(shape: Shape, column: str) -> bool:
    return any(fnmatchcase(column, pattern) for pattern in shape.beside if "*" not in pattern)


def _metrics(shape: Shape, columns: list[str], others: Collection[str]) -> dict[str, str]:
    """The names of what was measured by their columns."""
    beside = (shape.status, shape.duration, *shape.times, shape.trial)
    found = {}
    for column in columns:
        name = shape.named(shape.metrics, column)
        hidden = column in (*others, *beside) or any(fnmatchcase(column, p) for p in shape.beside)
        if column and name is not None and not hidden:
            found[column] = name
    return found


def _objectives(
    path: Path,
    shape: Shape,
    columns: list[str],
    parameters: Collection[str],
    config: Config,
    meaning: Meaning,
) -> dict[str, str]:
    """Our names of the objectives by their columns; raises UserError if it is not clear which they are."""
    metrics = _metrics(shape, columns, parameters)
    if config.has_several:
        found = {c: f"objective_{n}" for c, n in metrics.items() if n in config.directions}
        lacking = [n for n in config.directions if f"objective_{n}" not in found.values()]
        if lacking:
            raise UserError(
                f"{path}: {shape.name} has no column for the objectives {', '.join(lacking)}; "
                f"name the columns like them; there are {_some(metrics or columns)}"
            )
        return found
    wanted = meaning.objective
    if wanted != "objective" or wanted in columns:
        column = wanted if wanted in columns else ""
        column = column or next((c for c, name in metrics.items() if name == wanted), "")
        if not column:
            raise UserError(
                f"{path}: has no column {visible(wanted)!r}{nearest(wanted, columns)}; "
                f"there are {_some(metrics or columns)}"
            )
        return {column: wanted}
    if shape.objective in columns:
        return {shape.objective: wanted}
    likely = [c for c, name in metrics.items() if name not in config.constraints]
    named = [c for c in likely if metrics[c] == "objective"] or likely
    if len(named) != 1:
        raise UserError(
            f"{path}: {shape.name}, but which column is the objective? Name it with --objective; "
            f"there are {_some(likely or columns)}"
        )
    return {named[0]: wanted}


def _constraints(shape: Shape, columns: list[str], config: Config) -> dict[str, str]:
    metrics = _metrics(shape, columns, ())
    return {c: name for c, name in metrics.items() if name in config.constraints}


def _some(columns: Collection[str]) -> str:
    return visible(", ".join(map(str, columns)))[:200]


def _last(rows: list[Row], shape: Shape) -> list[Row]:
    """The last row of each evaluation."""
    if not shape.trial:
        return rows
    last = {str(known(row.values.get(shape.trial)) or row.place): row for row in rows}
    return list(last.values())


@dataclass(frozen=True)
class _Reader:
    """Reads rows of one shape. parameters, objectives, constraints: our names by their columns."""

    shape: Shape
    parameters: Mapping[str, str]
    objectives: Mapping[str, str]
    constraints: Mapping[str, str]
    config: Config
    used: Counter[str] = field(default_factory=Counter)

    @cached_property
    def numbered(self) -> dict[str, list[Any]]:
        """The choices of the parameters whose choices are numbers: Hyperopt writes them so."""
        return {
            name: list(choices(p))
            for name, p in self.config.search_space.parameters.items()
            if self.shape.name == "Hyperopt's trials" and isinstance(p, Listed)
        }

    def said(self) -> Iterator[str]:
        """What else must be known of how the rows were read."""
        for name in sorted(self.used):
            pairs = (f"{i} as {choice}" for i, choice in enumerate(self.numbered[name]))
            yield f"{name}: {', '.join(pairs)}"

    def row(self, row: Row) -> tuple[Row, str]:
        """The row with our names, and why it is left out; empty if it is not.

        Raises ValueError, with the row's place, for an unknown state.
        """
        cells = row.values
        values: dict[str, Any] = {
            f"parameter_{name}": self._parameter(name, cells.get(column))
            for column, name in self.parameters.items()
        }
        status, why = self._status(row)
        if why:
            return row, why
        measured = {ours: _number(cells.get(c)) for c, ours in self.objectives.items()}
        measured |= {ours: cells.get(c) for c, ours in self.constraints.items()}
        if not status and all(measured[n] is None for n in self.objectives.values()):
            if not self.shape.fails:
                return row, "has no objective, and no state that says why"
            status = "failed"
        if status:  # what others write as the objective of a failure is a penalty
            measured = dict.fromkeys(measured)
            values["status"] = status
        length = _seconds(cells.get(self.shape.duration), *map(cells.get, self.shape.times))
        if length is not None:
            values["duration"] = length
        return replace(row, values={**values, **measured}), ""

    def _parameter(self, name: str, cell: Any) -> Any:
        value = known(cell)
        number = number_in(str(value)) if name in self.numbered else None
        if number is None or not 0 <= number < len(self.numbered[name]) or number % 1:
            return value
        self.used[name] += 1
        return self.numbered[name][int(number)]

    def _status(self, row: Row) -> tuple[str, str]:
        cell = known(row.values.get(self.shape.status)) if self.shape.status else None
        if cell is None:
            return "", ""
        status, why = state_of(str(cell))
        if status is None:
            words = " ".join([*STATES.values(), *UNKNOWN.values()])
            raise ValueError(
                f"{row.place}: {self.shape.status}: {shown(cell)} is no known state"
                f"{nearest(str(cell).lower(), words.split())}; `--ignore {self.shape.status}` "
                "leaves the column out"
            )
        return status, why


def _number(cell: Any) -> Any:
    """A cell, where text for "not a number" is an empty one."""
    found = known(cell)
    empty = isinstance(found, str) and found.strip().lower() in ("nan", "none", "null")
    return None if empty else found


def _seconds(length: Any, start: Any, end: Any) -> float | None:
    """The duration that some cells say, None if they say none that makes sense."""
    text = str(known(length) if known(length) is not None else "").strip()
    found = number_in(text)
    if found is None and (parts := _LENGTH.fullmatch(text)):
        days, hours, minutes, seconds = (float(part or 0) for part in parts.groups())
        found = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if found is None and known(start) is not None and known(end) is not None:
        try:
            first, last = (datetime.fromisoformat(str(t)) for t in (start, end))
            found = (last - first).total_seconds()
        except (ValueError, TypeError):
            return None
    return float(found) if found is not None and 0 <= found < math.inf else None
