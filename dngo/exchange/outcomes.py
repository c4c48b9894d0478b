"""Rows of a table as evaluations: a proposal and its outcome."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from dngo.batch import STATUSES, Outcome, Proposal
from dngo.config import Config
from dngo.exchange.points import number
from dngo.exchange.rows import Row, known
from dngo.space.parameters import text
from dngo.storage.digest import digest_parameters
from dngo.thresholds import Constraints

SOURCE = "imported"


def evaluation_of(
    slot: int, parameters: dict[str, Any], row: Row, config: Config, file: str, objective: str
) -> tuple[Proposal, Outcome]:
    """A row as a proposal and its outcome; raises ValueError if it contradicts itself."""
    constraints, numbers = _constraints(row, config.reported)
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
        numbers=numbers,
        noise=_optional("noise", row.get("noise")),
        duration=_optional("duration", row.get("duration")),
        attempts=0,  # none of them here
        started=_time("started", row.get("started")),
        finished=_time("finished", row.get("finished")),
        message=str(row.get("message") or ""),
        metadata={"imported_from": f"{file}, {row.place}"},
    )
    return Proposal(iteration=0, slot=slot, parameters=parameters, source=SOURCE), outcome


def _constraints(row: Row, wanted: Constraints) -> tuple[dict[str, int], dict[str, float]]:
    """The flags and the numbers that a row tells; a number is judged by its threshold."""
    flags: dict[str, int] = {}
    numbers: dict[str, float] = {}
    for name, threshold in wanted.items():
        value = row.get(name, "number_") if threshold is not None else None
        if threshold is not None and value is not None:
            numbers[name] = number(name, value)
            if not math.isfinite(numbers[name]):
                raise ValueError(f"{name}: {value!r} is not a finite number")
            flags[name] = int(threshold.keeps(numbers[name]))
        elif (flag := _flag(name, row.get(name, "constraint_"))) is not None:
            flags[name] = flag
    return flags, numbers


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
    return math.nan if known(value) is None else number(name, value)


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
