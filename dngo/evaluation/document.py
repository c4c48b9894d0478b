"""What an objective reported, read: any bytes whatever become exactly one status, message and values.

The document is `{"objective": 0.1, "constraints": {"name": true, "other": 341.5}, "noise": 0.01,
"metadata": {...}}` in the file `{outcome}` or as the last line of standard output, where a bare number
will do too.
"""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dngo.storage.text import storable_tree
from dngo.thresholds import Constraints

MAX_DOCUMENT = 2**24  # bytes of an outcome document
MAX_DEPTH = 64  # of what lies inside metadata; JSON readers of other programs give up at some depth
KEYS = {"objective", "constraints", "noise", "metadata"}


@dataclass(frozen=True)
class Verdict:
    """A report as an outcome has it: status ok, infeasible or invalid, with what was reported."""

    status: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)


def judge(report: bytes | None, last_line: str, constraints: Constraints) -> Verdict:
    """The verdict on a report; it raises nothing, whatever was reported.

    report: the content of `{outcome}`; None or empty, and the last line of standard output counts.
    constraints: what must be reported, no more and no less.
    """
    try:
        return _read(_parse(report, last_line), constraints)
    except (ValueError, RecursionError, OverflowError) as error:
        return Verdict("invalid", f"unreadable outcome: {error}")


def judge_file(path: Path, last_line: str, constraints: Constraints) -> Verdict:
    """`judge` on what lies at `{outcome}`, if anything does."""
    try:
        report = read_report(path)
    except (OSError, ValueError) as error:
        return Verdict("invalid", f"unreadable outcome: {error}")
    return judge(report, last_line, constraints)


def read_report(path: Path) -> bytes | None:
    """The bytes at `{outcome}`, None if there is nothing there.

    Raises ValueError for what is not a file of a sensible size: reading a pipe would wait for ever.
    """
    try:
        # A pipe that nobody writes to is opened at once this way, and refused below.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("the outcome is not a regular file")
        report = stream.read(MAX_DOCUMENT + 1)
    if len(report) > MAX_DOCUMENT:
        raise ValueError(f"the outcome document is larger than {MAX_DOCUMENT} bytes")
    return report


def adoptable(report: bytes | None, constraints: Constraints) -> Verdict | None:
    """The verdict on what a program left whose end nobody saw, or None if it may be unfinished.

    A mapping shows by its last brace that it is whole, a number by the end of its line.
    """
    text = (report or b"").replace(b"\0", b"")  # of UTF-16, in which the signs are ASCII's, too
    if not text.rstrip().endswith(b"}") and not text.endswith(b"\n"):
        return None
    verdict = judge(report, "", constraints)
    return None if verdict.status == "invalid" else verdict


def _parse(report: bytes | None, last_line: str) -> dict[str, Any]:
    if report and report.strip():
        # As `json.loads` does: UTF-8, 16 or 32, with or without a byte order mark.
        text = report.decode(json.detect_encoding(report), "surrogatepass").removeprefix("\ufeff")
    elif last_line.strip():
        text = last_line.removeprefix("\ufeff")
    else:
        raise ValueError("nothing was reported: no outcome document, no last line")
    try:
        return {"objective": float(text)}
    except ValueError:
        document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("the outcome must be a number or a mapping")
    return document


def _read(document: dict[str, Any], constraints: Constraints) -> Verdict:
    unknown = sorted(set(document) - KEYS)
    if unknown:
        raise ValueError(f"unknown keys {', '.join(unknown)[:100]}")
    flags, numbers = _reported(document.get("constraints"), constraints)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict | None):
        raise ValueError("metadata must be a mapping")
    try:
        metadata = storable_tree(metadata or {}, MAX_DEPTH)
    except ValueError as error:
        raise ValueError(f"metadata {error}") from None
    objective, noise = (_number(name, document.get(name)) for name in ("objective", "noise"))
    if not math.isnan(noise) and not 0 <= noise < math.inf:
        raise ValueError("noise must be a standard deviation")
    fields = {
        "objective": objective if math.isfinite(objective) else math.nan,
        "constraints": flags,
        "numbers": numbers,
        "noise": noise,
        "metadata": metadata,
    }
    broken = sorted(n for n, satisfied in flags.items() if not satisfied)
    if broken:
        return Verdict("infeasible", f"broke {', '.join(broken)}", fields)
    if not math.isfinite(objective):
        return Verdict("invalid", f"the objective is {document.get('objective')}", fields)
    return Verdict("ok", "", fields)


def _reported(reported: Any, constraints: Constraints) -> tuple[dict[str, int], dict[str, float]]:
    """Whether each constraint holds, and the numbers of those that have a threshold."""
    reported = {} if reported is None else reported
    if not isinstance(reported, dict) or set(reported) != set(constraints):
        given = sorted(reported) if isinstance(reported, dict) else type(reported).__name__
        raise ValueError(f"constraints must be {_wanted(constraints)}, and {given} was reported")
    flags, numbers = {}, {}
    for name, threshold in constraints.items():
        value = reported[name]
        if threshold is None:
            if value not in (True, False):
                raise ValueError(f"constraint {name} must be true or false")
            flags[name] = int(value)
        else:
            numbers[name] = _number(f"constraint {name}, which is to be {threshold},", value)
            if not math.isfinite(numbers[name]):
                raise ValueError(f"constraint {name} must be a finite number, and is {value}")
            flags[name] = int(threshold.keeps(numbers[name]))
    return flags, numbers


def _wanted(constraints: Constraints) -> str:
    kinds = (f"{n}: {'true or false' if t is None else 'a number'}" for n, t in constraints.items())
    return f"{{{', '.join(kinds)}}}"


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise ValueError(f"{name} must be a number")
    return math.nan if value is None else float(value)
