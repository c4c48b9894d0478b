"""Decides whether to stop a running evaluation. It compares its curve with other curves, from the
archive and in flight.

A decision is noted before the evaluation hears of it. So it counts even if a process dies then, and
the evaluation does not start again. The work of reading other curves is bounded: a snapshot of the
archive's curves comes with the batch, and files in flight are read now and then.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dngo import reporting
from dngo.batch import STOPPED, read_outcomes
from dngo.errors import UserError
from dngo.evaluation.command import Places
from dngo.evaluation.progress import Printed, Progress
from dngo.outcomes import Verdict
from dngo.stopping.curves import Curve, thinned
from dngo.stopping.settings import Decision, Sign, Stopping, comparable
from dngo.storage.files import read_json, write_json
from dngo.thresholds import Constraints, objectives_of

# curves of other evaluations, at most so many from the archive and so many in flight; ranks need no
# more
MOST = 300
POINTS = 50  # points of each curve in the snapshot of a batch
PAUSE = 2.0  # seconds between looks at what is in flight, at least
SHARE = 50  # and at least this many times the duration of the last look
# And at least this many seconds for each running evaluation: a hundred jobs each read a hundred
# files.
EACH = 0.05


@dataclass(frozen=True)
class Flying:
    """Where the evaluations of a batch leave files that other evaluations may read.

    outcomes: a folder of SLOT.json.  work: a folder of SLOT/progress.jsonl.
    """

    iteration: int
    outcomes: Path
    work: Path


class Judge:
    """Decides for the evaluations of a job. Any thread may ask.

    earlier: the curves of the archive.  sign: 1 if small values are good, -1 if large ones are; of
    several objectives one for each.
    level_of: the level of an evaluation's fidelity, by the evaluation's name; None: the study has
    no fidelity.  constraints: the study's, by which lines of progress are read.
    """

    def __init__(
        self,
        rule: Stopping,
        earlier: Sequence[Curve],
        flying: Sequence[Flying],
        sign: Sign,
        level_of: Callable[[str], int] | None = None,
        constraints: Constraints | None = None,
    ):
        self.rule, self._earlier, self._sign = rule, list(earlier)[-MOST:], sign
        self._constraints = {} if constraints is None else constraints
        self._flying, self._level_of = flying, level_of or (lambda name: 0)
        self._ended: dict[str, Curve | None] = {}
        self._running: dict[str, Progress] = {}
        self._known: dict[str, Curve] = {}  # the curves of both that have points
        self._next, self._lock = 0.0, threading.Lock()

    @property
    def grace(self) -> float:
        """Seconds between the request to stop and the kill."""
        return self.rule.grace

    def decide(self, name: str, curve: Curve) -> Decision | None:
        """Whether to stop the evaluation of this name, and why."""
        others = comparable(self._others(name), self._level_of(name))
        found = self.rule.decide(curve, others, self._sign)
        return found and replace(found, names=objectives_of(self._constraints))

    def _others(self, name: str) -> list[Curve]:
        with self._lock:
            if time.monotonic() >= self._next:
                began = time.monotonic()
                self._look()
                now = time.monotonic()
                self._next = now + max(PAUSE, SHARE * (now - began), EACH * len(self._running))
            known = self._known
        return [*self._earlier, *(c for n, c in known.items() if n != name)]

    def _look(self) -> None:
        for batch in self._flying:
            for slot in _names(batch.outcomes, ".json"):
                name = f"{batch.iteration}-{slot}"
                if name not in self._ended and len(self._ended) < MOST:
                    self._ended[name] = _of_outcome(batch.outcomes / f"{slot}.json")
                    self._running.pop(name, None)
            for slot in _names(batch.work, ""):
                name = f"{batch.iteration}-{slot}"
                if name not in self._ended and len(self._running) < MOST:
                    path = batch.work / slot / "progress.jsonl"
                    progress = Progress(path, self._constraints, heeds=False)
                    self._running.setdefault(name, progress).look()
        running = {n: replace(p.curve, ended=False) for n, p in self._running.items()}
        ended = {n: c for n, c in self._ended.items() if c is not None}
        self._known = {
            n: replace(c, level=self._level_of(n))
            for n, c in {**running, **ended}.items()
            if c.points
        }


def _names(folder: Path, end: str) -> list[str]:
    """The slots that have files in a folder."""
    try:
        found = os.listdir(folder)
    except OSError:
        return []
    names = (name.removesuffix(end) for name in found if name.endswith(end))
    return sorted((name for name in names if name.isdecimal()), key=int)


def _of_outcome(path: Path) -> Curve | None:
    with contextlib.suppress(UserError, OSError, ValueError):
        (outcome,) = read_outcomes(path)
        return Curve.of(outcome.curve) if outcome.curve else None
    return None


@dataclass(frozen=True)
class Noted:
    """A decision in a file, where its evaluation finds it (`dngo.should_stop`)."""

    path: Path

    def write(self, decision: Decision) -> bool:
        """Write the decision to its file.

        Returns whether that worked; otherwise the evaluation is not stopped.
        """
        try:
            write_json(self.path, decision.plain())
        except OSError:
            return False
        return True

    def read(self) -> Decision | None:
        """The noted decision, if there is one."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            return Decision.of_plain(json.loads(self.path.read_text(encoding="utf-8")))
        return None

    @property
    def time(self) -> float | None:
        """The time of the note, in seconds since 1970."""
        with contextlib.suppress(OSError):
            return self.path.stat().st_mtime
        return None

    @property
    def heeded(self) -> bool:
        """Whether a function has seen the decision. Then its return value comes from a stopped run."""
        return self.path.with_name(f"{self.path.name}.heeded").exists()


