"""Judges reported outcomes, with one function for all sources.

Reports of objectives, `dngo tell`, `Session.tell` and rows of imported files all come here, as a
mapping of the names in `NAMES` to values. A report that contradicts itself, lacks a value or has an
unknown name is refused with one line. The caller adds the place of the mistake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from dngo.batch import INVALID, RAN, STATUSES
from dngo.config.messages import nearest
from dngo.redaction import each_text, redacted
from dngo.storage.plain import fitting, plain, scalar
from dngo.storage.text import one_line, shown
from dngo.thresholds import Constraints, Threshold, objectives_of, positive_of

REPORTED = ("objective", "constraints", "noise", "metadata")  # the names that an objective reports
OF_FAILED = (*REPORTED, "status")  # and what is said of a report whose program failed
SEVERAL = "objectives"  # instead of the first, if there are several
NAMES = (*REPORTED, "duration", "started", "finished", "status", "message")
# Prefixes of an objective's name in the columns of a table, for its value, noise, prediction at the
# pick, weight in the pick, and last value of its progress.
OF_OBJECTIVES = ("objective", "noise", "mean", "std", "aim", "last_value")
MAX_MESSAGE = 500
EARLIEST, LATEST = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1980, 2100))


@dataclass(frozen=True)
class Verdict:
    """A judged outcome: its status, why it is not ok, and fields of `dngo.batch.Outcome`."""

    status: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)


def judge(
    said: Mapping[str, Any], constraints: Constraints, names: Sequence[str] = NAMES
) -> Verdict:
    """A reported outcome as its status, message and fields; raises ValueError, with one line.

    said: any values by name; None means not given.
    constraints: the names that must be given with an objective, exactly these. names: the allowed.

    Each objective, each constraint and each entry of the metadata counts by itself. NaN is unknown.
    An infinite objective is unknown; an infinite number of a constraint breaks its bound or keeps
    it. What is missing makes the outcome `invalid`, and the rest is kept.

    What people enter they can enter again: there, a part that cannot be meant raises ValueError. In
    the report of an objective it is unknown, and the message names it.

    Several objectives (`dngo.thresholds.Reported`) are a mapping `objectives`, and their noise is a
    mapping too. One of several objectives, or a constraint, may also be given by its name alone.
    """
    several = objectives_of(constraints)
    parts = _Parts(strict="message" in names)
    said = gathered(said, constraints)
    said = _check_names(said, constraints, names, parts)
    values, below = _above_zero(_values(said, several, parts), constraints)
    status = _status(said.get("status"))
    given = scalar(said.get("constraints"))
    if given is not None and not isinstance(given, Mapping):
        wrong = f"constraints must be {_wanted(constraints)}, but are {shown(given)}"
        given = parts.wrong(wrong, {})
    known = {name: value for name, value in values.items() if math.isfinite(value)}
    stated = any(not _is_unknown(value) for value in (given or {}).values())
    if status is None and not values and not stated and not parts.faults:
        why = ", and no status such as failed that says why" if parts.strict else ""
        raise ValueError(f"there is no objective{why}{_right(several)}")
    if status not in (None, *RAN, INVALID) and known:
        raise ValueError(_contradicts(status))
    each = status in RAN or (status is None and bool(known or (stated and parts.strict)))
    flags, numbers = _constraints(given or {}, constraints, parts, each)
    # A constraint that the study does not know may be one that it should know.
    unknown = [str(n) for n in {**constraints, **(given or {})} if str(n) not in flags]
    held, (status, message) = status, _ended(status, values, flags, numbers, unknown, parts)
    if status == INVALID and below:
        message = below
    # A message belongs to the status with which it was given.
    if said.get("message") is not None and held in (None, status):
        message = one_line(redacted(str(plain(said["message"]))), MAX_MESSAGE)
    times = _times(said)
    noise = parts.take(lambda: _noise(said.get("noise"), several), {"noise": math.nan})
    message = parts.added(status, message)
    known = known if status in (*RAN, INVALID) else {}
    fields = {
        # A single objective is here even if it has a name, so that readers without names find it.
        "objective": next(iter(known.values()), math.nan) if len(several) < 2 else math.nan,
        **({"objectives": known} if several else {}),
        "constraints": flags,
        "numbers": numbers,
        **noise,
        "metadata": each_text(_metadata(said.get("metadata")), redacted),
        **times,
    }
    return Verdict(status, message, fields)


class _Parts:
    """The parts of an outcome that cannot be meant, as they are found.

    strict: whether the first one raises ValueError. Otherwise it is unknown, and `faults` names it.
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.faults: list[str] = []

    def added(self, status: str, message: str) -> str:
        """The message of an outcome, with the faults."""
        if not self.faults:
            return message
        said = [message, "left out: "] if status != INVALID else ["unreadable outcome: "]
        return one_line("; ".join(filter(None, said)) + "; ".join(self.faults), MAX_MESSAGE)

    def take(self, read: Callable[[], Any], unknown: Any) -> Any:
        """What `read` returns, or `unknown` if it raises ValueError."""
        try:
            return read()
        except ValueError as error:
            return self.wrong(str(error), unknown)

    def wrong(self, fault: str, unknown: Any) -> Any:
        """`unknown`, with its fault."""
        if self.strict:
            raise ValueError(fault)
        self.faults.append(fault)
        return unknown


