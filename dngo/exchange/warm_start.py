"""A warm start: evaluations that somebody made before become iteration 0 of a new study.

They take the place of the initial design. Their proposals have the source "imported"; the record of
the iteration names the file and its SHA-256 digest, and each outcome the row that it came from.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive, derive
from dngo.batch import STATUSES, Outcome, Proposal
from dngo.config import Config
from dngo.errors import UserError
from dngo.exchange.rows import Row, known
from dngo.space import Column, Space
from dngo.space.parameters import text
from dngo.storage.digest import digest_parameters
from dngo.study import Study

SOURCE = "imported"
_SHOWN = 5  # mistakes in a message
_KEPT = 20  # and in the archive's record


@dataclass(frozen=True)
class Imported:
    """What a warm start brought: outcomes by status, and the rows left out with their reasons."""

    outcomes: dict[str, int]
    skipped: dict[str, str]


def warm_start(
    study: Study,
    path: Path,
    *,
    objective: str = "objective",
    name: str | None = None,
    skip_invalid: bool = False,
) -> Imported:
    """Make the evaluations in a file iteration 0 of a study that has not begun.

    objective: the column that holds it, in a table.  name: the Optuna study, if there are several.
    skip_invalid: leave out rows that do not lie in the space instead of refusing them all.
    Raises UserError, with a line for each of the first mistakes.
    """
    config = study.config
    _check_new(study)
    form, rows = _read(path, config, name)
    _check_columns(path, rows, config, objective)
    found, skipped = _evaluations(study, path, rows, objective, skip_invalid=skip_invalid)
    record = {
        "file": path.name,
        "format": form,
        "sha256": _sha256(path),
        "rows": len(rows),
        "skipped": len(skipped),
        # An attribute of an HDF5 file has little room.
        "skipped_first": [{"row": r, "why": why} for r, why in list(skipped.items())[:_KEPT]],
    }
    batch = study.record(0, derive.DESIGN, [p for p, _ in found])
    batch = replace(batch, environment={**batch.environment, "import": record})
    outcomes = [o for _, o in found]
    study.folder.mkdir(parents=True, exist_ok=True)
    try:
        with study.run_claim.held(wait=5.0, what=f"the study in {study.folder}"):
            _check_new(study)
            archive.append(
                study.archive,
                identity=config.identity(),
                batch=batch,
                outcomes=outcomes,
                surrogate=None,
                transfer=study.transfer(),
            )
    except TimeoutError as error:
        raise UserError(f"{error}; a warm start is for a study that has not begun") from None
    return Imported(dict(Counter(o.status for o in outcomes)), skipped)


def _evaluations(
    study: Study, path: Path, rows: list[Row], objective: str, *, skip_invalid: bool
) -> tuple[list[tuple[Proposal, Outcome]], dict[str, str]]:
    """The evaluations in the rows of a file, and why a row was left out, by its place.

    Raises UserError if there are none, or if a row has a mistake and none is to be left out.
    """
    points, problems = _points(study.space, rows)
    found: list[tuple[Proposal, Outcome]] = []
    for i, row in enumerate(rows):
        if i in problems:
            continue
        try:
            # Only what is kept is numbered: slots have no gaps.
            found.append(
                _evaluation(len(found), points[i], row, study.config, path.name, objective)
            )
        except ValueError as error:
            problems[i] = str(error)
    skipped = {rows[i].place: problems[i] for i in sorted(problems)}
    if skipped and not skip_invalid:
        lines = [f"{path}: {place}: {why}" for place, why in list(skipped.items())[:_SHOWN]]
        lines[-1] += f"; {len(skipped)} such rows in all, --skip-invalid leaves them out"
        raise UserError("\n".join(lines))
    if not found:
        raise UserError(f"{path}: has no evaluation to start from")
    return found, skipped


def _check_new(study: Study) -> None:
    if study.archive.exists():
        raise UserError(
            f"{study.archive}: is there already, and a warm start begins a study; "
            "give the study another name"
        )
    for folder in (study.pending(0), study.iteration(0)):
        if (folder / "proposals.json").exists():
            raise UserError(
                f"{folder}: the study has begun with a design; give the study another name"
            )


def _read(path: Path, config: Config, name: str | None) -> tuple[str, list[Row]]:
    """The format of a file, told by how it begins, and its rows."""
    try:
        with path.open("rb") as stream:
            start = stream.read(64)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if start.startswith(b"PAR1"):
        from dngo.exchange import parquet

        return "parquet", parquet.read(path)
    if start.startswith((b"SQLite format 3\0", b'{"op_code"')):
        from dngo.exchange import optuna

        direction, constraints = config.objective.direction, config.constraints
        return "optuna", optuna.read(path, name=name, direction=direction, constraints=constraints)
    from dngo.exchange import csv_table

    return "csv", csv_table.read(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_columns(path: Path, rows: list[Row], config: Config, objective: str) -> None:
    there = {name for row in rows for name in row.values}
    if rows and objective not in there:
        names = ", ".join(sorted(there))[:300]
        raise UserError(
            f"{path}: has no column {objective!r}; name the objective's with --objective, of {names}"
        )
    needed = [c.name for c in config.search_space.columns if not c.conditions]
    missing = [n for n in needed if not {n, f"parameter_{n}"} & there]
    if rows and missing:
        raise UserError(
            f"{path}: has no column for the parameters {', '.join(missing)}; every parameter needs "
            "one, called as in the configuration"
        )


# ---- points -------------------------------------------------------------------------------------


def _points(space: Space, rows: list[Row]) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The parameters of each row, and what is wrong with the rows that do not lie in the space."""
    v = np.full((len(rows), space.k), np.nan)
    problems: dict[int, str] = {}
    for i, row in enumerate(rows):
        try:
            v[i] = [_natural(c, row.get(c.name, "parameter_")) for c in space.columns]
            for name, value in space.fixed.items():
                _check_fixed(name, value, row.get(name, "parameter_"))
        except ValueError as error:
            problems[i] = str(error)
    active = space.active(v)
    v[~active] = np.nan  # a parameter that does not exist at a point has no value there
    near = space.on_grid(v)
    for i, j in np.argwhere(active & ~np.isclose(near, v, rtol=1e-9, atol=1e-300)):
        column = space.columns[j]
        if np.isnan(v[i, j]):
            problems.setdefault(int(i), f"{column.name} has no value")
        else:
            problems.setdefault(
                int(i),
                f"{column.name}: {v[i, j]:.12g} is not on the grid; next to it is {near[i, j]:.12g}",
            )
    return space.to_parameters(near), problems


