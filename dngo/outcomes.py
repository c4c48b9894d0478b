"""Judges reported outcomes, with one function for all sources.

Reports of objectives, `dngo tell`, `Session.tell` and rows of imported files all come here, as a
mapping of the names in `NAMES` to values. A report that contradicts itself, lacks a value or has an
unknown name is refused with one line. The caller adds the place of the mistake.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dngo.batch import RAN, STATUSES
from dngo.config.messages import nearest
from dngo.redaction import each_text, redacted
from dngo.storage.plain import plain, scalar
from dngo.storage.text import one_line, shown
from dngo.thresholds import Constraints, is_positive, objectives_of

REPORTED = ("objective", "constraints", "noise", "metadata")  # the names that an objective reports
SEVERAL = "objectives"  # instead of the first, if there are several
NAMES = (*REPORTED, "duration", "started", "finished", "status", "message")
# Prefixes of an objective's name in the columns of a table, for its value, noise, prediction at the
# pick, and weight in the pick.
OF_OBJECTIVES = ("objective", "noise", "mean", "std", "aim")
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

    said: any values by name; None means not given. An objective of NaN or infinity counts as given;
    its status is `invalid`.
    constraints: the names that must be given with an objective, exactly these.
    names: the allowed names.

    Several objectives (`dngo.thresholds.Reported`) are a mapping `objectives`, and their noise is a
    mapping too. One of several objectives, or a constraint, may also be given by its name alone.
    """
    several = objectives_of(constraints)
    said = gathered(said, constraints)
    _check_names(said, constraints, names)
    values, below = _above_zero(_values(said, several), constraints)
    status = _status(said.get("status"))
    given = scalar(said.get("constraints"))
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"constraints must be {_wanted(constraints)}, but are {shown(given)}")
    finite = bool(values) and all(map(math.isfinite, values.values()))
    if status is None and not values and not given:
        why = ", and no status such as failed that says why" if "status" in names else ""
        raise ValueError(f"there is no objective{why}{_right(several)}")
    if status is not None and status not in RAN and finite:
        raise ValueError(f"its status is {status}, but it has an objective; leave one of them out")
    # A point without an objective may lack its constraints. The status says why it has no
    # objective.
    asked = "status" in names
    all_of_them = status in RAN or (status is None and (finite or (asked and bool(given))))
    flags, numbers = _constraints(given or {}, constraints, all_of_them)
    if not asked and not finite and (len(flags) < len(constraints) or all(flags.values())):
        status = "invalid"
    held, (status, message) = status, _ended(status, values, flags, numbers)
    if status == "invalid" and (below or not (message or asked)):
        message = below or _not_finite(values)
    # A message belongs to the status with which it was given.
    if said.get("message") is not None and held in (None, status):
        message = one_line(redacted(str(plain(said["message"]))), MAX_MESSAGE)
    times = {n: time(n, said[n]) for n in ("started", "finished") if said.get(n) is not None}
    if times.get("finished", math.inf) < times.get("started", -math.inf):
        raise ValueError("finished is before started; are they swapped?")
    if said.get("duration") is not None:
        length = scalar(said["duration"])
        length = length.total_seconds() if isinstance(length, timedelta) else length
        times["duration"] = amount("duration", length, "a number of seconds")
    counts = finite and status in RAN
    fields = {
        # A single objective is here even if it has a name, so that readers without names find it.
        "objective": next(iter(values.values())) if counts and len(several) < 2 else math.nan,
        **({"objectives": values if counts else {}} if several else {}),
        "constraints": flags,
        "numbers": numbers,
        **_noise(said.get("noise"), several),
        "metadata": each_text(_metadata(said.get("metadata")), redacted),
        **times,
    }
    return Verdict(status, message, fields)


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


def _values(said: Mapping[str, Any], several: Sequence[str]) -> dict[str, float]:
    """The objective by name, or each of several; empty if none is given."""
    if not several:
        value = said.get("objective")
        return {} if value is None else {"objective": number("objective", value)}
    if said.get("objective") is not None:
        raise ValueError(f"there are several objectives, but only one number{_right(several)}")
    given = scalar(said.get(SEVERAL))
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"objectives are {shown(given)}{_right(several)}")
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
        raise ValueError(f"of the objectives {', '.join(faults)[:300]}{_right(several)}")
    return {name: number(f"objective {name}", given[name]) for name in several}


def _above_zero(values: dict[str, float], constraints: Constraints) -> tuple[dict[str, float], str]:
    """Values without those that a logarithmic scale cannot have, and a message about these; "" if
    there are none.
    """
    for value in values.values() if is_positive(constraints) else ():
        if -math.inf < value <= 0:
            said = f"the objective is {value:.6g}, but objective.scale is log: it must be above 0"
            return dict.fromkeys(values, math.nan), said
    return values, ""


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