def gathered(said: Mapping[str, Any], constraints: Constraints) -> dict[str, Any]:
    """The report, with names outside of `objectives` and `constraints` moved inside.

    {"error": 4.1, "speed": 8200, "small": true} means the same as the report with these two. Raises
    ValueError if a name is in both places.
    """
    found = dict(said)
    for section, names in ((SEVERAL, objectives_of(constraints)), ("constraints", constraints)):
        bare = [name for name in names if name in found and name not in (*NAMES, SEVERAL)]
        within = scalar(found.get(section))
        if not bare or not (within is None or isinstance(within, Mapping)):
            continue
        within = dict(within or {})
        if twice := next((name for name in bare if name in within), None):
            raise ValueError(f"{shown(twice)} is given twice, inside `{section}` and outside")
        found[section] = within | {name: found.pop(name) for name in bare}
    return found


def _values(said: Mapping[str, Any], several: Sequence[str], parts: _Parts) -> dict[str, float]:
    """The objective by name, or each of several, NaN if unknown; empty if none is given."""
    if not several:
        value = said.get("objective")
        if value is None:
            return {}
        return {"objective": parts.take(lambda: number("objective", value), math.nan)}
    if (bare := said.get("objective")) is not None:
        wrong = f"there are several objectives, but {shown(bare)} has no names{_right(several)}"
        return parts.wrong(wrong, dict.fromkeys(several, math.nan))
    given = scalar(said.get(SEVERAL))
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        wrong = f"objectives are {shown(given)}{_right(several)}"
        return parts.wrong(wrong, dict.fromkeys(several, math.nan))
    given = {str(name): value for name, value in given.items()}
    faults = [
        *(f"{name} is missing" for name in several if given.get(name) is None),
        *(
            f"{shown(name)} is unknown{nearest(name, several)}"
            for name in given
            if name not in several
        ),
    ]
    if faults:
        parts.wrong(f"of the objectives {', '.join(faults)[:300]}{_right(several)}", None)
    values = {name: math.nan if given.get(name) is None else given[name] for name in several}
    return {
        name: parts.take(partial(number, f"objective {name}", value), math.nan)
        for name, value in values.items()
    }


def _above_zero(values: dict[str, float], constraints: Constraints) -> tuple[dict[str, float], str]:
    """Values without those that a logarithmic scale cannot have; a message about these, or ""."""
    found, said = dict(values), ""
    for name in positive_of(constraints):
        if -math.inf < (value := values.get(name, math.nan)) <= 0:
            key = name if name == "objective" else f"{SEVERAL}.{name}"
            said = f"{key} is {value:.6g}, but {key}.scale is log: it must be above 0"
            found[name] = math.nan
    return found, said


