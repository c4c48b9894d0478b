"""The progress of a running objective: lines of JSON in its file `{progress}`, read as they come.

A line is `{"step": 12, "objective": 0.31}`, or of several objectives
`{"step": 12, "objectives": {"error": 0.31, "size": 5}}`. It may have `constraints`, as in a report.
Other names are ignored. A program may print `{"progress": {...}}`, and a function may call `dngo.progress`.
Both become lines of the same file, so one reader judges them all. Steps and thinning are as in
`dngo.stopping.curves`. A bad line is left out, and one message says so. It never makes an
evaluation fail.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dngo import outcomes
from dngo.batch import STOPPED
from dngo.stopping.curves import Curve, Reports
from dngo.storage.files import reading_regular
from dngo.storage.text import shown
from dngo.thresholds import Constraints, objectives_of

MOST_BYTES = 2**18  # bytes read at a time; of more, only the last ones
LONGEST = 2**16  # bytes of a line
TAIL = 2**12  # bytes at the end of a file that are searched for its last line
SIGN = b'"progress"'
PLAIN = re.compile(rb'\{"progress": ?(\{[^{}]*\})\}')  # a printed line without constraints
UNREADABLE = "of its progress could not be read"
NOT_RISING = (
    "reports of its progress did not go on to a later step; the reports are counted instead"
)


@dataclass(frozen=True)
class Line:
    """What one line says.

    values: of each objective, in the order of their names, NaN where one is no number.
    fields: `constraints` and `numbers` of `dngo.batch.Outcome`.
    """

    step: float
    values: tuple[float, ...]
    fields: dict[str, Any]


def judged(text: str, constraints: Constraints, *, heeds: bool = True) -> Line:
    """The content of a line. Raises ValueError, with a message of one line, if the line does not count.

    constraints: the study's. heeds: whether those in the line are of interest.
    """
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{shown(text, 60)} is not a line of JSON") from None
    several = objectives_of(constraints)
    said = dict(said) if isinstance(said, dict) else {}
    step = said.pop("step", None)  # of the run, even if an objective or a constraint has this name
    said = outcomes.gathered(said, constraints)
    given = said.get(outcomes.SEVERAL)
    if len(several) < 2 and "objective" in said:
        given = {"objective": said["objective"]}
    elif not (several and isinstance(given, dict) and given.keys() == set(several)):
        given = {}
    if step is None or not given:
        raise ValueError(f"{shown(text, 60)} is not {example(several)}")
    step = outcomes.number("step", step)
    if not 0 <= step < math.inf:
        raise ValueError(f"step must be 0 or more, but is {step:g}")
    values = tuple(_value(name, given[name]) for name in sorted(given))
    fields: dict[str, Any] = {}
    if heeds and said.get("constraints"):
        known = {"status": STOPPED, "constraints": said["constraints"]}
        judgement = outcomes.judge(known, constraints).fields
        fields = {name: judgement[name] for name in ("constraints", "numbers")}
    return Line(step, values, fields)


def example(several: Sequence[str]) -> str:
    """A line as it should be. several: the names of the objectives, if there are several."""
    if len(several) < 2:
        return '{"step": 12, "objective": 0.31}'
    values = ", ".join(f'"{name}": 0.31' for name in several)
    return f'{{"step": 12, "{outcomes.SEVERAL}": {{{values}}}}}'


def _value(name: str, given: Any) -> float:
    """A finite number, or NaN. JSON has no NaN: many write null for it."""
    value = math.nan if given is None else outcomes.number(name, given)
    return value if math.isfinite(value) else math.nan


class Lines:
    """The lines of a file to which another process appends. Each complete line is returned once.

    skipped: whether some lines were not read, because too much was appended at a time.
    """

    def __init__(self, path: Path):
        self.path, self.skipped = path, False
        self._at, self._held, self._within = 0, b"", False
        self._file: tuple[int, int] | None = None

    def new(self, *, ended: bool = False) -> list[bytes]:
        """The lines since the last call. ended: nobody writes any more, so the last line is complete."""
        data = self._read()
        if data:
            if self._within:  # the rest of a line that was not read from its beginning
                _, found, data = data.partition(b"\n")
                self._within = not found
            *lines, self._held = (self._held + data).split(b"\n")
        else:
            lines = []
        if ended and self._held:
            lines, self._held = [*lines, self._held], b""
        if len(self._held) > LONGEST:
            lines, self._held, self._within = [*lines, self._held[:LONGEST]], b"", True
        return [line for line in lines if line.strip()]

    def _read(self) -> bytes:
        try:
            found = os.stat(self.path)
        except OSError:
            return b""
        if not stat.S_ISREG(found.st_mode):
            return b""
        if (found.st_dev, found.st_ino) != self._file or found.st_size < self._at:
            # It is another file, or it was begun again.
            self._file, self._at = (found.st_dev, found.st_ino), 0
            self._held, self._within = b"", False
        if found.st_size == self._at:
            return b""
        with contextlib.suppress(OSError, ValueError), reading_regular(self.path) as stream:
            if found.st_size - self._at > MOST_BYTES:
                self._at = found.st_size - MOST_BYTES
                self._held, self._within, self.skipped = b"", True, True
            data = os.pread(stream.fileno(), found.st_size - self._at, self._at)
            self._at += len(data)
            return data
        return b""


class Progress:
    """The progress that one evaluation has reported so far.

    constraints, heeds: as in `judged`. began: its start by the monotonic clock; None: unknown. fields:
    the constraints in the last line that had some. fault: of the first bad line, "" if there was none.
    """

    def __init__(
        self,
        path: Path,
        constraints: Constraints,
        began: float | None = None,
        *,
        heeds: bool = True,
    ):
        self.lines, self._constraints, self._began = Lines(path), constraints, began
        self._heeds = heeds
        self.reports = Reports()
        self.fields: dict[str, Any] = {}
        self.bad, self.fault = 0, ""

    def look(self, *, ended: bool = False) -> bool:
        """Read new lines. Returns whether there was a new point."""
        came = False
        lines = self.lines.new(ended=ended)
        seconds = math.nan if self._began is None else time.monotonic() - self._began
        for text in lines:
            try:
                said = text.decode("utf-8", "replace")
                line = judged(said, self._constraints, heeds=self._heeds)
            except ValueError as error:
                self.bad += 1
                self.fault = self.fault or str(error)
                continue
            came = True
            self.reports.add((line.step, *line.values, round(seconds, 3)))
            self.fields = line.fields or self.fields
        return came

    @property
    def curve(self) -> Curve:
        """The points that are kept after thinning."""
        return self.reports.curve()

    @property
    def message(self) -> str:
        """What is wrong with its lines, and with its steps; empty if nothing is."""
        found, reports = [], self.reports
        if self.bad:
            lines = "a line" if self.bad == 1 else f"{self.bad} lines"
            found.append(f"{lines} {UNREADABLE}: {self.fault}")
        if reports.counted:
            found.append(f"{reports.back} of {reports.count} {NOT_RISING}")
        return "; ".join(found)


def last_point(path: Path, constraints: Constraints) -> Line | None:
    """The last valid line in a file of progress. Only the end of the file is read."""
    for text in reversed(last_lines(path, TAIL).split(b"\n")):
        with contextlib.suppress(ValueError):
            return judged(text.decode("utf-8", "replace"), constraints, heeds=False)
    return None


def last_lines(path: Path, size: int = MOST_BYTES) -> bytes:
    """The complete lines in the last `size` bytes of a file of progress; may be empty."""
    with contextlib.suppress(OSError, ValueError), reading_regular(path) as stream:
        at = max(0, os.fstat(stream.fileno()).st_size - size)
        text, end, _ = os.pread(stream.fileno(), size, at).rpartition(b"\n")
        return (text if at == 0 else text.partition(b"\n")[2]) + end
    return b""


class Printed:
    """Finds lines `{"progress": {...}}` in printed text, and appends their content to the file."""

    def __init__(self, path: Path):
        self.path, self._held = path, b""
        self._found: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Take the next printed text. `flush` appends the progress in it."""
        text, sign, rest = (self._held + data).rpartition(b"\n")
        if not sign:
            text = b""
        self._held = rest if len(rest) <= LONGEST else b""
        if SIGN in text:
            self._found.append(text)
            self._size += len(text)
            if self._size > MOST_BYTES:  # bytes held until the next look
                self.flush()

    def flush(self) -> None:
        """Append the found lines to the file."""
        lines = b"\n".join(self._found).split(b"\n")
        self._found, self._size = [], 0
        text = b"".join(said + b"\n" for line in lines if (said := of_printed(line)) is not None)
        if text:
            with contextlib.suppress(OSError), open(self.path, "ab") as stream:
                stream.write(text)

    def close(self) -> None:
        """Take a last line without an end, and append the rest."""
        self.feed(b"\n")
        self.flush()


def of_printed(line: bytes) -> bytes | None:
    """A printed line of progress as a line of the file; None for any other line."""
    line = line.strip()
    if not (line.startswith(b"{") and SIGN in line and len(line) <= LONGEST):
        return None
    if plain := PLAIN.fullmatch(line):
        return plain[1]
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return line if line.startswith(b"{" + SIGN) else None
    if not isinstance(said, dict) or said.keys() != {"progress"}:
        return None
    return json.dumps(said["progress"]).encode()