class Course:
    """The progress of one evaluation that this process supervises, and whether it goes on.

    judge: None if nothing is ever stopped. asks: whether it is a function, which asks whether to
    stop; a program gets SIGTERM instead. decision: the decision to stop it, if made. heeded:
    whether a function of this process has seen it.
    """

    def __init__(
        self,
        name: str,
        places: Places,
        constraints: Constraints,
        judge: Judge | None = None,
        *,
        asks: bool = False,
        began: float | None = None,
    ):
        self.name, self.judge, self.asks, self.heeded = name, judge, asks, False
        self.progress = Progress(places.progress, constraints, began)
        self.printed = Printed(places.progress)
        self.noted, self.checkpoint = Noted(places.stop), places.checkpoint
        self.decision: Decision | None = None
        self.suspended = 0.0  # seconds in which the evaluation was suspended

    def look(self) -> Decision | None:
        """Read new progress, and decide. A decision is noted before this returns."""
        self.printed.flush()
        if not self.progress.look() or self.judge is None or self.decision is not None:
            return self.decision
        if self.progress.reports.unclear:
            return None
        decision = self.judge.decide(self.name, self.progress.curve)
        if decision is not None and self.noted.write(decision):
            self.decision = decision
        return self.decision

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """During a block, take the reports and questions of a function in this process."""
        path = self.progress.lines.path

        def say(line: dict[str, Any]) -> None:
            with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")

        def ask() -> bool:
            self.heeded = self.look() is not None
            return self.heeded

        with reporting.heard(say, ask, self.checkpoint, path.parent):
            yield

    @property
    def cut_short(self) -> bool:
        """Whether its report covers only a part of its run, since it was asked to stop.

        This is so if a function had seen the request. It is also so if its progress ended before
        the last step of the longest run so far: many programs answer SIGTERM with their current
        result.
        """
        if self.noted.heeded:
            return True
        if self.decision is None:
            return False
        self.printed.flush()
        self.progress.look(ended=True)
        points = self.progress.curve.points
        return bool(points) and points[-1][0] < self.decision.target

    def said(self, verdict: Verdict) -> Verdict:
        """The verdict on the evaluation after its end, completed by its progress."""
        self.printed.close()
        self.progress.look(ended=True)
        fields, curve = dict(verdict.fields), self.progress.curve
        if verdict.status == STOPPED and self.decision is not None:
            # A broken constraint may only mean that the run was cut short.
            fields = {n: fields[n] for n in fields if n == "metadata"} | self.progress.fields
            fields["stop"] = self.decision.plain()
        if curve.points:
            fields["curve"] = curve.plain()
        message = "; ".join(filter(None, (verdict.message, self.progress.message)))
        return replace(verdict, message=message, fields=fields)


def write_snapshot(path: Path, curves: Sequence[Curve]) -> None:
    """Write the newest curves of an archive for the jobs of a batch, with fewer points than the
    archive has.
    """
    levels = [curve.level for curve in curves[-MOST:]]
    kept = [thinned(curve.points, POINTS) for curve in curves[-MOST:]]
    points = ([list(column) for column in zip(*curve.plain(), strict=True)][:-1] for curve in kept)
    write_json(path, {"curves": list(points), "levels": levels})


def read_snapshot(path: Path) -> list[Curve]:
    """The curves that `write_snapshot` wrote; empty if the file is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        document: dict[str, Any] = read_json(path)
        curves = document["curves"]
        levels = document.get("levels") or [0] * len(curves)
        return [
            replace(Curve.of((*p, None) for p in zip(*c, strict=True)), level=int(level))
            for c, level in zip(curves, levels, strict=True)
        ]
    return []