def _right(several: Sequence[str]) -> str:
    """How to report several objectives; empty if there is only one."""
    if not several:
        return ""
    return f'; report {{"{SEVERAL}": {{{", ".join(f"{name!s}: a number" for name in several)}}}}}'


def _noise(value: Any, several: Sequence[str]) -> dict[str, Any]:
    """Fields of the reported noise, for one objective or for some of several."""
    what = "a standard deviation"
    if len(several) < 2 and not isinstance(scalar(value), Mapping):
        found = amount("noise", value, what)
        return {"noise": found}
    given = {} if value is None else scalar(value)
    if not several or not isinstance(given, Mapping):
        kind = (
            f"a mapping of objectives to numbers, {{{several[0]}: 0.1}}" if several else "a number"
        )
        raise ValueError(f"noise must be {kind}, but is {shown(value)}")
    for name in given:
        if name not in several:
            raise ValueError(
                f"noise: {shown(name)} is not an objective{nearest(str(name), several)}"
            )
    noises = {n: amount(f"noise of {n}", given.get(n), what) for n in several}
    noises = {n: found for n, found in noises.items() if not math.isnan(found)}
    if len(several) < 2:
        return {"noise": noises.get(several[0], math.nan)}
    return {"noise": math.nan, "noises": noises}


def number(name: str, value: Any) -> float:
    """A value of any library as a number, which may be NaN or infinity; raises ValueError."""
    found = scalar(value)
    if isinstance(found, bool | str | bytes | bytearray):
        kind = "true or false" if isinstance(found, bool) else "text"
        raise ValueError(f"{name} must be a number, but is {kind}: {shown(found)}")
    try:
        return float(found)
    except OverflowError:
        raise ValueError(
            f"{name} must be a number that a computer can hold, but is larger"
        ) from None
    except Exception:  # classes of other packages may raise anything
        raise ValueError(f"{name} must be a number, but is {_kind(found)}") from None


def _times(said: Mapping[str, Any]) -> dict[str, float]:
    """The given ones of started, finished and duration; raises ValueError.

    A clock may have been set back between the start and the end, as in autumn. Then it is unknown
    when and how long the evaluation ran.
    """
    times = {n: time(n, said[n]) for n in ("started", "finished") if said.get(n) is not None}
    if times.get("finished", math.inf) < times.get("started", -math.inf):
        times = {}
    if said.get("duration") is not None:
        length = scalar(said["duration"])
        length = length.total_seconds() if isinstance(length, timedelta) else length
        times["duration"] = amount("duration", length, "a number of seconds")
    return times


def amount(name: str, value: Any, what: str) -> float:
    """A number of zero or more, NaN if unknown; raises ValueError."""
    found = math.nan if value is None else number(name, value)
    if not math.isnan(found) and not 0 <= found < math.inf:
        raise ValueError(f"{name}: {found:g} is not {what}; it must be finite and at least 0")
    return found


def time(name: str, value: Any) -> float:
    """A time as seconds since 1970, NaN if unknown; raises ValueError.

    value: these seconds, or a time, also as ISO text. A time without a zone is UTC.
    """
    found = scalar(value)
    if isinstance(found, str):
        try:
            found = datetime.fromisoformat(found)
        except ValueError:
            raise ValueError(f"{name}: {shown(value)} is not a time") from None
    if isinstance(found, date) and not isinstance(found, datetime):
        found = datetime(found.year, found.month, found.day)
    if isinstance(found, datetime):
        # pandas' NaT is a datetime too.
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    seconds = number(name, found)
    if not math.isnan(seconds) and not EARLIEST <= seconds < LATEST:
        raise ValueError(
            f"{name}: {seconds:.15g} is not a time between 1980 and 2100, in seconds since 1970"
        )
    return seconds


def is_time(seconds: float) -> bool:
    """Whether a number from an archive (even an old one) is a time that calendars know."""
    return 0 <= seconds < LATEST


