"""Reads the report of an objective. Any bytes become exactly one status, one message and values.

The document is `{"objective": 0.1, "constraints": {"name": true, "other": 341.5}, "noise": 0.01,
"metadata": {...}}` in the file `{outcome}` or as the last line of standard output. There, a bare
number is enough. Several objectives are `"objectives": {"name": 0.1, "other": 3}`. The names of
objectives and constraints may also stand alone. `dngo.outcomes` judges the content, as for all
outcomes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import mmap
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dngo import outcomes
from dngo.evaluation.shortening import shortened
from dngo.evaluation.unreadable import why, why_file
from dngo.outcomes import Verdict
from dngo.storage.files import reading_regular
from dngo.storage.patience import patiently
from dngo.storage.plain import MAX_DEPTH, MOST_BYTES, TOO_DEEP
from dngo.storage.text import number_in, shown
from dngo.thresholds import Constraints

# Of brackets in a document, including its own and those of the metadata.
DEEPEST = MAX_DEPTH + 3
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]', re.S)
# Errors of reading a report that the program itself may have caused; all others are the machine's.
MADE = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)
FILE, LINE = "the file {outcome}", "the last line of standard output"


def judge(
    report: bytes | None, last_line: str, constraints: Constraints, before: Sequence[str] = ()
) -> Verdict:
    """The verdict on a report. This never raises, whatever was reported.

    report: the content of `{outcome}`; if None or empty, the last line of standard output counts.
    constraints: the names that must be reported, exactly these.
    before: lines printed before the last.
    """
    try:
        said = _parse(report, last_line, before)
        return outcomes.judge(said, constraints, outcomes.REPORTED)
    except (ValueError, RecursionError, OverflowError) as error:
        return Verdict("invalid", f"unreadable outcome: {error}")


def known_of(path: Path, constraints: Constraints, status: str) -> Verdict | None:
    """What the report at `{outcome}` says about an evaluation that failed.

    It may hold metadata, and some constraints or all. The objective of a failed run does not count.
    None if there is no readable report.
    """
    try:
        said = outcomes.gathered(_parse(read_report(path), "", ()), constraints)
        known: dict[str, Any] = {
            name: said[name] for name in ("constraints", "metadata") if name in said
        }
        known["status"] = status
        return outcomes.judge(known, constraints, outcomes.OF_FAILED)
    except (OSError, ValueError, RecursionError, OverflowError):
        return None


def judge_file(
    path: Path, last_line: str, constraints: Constraints, before: Sequence[str] = ()
) -> Verdict:
    """`judge` with the content of `{outcome}`, if it exists.

    Raises OSError if the machine or its disk does not let it be read: that says nothing of the point.
    """
    try:
        report = patiently(lambda: read_report(path), what=f"reading {path}", refusal=_of_machine)
    except OSError as error:
        if _of_machine(error):
            raise
        return Verdict("invalid", f"unreadable outcome: {FILE}: {error.strerror}")
    except ValueError as error:
        return Verdict("invalid", f"unreadable outcome: {error}")
    return judge(report, last_line, constraints, before)


def _of_machine(error: Exception) -> bool:
    """Whether the machine refuses. Otherwise the program has put something else there."""
    return isinstance(error, OSError) and error.errno not in MADE


def read_report(path: Path) -> bytes | None:
    """The bytes at `{outcome}`, None if nothing is there.

    Raises ValueError unless it is a regular file of a sensible size: reading a pipe would wait for
    ever.
    """
    with contextlib.suppress(FileNotFoundError), reading_regular(path) as stream:
        if os.fstat(stream.fileno()).st_size > MOST_BYTES:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as whole:
                return shortened(whole)
        return stream.read(MOST_BYTES)
    return None


def adoptable(report: bytes | None, constraints: Constraints) -> Verdict | None:
    """The verdict on a report, if no process saw how its program ended. None if the report may be
    unfinished.

    A mapping is whole if it has its last brace, and a number if its line has an end.
    """
    text = (report or b"").replace(b"\0", b"")  # of UTF-16; its signs are ASCII's too
    if not text.rstrip().endswith(b"}") and not text.endswith(b"\n"):
        return None
    verdict = judge(report, "", constraints)
    # Of several objectives, or beside a constraint, one is not paid for again.
    known = [verdict.fields.get("objective", math.nan), *verdict.fields.get(outcomes.SEVERAL, {})]
    return verdict if verdict.status != "invalid" or known[1:] or known[0] == known[0] else None


class _Mapping(dict[str, Any]):
    """A mapping of a document. twice: names that have two different values in it.

    As everywhere in JSON, the last of several values keeps the name. The others become "name (1)"
    and so on.
    """

    twice: tuple[str, ...] = ()

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> _Mapping:
        found = cls(pairs)
        if len(found) < len(pairs):
            # NaN differs from NaN.
            others = [(n, v) for n, v in pairs if found[n] is not v and found[n] != v]
            found.twice = tuple(n for n, _ in others)
            counts: Counter[str] = Counter()
            for name, value in others:
                counts[name] += 1
                while f"{name} ({counts[name]})" in found:
                    counts[name] += 1
                found[f"{name} ({counts[name]})"] = value
        return found


def _parse(report: bytes | None, last_line: str, before: Sequence[str]) -> dict[str, Any]:
    """The reported values, by name. Raises ValueError that shows an unreadable part."""
    place, text = LINE, last_line
    if report and report.strip():
        # As `json.loads` does: UTF-8, 16 or 32, with or without a byte order mark.
        place, encoding = FILE, json.detect_encoding(report)
        try:
            text = report.decode(encoding, "surrogatepass")
        except UnicodeDecodeError:
            raise ValueError(f"{place} begins with {shown(report)}, which is not text") from None
    elif not last_line.strip():
        raise ValueError("nothing was reported: no outcome document, no last line")
    text = text.removeprefix("\ufeff")
    if len(text) > MOST_BYTES:
        text = shortened(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    bare = number_in(text)
    if bare is not None:
        return {"objective": bare}
    document = _loaded(text)
    if not isinstance(document, _Mapping):
        found = why(text, before) if place == LINE else why_file(text)
        raise ValueError(
            f"{place} {'is' if len(text) < 60 else 'begins with'} {shown(text.strip())}, "
            f"but must be a number or a mapping{f': {found}' if found else ''}"
        )
    for part in (document, document.get("constraints"), document.get(outcomes.SEVERAL)):
        if isinstance(part, _Mapping) and part.twice:
            raise ValueError(f"{shown(part.twice[0])} is there twice, with two values")
    # JSON has no NaN: many write null for it.
    if "objective" in document and document["objective"] is None:
        document["objective"] = math.nan
    if isinstance(several := document.get(outcomes.SEVERAL), dict):
        document[outcomes.SEVERAL] = {n: math.nan if v is None else v for n, v in several.items()}
    return document


def _loaded(text: str) -> Any:
    """The value of a JSON text, None if it is not JSON.

    Values that are nested too deeply are left out.
    """
    try:
        return json.loads(text, object_pairs_hook=_Mapping.of, strict=False)
    except ValueError:
        return None
    except RecursionError:
        return _loaded(_shallow(text))


def _shallow(text: str) -> str:
    """A JSON text without the values that are nested more than `MAX_DEPTH` deep."""
    parts, depth, kept = (
        [],
        0,
        0,
    )  # kept: the end of the text that was looked at, and copied if not too deep
    for token in _BRACKETS.finditer(text):
        if token[0] in ("{", "["):
            depth += 1
            if depth == DEEPEST:
                parts.append(text[kept : token.start()])
        elif token[0] in ("}", "]"):
            if depth == DEEPEST:
                parts.append(json.dumps(TOO_DEEP))
                kept = token.end()
            depth -= 1
    return "".join(parts) + text[kept:] if depth == 0 else ""