def _natural(column: Column, value: Any) -> float:
    """A cell as it stands in `v`, NaN if it is empty; raises ValueError outside the space."""
    if value is None:
        return math.nan
    if column.choices is not None:
        for i, choice in enumerate(column.choices):
            if _same(choice, value):
                return float(i)
        raise ValueError(f"{column.name}: {value!r} is not one of {list(column.choices)}")
    number = _number(column.name, value)
    if not column.low <= number <= column.high:
        raise ValueError(f"{column.name}: {value} is outside {column.low:g} to {column.high:g}")
    return number


def _same(choice: Any, value: Any) -> bool:
    """Whether a cell means a choice, in a table where all may have become text."""
    if isinstance(choice, bool) or isinstance(value, bool):
        return text(choice).lower() == text(value).lower()
    if isinstance(choice, str):
        return choice == value
    try:
        return choice == float(value)
    except (TypeError, ValueError):
        return False


def _check_fixed(name: str, fixed: Any, value: Any) -> None:
    if value is not None and not _same(fixed, value):
        raise ValueError(f"{name}: is fixed at {fixed!r}, and is {value!r} here")


def _number(name: str, value: Any) -> float:
    try:
        if not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name}: {value!r} is not a number")


# ---- outcomes -----------------------------------------------------------------------------------


def _evaluation(
    slot: int, parameters: dict[str, Any], row: Row, config: Config, file: str, objective: str
) -> tuple[Proposal, Outcome]:
    """A row as a proposal and its outcome; raises ValueError if it contradicts itself."""
    flags = {n: _flag(n, row.get(n, "constraint_")) for n in config.constraints}
    constraints = {n: f for n, f in flags.items() if f is not None}
    broken = [n for n, f in constraints.items() if not f]
    value = _optional(objective, row.values.get(objective))
    status = row.get("status")
    if status is None:
        status = "infeasible" if broken else "ok" if math.isfinite(value) else "invalid"
    if status not in STATUSES:
        raise ValueError(f"status: {status!r} is not one of {', '.join(STATUSES)}")
    if status == "ok" and broken:
        raise ValueError(f"its status is ok, and the constraint {broken[0]} is violated")
    if status == "ok" and not math.isfinite(value):
        raise ValueError(f"its status is ok, and {objective} is not a number")
    outcome = Outcome(
        iteration=0,
        slot=slot,
        parameters_digest=digest_parameters(parameters),
        status=status,
        objective=value if status in ("ok", "infeasible") else math.nan,
        constraints=constraints,
        noise=_optional("noise", row.get("noise")),
        duration=_optional("duration", row.get("duration")),
        attempts=0,  # none of them here
        started=_time("started", row.get("started")),
        finished=_time("finished", row.get("finished")),
        message=str(row.get("message") or ""),
        metadata={"imported_from": f"{file}, {row.place}"},
    )
    return Proposal(iteration=0, slot=slot, parameters=parameters, source=SOURCE), outcome


def _flag(name: str, value: Any) -> int | None:
    """1 satisfied, 0 violated, None unknown."""
    if value is None:
        return None
    word = text(value).lower()
    if word in ("true", "1", "1.0"):
        return 1
    if word in ("false", "0", "0.0"):
        return 0
    raise ValueError(f"{name}: {value!r} is neither true nor false")


def _optional(name: str, value: Any) -> float:
    return math.nan if known(value) is None else _number(name, value)


def _time(name: str, value: Any) -> float:
    """Seconds since 1970 of a number, a time or a time as ISO text; without a zone it is UTC."""
    try:
        return _optional(name, value) if not isinstance(value, datetime) else _seconds(value)
    except ValueError:
        try:
            return _seconds(datetime.fromisoformat(str(value)))
        except ValueError:
            raise ValueError(f"{name}: {value!r} is not a time") from None


def _seconds(time: datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