def with_origin(metadata: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Metadata with their origin under our name. Metadata with the same name move to `earlier`."""
    found = dict(metadata)
    if name in found:
        found["earlier"] = {n: found[n] for n in (name, "earlier") if n in found}
    return {**found, name: value}


def clashes(
    space: Iterable[str], constraints: Iterable[str], objectives: Iterable[str] = ()
) -> list[str]:
    """A line for each name of a study that would make a column ambiguous.

    Studies from a time when this was allowed go on. There, a name without a prefix means the
    parameter.
    """
    space, constraints, several = list(space), list(constraints), list(objectives)
    columns = [f"parameter_{n}" for n in space]
    columns += [f"{prefix}_{n}" for n in constraints for prefix in ("constraint", "number")]
    columns += [f"{prefix}_{n}" for n in several for prefix in OF_OBJECTIVES]
    own = (*NAMES, "id", *((SEVERAL,) if several else ()))
    lines = []
    for section, names in (("space", space), ("constraints", constraints), (SEVERAL, several)):
        for name in names:
            if name in own:
                lines.append(f"{section}.{name}: is the name of a value in an outcome; rename it")
            elif name in columns:
                lines.append(f"{section}.{name}: is the name of another one's column; rename it")
            elif section != "space" and name in space:
                lines.append(f"{section}.{name}: is also the name of a parameter; rename it")
            elif section == SEVERAL and name in constraints:
                lines.append(f"{section}.{name}: is also the name of a constraint; rename it")
    return lines


def _check_names(
    said: Mapping[str, Any], constraints: Constraints, names: Sequence[str], parts: _Parts
) -> Mapping[str, Any]:
    """What was said. In a report, values of unknown names stand among the metadata."""
    several = objectives_of(constraints)
    names = [*names, SEVERAL] if several else names
    unknown = [str(name) for name in said if name not in names]
    if not unknown:
        return said
    hint = ""
    if unknown[0] == SEVERAL:
        hint = '; the study has one: report {"objective": a number}'
    if unknown[0] in constraints:
        hint = "; it is a constraint, and belongs inside `constraints`"
    elif unknown[0] in NAMES:
        hint = f"; an objective reports only {', '.join(names)}"
    other = f"; known: {', '.join(names)}; any other value belongs inside `metadata`"
    hint = hint or nearest(unknown[0], [*names, *several, *constraints]) or other
    wrong = f"unknown name {shown(unknown[0])}{hint}"
    # A report that states its own status may have a penalty as its objective.
    if unknown[0] in (*NAMES, SEVERAL):
        raise ValueError(wrong)
    parts.wrong(wrong, None)
    metadata = _metadata(said.get("metadata"))
    others = {n: v for n, v in said.items() if n not in names and n not in metadata}
    return {n: v for n, v in said.items() if n in names} | {"metadata": {**metadata, **others}}


def _status(value: Any) -> str | None:
    found = plain(value)
    if found is not None and found not in STATUSES:
        raise ValueError(
            f"status: {shown(found)} is not one of {', '.join(STATUSES)}{nearest(str(found), STATUSES)}"
        )
    return found


def _constraints(
    given: Mapping[str, Any], constraints: Constraints, parts: _Parts, each: bool
) -> tuple[dict[str, int], dict[str, float]]:
    """Whether each known constraint holds, and the numbers of constraints with a threshold.

    each: whether all must be named, as known or as unknown.
    """
    given = {str(n): scalar(value) for n, value in given.items()}
    missing = [name for name in constraints if name not in given] if each else []
    unknown = [name for name in given if name not in constraints]
    if missing or unknown:
        faults = [
            *(f"{name} is missing" for name in missing),
            *(f"{shown(name)} is unknown{nearest(name, constraints)}" for name in unknown),
        ]
        wrong = f"constraints must be {_wanted(constraints)}: {', '.join(faults)[:300]}"
        parts.wrong(wrong, None)
    flags, numbers = {}, {}
    for name, threshold in constraints.items():
        found = parts.take(partial(constraint_value, name, given.get(name), threshold), None)
        if found is None or math.isnan(found):
            continue
        if threshold is not None:
            numbers[name] = found
        flags[name] = int(found if threshold is None else threshold.keeps(found))
    return flags, numbers


def constraint_value(name: str, value: Any, threshold: Threshold | None) -> Any:
    """A flag, a number that may be infinite, or None or NaN if it is unknown; raises ValueError."""
    if _is_unknown(value):
        return None
    if threshold is not None:
        return number(f"constraint {name}, which must be {threshold},", value)
    if not isinstance(value, bool | int | float) or value not in (0, 1):
        raise ValueError(f"constraint {name} must be true or false, but is {shown(value)}")
    return value


def _is_unknown(value: Any) -> bool:
    found = scalar(value)
    return found is None or (isinstance(found, float) and math.isnan(found))


def _wanted(constraints: Constraints) -> str:
    kinds = (f"{n}: {'true or false' if t is None else 'a number'}" for n, t in constraints.items())
    return f"{{{', '.join(kinds)}}}"


def _ended(
    status: str | None,
    values: Mapping[str, float],
    flags: Mapping[str, int],
    numbers: Mapping[str, float],
    unknown: Sequence[str],
    parts: _Parts,
) -> tuple[str, str]:
    """The status that follows from the values, and why it is not ok; raises ValueError if another
    status was given. unknown: constraints.
    """
    known = any(map(math.isfinite, values.values()))
    if status not in (None, *RAN, INVALID) or (status == INVALID and not known):
        return str(status), ""
    broken = sorted(name for name, holds in flags.items() if not holds)
    complete = bool(values) and all(map(math.isfinite, values.values()))
    # Without its objectives a report must have all constraints: it may have been cut short.
    if broken and (complete or parts.strict or not unknown):
        found = "infeasible", f"broke {', '.join(broken)}"
    elif not values and parts.strict:
        raise ValueError("there is no objective, but every constraint holds")
    elif not complete or unknown:
        found = INVALID, _lacks(values, unknown)
    else:
        found = "ok", ""
    if status in (None, found[0]):
        return found
    if status == INVALID:
        raise ValueError(_contradicts(status))
    # Judge a number by the current bound, whatever the bound was before.
    if status == "ok" and any(name not in numbers for name in broken):
        raise ValueError(f"its status is ok, but the constraint {broken[0]} is violated")
    if status == "ok" and not broken and not known:
        raise ValueError("its status is ok, but the objective is not a number")
    if status == "infeasible" and not values:
        raise ValueError("its status is infeasible, but no constraint is violated")
    return found


def _contradicts(status: str) -> str:
    return f"its status is {status}, but it has an objective; leave one of them out"


def _lacks(values: Mapping[str, float], unknown: Sequence[str]) -> str:
    """Why an outcome is invalid: what is missing or is not a number."""
    wrong = [
        f"the objective {'' if name == 'objective' else f'{name} '}is {value}"
        for name, value in values.items()
        if not math.isfinite(value)
    ]
    wrong += [] if values else ["there is no objective"]
    if not wrong and unknown:
        names = ", ".join(unknown)
        wrong.append(f"the constraint{'s' * (len(unknown) > 1)} {names} cannot be judged")
    return ", ".join(wrong)


def _metadata(value: Any) -> dict[str, Any]:
    """The metadata. No outcome is refused because of them, and small ones are kept beside large ones."""
    found = plain(value)
    return fitting(
        found if isinstance(found, dict) else {} if found is None else {"metadata": found}
    )


def _kind(value: Any) -> str:
    """Words for a value that is not a number."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return f"a mapping: {shown(value)}"
    if isinstance(value, list | tuple | set):
        return f'a list: {shown(value)}; report one number, or {{"objective": 0.1, "noise": 0.01}}'
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"an array of {math.prod(shape)} values"
    return f"{type(value).__name__}: {shown(value)}"
