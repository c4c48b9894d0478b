"""Whether a running evaluation is to be stopped: its curve against those of the archive and of the others.

A decision is noted before the evaluation hears of it, so that it is a fact whichever process dies then: the
evaluation is not started again. What is read of others is bounded: a snapshot of the archive's curves that
its batch brought along, and the files of what is in flight, looked at now and then.
"""

from __future__ import annotations

import contextlib
import json
import math
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
from dngo.stopping.settings import Decision, Stopping, comparable
from dngo.storage.files import read_json, write_json
from dngo.thresholds import Constraints

MOST = 300  # curves of others, of the archive and in flight each: ranks need no more
POINTS = 50  # of each in what a batch brings along
PAUSE = 2.0  # seconds between looks at what is in flight, at least
SHARE = 50  # and so many times as long as the last look took
EACH = 0.05  # and so many seconds for each that runs: a hundred jobs look at a hundred files


@dataclass(frozen=True)
class Flying:
    """Where the evaluations of a batch leave what others may know of them.

    outcomes: a folder of SLOT.json.  work: a folder of SLOT/progress.jsonl.
    """

    iteration: int
    outcomes: Path
    work: Path


class Judge:
    """Decides for the evaluations of a job; any thread may ask.

    earlier: the curves of the archive.  sign: 1 where small values are good, -1 where large ones are.
    level_of: the level of an evaluation's fidelity by its name; None: the study has none.
    """

    def __init__(
        self,
        rule: Stopping,
        earlier: Sequence[Curve],
        flying: Sequence[Flying],
        sign: float,
        level_of: Callable[[str], int] | None = None,
    ):
        self.rule, self._earlier, self._sign = rule, list(earlier)[-MOST:], sign
        self._flying, self._level_of = flying, level_of or (lambda name: 0)
        self._ended: dict[str, Curve | None] = {}
        self._running: dict[str, Progress] = {}
        self._known: dict[str, Curve] = {}  # of both, those that have points
        self._next, self._lock = 0.0, threading.Lock()

    @property
    def grace(self) -> float:
        """Seconds from the request to stop to the kill."""
        return self.rule.grace

    def decide(self, name: str, curve: Curve) -> Decision | None:
        """Whether the evaluation of this name is to be stopped, and why."""
        others = comparable(self._others(name), self._level_of(name))
        return self.rule.decide(curve, others, self._sign)

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
                    self._running.setdefault(name, Progress(path, None)).look()
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
    """A decision, kept where its evaluation finds it (`dngo.should_stop`)."""

    path: Path

    def write(self, decision: Decision) -> bool:
        """Write the decision down; whether that worked. Without it no evaluation is stopped."""
        try:
            write_json(self.path, decision.plain())
        except OSError:
            return False
        return True

    def read(self) -> Decision | None:
        """The decision that was noted, if there is one."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            return Decision.of_plain(json.loads(self.path.read_text(encoding="utf-8")))
        return None

    @property
    def time(self) -> float | None:
        """When it was noted, seconds since 1970."""
        with contextlib.suppress(OSError):
            return self.path.stat().st_mtime
        return None

    @property
    def heeded(self) -> bool:
        """Whether a function has seen the decision: what it returned since is of a stopped run."""
        return self.path.with_name(f"{self.path.name}.heeded").exists()


class Course:
    """The progress of one evaluation that is supervised here, and whether it is to go on.

    judge: None where nothing is ever stopped.  asks: it is a function, which asks whether to stop; a
    program is sent SIGTERM.  decision: to stop it, once made. heeded: whether a function of this process
    has seen it.
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

    def look(self) -> Decision | None:
        """Take what is new, and decide; the decision is noted by then."""
        self.printed.flush()
        if not self.progress.look() or self.judge is None or self.decision is not None:
            return self.decision
        decision = self.judge.decide(self.name, self.progress.curve)
        if decision is not None and self.noted.write(decision):
            self.decision = decision
        return self.decision

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Take the reports and questions of a function of this process during a block."""
        path = self.progress.lines.path

        def say(line: dict[str, Any]) -> None:
            with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")

        def ask() -> bool:
            self.heeded = self.look() is not None
            return self.heeded

        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
        with reporting.heard(say, ask, self.checkpoint, path.parent):
            yield

    @property
    def cut_short(self) -> bool:
        """Whether its report after the request to stop covers only a part of its run.

        It does if a function had seen the request. It also does if its progress ended before the last step
        of the longest run so far: many programs answer SIGTERM with the result that they have by then.
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
        """A verdict on the evaluation, now that it has ended, with what its progress says."""
        self.printed.close()
        self.progress.look(ended=True)
        fields, curve = dict(verdict.fields), self.progress.curve
        if verdict.status == STOPPED and self.decision is not None:
            # A broken constraint may only mean that it was cut short.
            fields = {n: fields[n] for n in fields if n == "metadata"} | self.progress.fields
            fields["stop"] = self.decision.plain()
        if curve.points:
            fields["curve"] = curve.plain()
        message = "; ".join(filter(None, (verdict.message, self.progress.message)))
        return replace(verdict, message=message, fields=fields)


def write_snapshot(path: Path, curves: Sequence[Curve]) -> None:
    """Write the newest curves of an archive for the jobs of a batch, thinner than they are kept."""
    levels = [curve.level for curve in curves[-MOST:]]
    kept = [thinned(curve.points, POINTS) for curve in curves[-MOST:]]
    points = ([[p[i] for p in curve.plain()] for i in (0, 1)] for curve in kept)
    write_json(path, {"curves": list(points), "levels": levels})


def read_snapshot(path: Path) -> list[Curve]:
    """What `write_snapshot` wrote; empty if there is no such file, or if it is damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        document: dict[str, Any] = read_json(path)
        curves = document["curves"]
        levels = document.get("levels") or [0] * len(curves)
        return [
            Curve(
                tuple((s, math.nan if v is None else v, math.nan) for s, v in zip(*c, strict=True)),
                level=int(level),
            )
            for c, level in zip(curves, levels, strict=True)
        ]
    return []