def _check_names(said: Mapping[str, Any], constraints: Constraints, names: Sequence[str]) -> None:
    several = objectives_of(constraints)
    names = [*names, SEVERAL] if several else names
    unknown = [str(name) for name in said if name not in names]
    if unknown:
        hint = ""
        if unknown[0] == SEVERAL:
            hint = '; the study has one: report {"objective": a number}'
        if unknown[0] in constraints:
            hint = "; it is a constraint, and belongs inside `constraints`"
        elif unknown[0] in NAMES:
            hint = f"; an objective reports only {', '.join(names)}"
        other = f"; known: {', '.join(names)}; any other value belongs inside `metadata`"
        hint = hint or nearest(unknown[0], [*names, *several, *constraints]) or other
        raise ValueError(f"unknown name {shown(unknown[0])}{hint}")


def _status(value: Any) -> str | None:
    found = plain(value)
    if found is not None and found not in STATUSES:
        raise ValueError(
            f"status: {shown(found)} is not one of {', '.join(STATUSES)}{nearest(str(found), STATUSES)}"
        )
    return found


def _constraints(
    given: Mapping[str, Any], constraints: Constraints, all_of_them: bool
) -> tuple[dict[str, int], dict[str, float]]:
    """Whether each constraint holds, and the numbers of constraints with a threshold."""
    given = {str(n): value for n, value in given.items() if all_of_them or value is not None}
    unknown = [name for name in given if name not in constraints]
    missing = [name for name in constraints if name not in given] if all_of_them else []
    if unknown or missing:
        faults = [
            *(f"{name} is missing" for name in missing),
            *(f"{shown(name)} is unknown{nearest(name, constraints)}" for name in unknown),
        ]
        raise ValueError(f"constraints must be {_wanted(constraints)}: {', '.join(faults)[:300]}")
    flags, values = {}, {}
    for name, value in given.items():
        threshold = constraints[name]
        found = scalar(value)
        if threshold is None:
            if not isinstance(found, bool | int | float) or found not in (0, 1):
                raise ValueError(f"constraint {name} must be true or false, but is {shown(found)}")
            flags[name] = int(found)
            continue
        what = f"constraint {name}, which must be {threshold},"
        values[name] = math.nan if found is None else number(what, found)
        if not math.isfinite(values[name]):
            raise ValueError(f"constraint {name} must be a finite number, but is {shown(found)}")
        flags[name] = int(threshold.keeps(values[name]))
    order = [name for name in constraints if name in flags]
    return {n: flags[n] for n in order}, {n: values[n] for n in order if n in values}


def _wanted(constraints: Constraints) -> str:
    kinds = (f"{n}: {'true or false' if t is None else 'a number'}" for n, t in constraints.items())
    return f"{{{', '.join(kinds)}}}"


def _ended(
    status: str | None,
    objectives: Mapping[str, float],
    flags: Mapping[str, int],
    values: Mapping[str, float],
) -> tuple[str, str]:
    """The status that follows from the values, and why it is not ok; raises ValueError if another
    status was given.
    """
    if status not in (None, *RAN):
        return str(status), ""
    broken = sorted(name for name, holds in flags.items() if not holds)
    none = not all(map(math.isfinite, objectives.values()))
    if broken:
        found = "infeasible", f"broke {', '.join(broken)}"
    elif none:
        found = "invalid", _not_finite(objectives)
    elif objectives:
        found = "ok", ""
    else:
        raise ValueError("there is no objective, but every constraint holds")
    if status in (None, found[0]):
        return found
    # Judge a number by the current bound, whatever the bound was before.
    if status == "ok" and any(name not in values for name in broken):
        raise ValueError(f"its status is ok, but the constraint {broken[0]} is violated")
    if status == "ok" and not broken:
        raise ValueError("its status is ok, but the objective is not a number")
    if status == "infeasible" and not values:
        raise ValueError("its status is infeasible, but no constraint is violated")
    return found


def _not_finite(objectives: Mapping[str, float]) -> str:
    """The message for objectives that are missing or are not numbers."""
    wrong = (
        f"the objective {'' if name == 'objective' else f'{name} '}is {value}"
        for name, value in objectives.items()
        if not math.isfinite(value)
    )
    return ", ".join(wrong) or "there is no objective"


def _metadata(value: Any) -> dict[str, Any]:
    """The metadata. No outcome is refused because of them."""
    found = plain(value)
    return found if isinstance(found, dict) else {} if found is None else {"metadata": found}


def _kind(value: Any) -> str:
    """Words for a value that is not a number."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return f"a mapping: {shown(value)}"
    if isinstance(value, list | tuple | set):
        return f"a list: {shown(value)}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"an array of {math.prod(shape)} values"
    return f"{type(value).__name__}: {shown(value)}"
