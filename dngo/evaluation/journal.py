"""How the evaluations of one run have ended so far, and whether it may start another one.

The journal is a file with a JSON object on each line. The first line describes the run. Then each
outcome has a line, in order, and so has the reason that stopped the run. Each run begins a new
journal, so the same command always goes on. The journal decides only whether to go on. Outcomes are
stored elsewhere, so a line may be lost.

A run stops if, among the evaluations that it started,

- one message shows a mistake in the set-up (`MISTAKES`), and no evaluation of the study has run
  yet;
- the last `stop.failures` in a row have failed in the same way (`lost` counts too);
- a whole design has failed, for any reason: a model needs at least one outcome.

`stop.failures: 0` turns off all three. A run also stops if somebody asks for that (`dngo stop`). The
request names the run, so that it never stops a later one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dngo.batch import WORKED, Outcome, Proposal, way
from dngo.errors import UserError
from dngo.evaluation.chunk import Around
from dngo.evaluation.command import CannotStart
from dngo.storage.claim import Claim
from dngo.storage.files import read_json, write_json

GOES_ON = "Outcomes so far are kept, and the same command goes on"
SHOWN = 200  # characters of a message
_LINE = 1500  # most bytes of a line: a character may take six

# Messages of programs that would fail at every point, each with the key to look at. The first match
# counts.
MISTAKES: tuple[tuple[str, str], ...] = (
    (
        r"'module' object is not callable",
        "objective: it calls a module as a function; progress is reported by dngo.progress(step, value)",
    ),
    (
        r"\b(ModuleNotFoundError|ImportError)\b|No module named",
        "objective.command: its interpreter lacks a module; install it there, or name the "
        "interpreter of another environment, such as '/path/to/environment/bin/python ...' "
        "or 'conda run --no-capture-output -n NAME python ...' ({python} is the "
        "interpreter that runs dngo)",
    ),
    (
        r"EnvironmentLocationNotFound|[Nn]ot a conda environment|could not open image",
        "objective.command: there is no such environment or image; `conda env list` shows "
        "all environments",
    ),
    (
        r"exit status 12[67]\b|command not found|can't open file|Could not open script",
        "objective.command: a program or file in it does not exist, or may not be "
        "executed; paths start from objective.working_directory, or else from the "
        "configuration's folder",
    ),
    (
        r"unrecognized arguments|arguments are required|invalid choice|[Nn]o such option",
        "objective.command: the program does not know these options, or needs others",
    ),
    (
        r"\bKeyError\b",
        "space, objective.environment: the program asks for a name that it does not get; "
        "it gets the parameters with their names in `space`, without those whose `active_if` "
        "does not hold at the point, and the variables of objective.environment",
    ),
    (
        r"\b(SyntaxError|IndentationError|NameError|UnboundLocalError|NotImplementedError)\b"
        r"|\b(TypeError|AttributeError)\b(?!.*NoneType)",
        "objective: the program itself has a mistake",
    ),
    (
        r"unreadable outcome: constraints",
        "constraints: the configuration and the report must have the same names",
    ),
    (
        r"unreadable outcome: .*`?objectives`?",
        'objectives: the program must report all of them by name, as {"objectives": {"error": 0.1, '
        '"speed": 3}}, as '
        "the last line of its standard output or in the file {outcome}; a function returns it",
    ),
    (
        r"unreadable outcome",
        'objective: the program must report a number, or {"objective": 0.1}, as the last line of its '
        "standard output or in the file {outcome}; a function returns it",
    ),
)
_BY_STATUS = {
    "invalid": "objective: it reported NaN or infinity, which means that the point has no objective",
    "timeout": "objective.time_limit, or the runtime of the job: no evaluation has enough time",
    "out_of_memory": "objective.memory_mb, or mem_mb of the job: no evaluation has enough memory",
    "lost": "the jobs die without a message; look at what the scheduler says about them",
}


class Halted(CannotStart):
    """This run may start nothing more: the failures look like a mistake in the set-up.

    Outcomes so far are kept. Once the mistake is corrected, the next run goes on.
    """


class Asked(Halted):
    """Somebody asked this run to stop."""


@dataclass(frozen=True)
class Journal:
    """The journal of a study's current or last run.

    path: the file, in the study's folder.
    """

    path: Path

    def begin(self, *, ran: bool, objective: dict[str, Any]) -> None:
        """Begin a new journal for a new run.

        ran: whether any earlier evaluation of the study has run to its end.
        objective: its fingerprint (`dngo.evaluation.fingerprint`).
        """
        head = {"ran": ran, "objective": objective}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # the disk is full; this file must not stop a run
            self.path.write_text(json.dumps(head) + "\n", encoding="utf-8")

    def note(self, outcome: Outcome) -> None:
        """Note how an evaluation ended."""
        message = outcome.message[:SHOWN]
        self._append({"id": outcome.id, "status": outcome.status, "message": message})

    def note_stop(self, message: str) -> None:
        """Note why the run stops."""
        self._append({"stopped": message})

    def note_left_out(self, node: str, why: str) -> None:
        """Note that the run gives no further job to a node."""
        self._append({"left_out": node, "why": why})

    # ---- a stop that somebody asks for ----------------------------------------------------------

    def ask_to_stop(self, run: str, reason: str, who: dict[str, Any]) -> None:
        """Ask a run, by the token of its claim, to start nothing more; raises OSError."""
        write_json(self._request, {"run": run, "reason": reason, **who}, patience=0.0)

    @property
    def asked(self) -> str:
        """Who asked the run that holds the study to stop, and why; empty if nobody did."""
        with contextlib.suppress(OSError, ValueError, AttributeError, UserError):
            found = read_json(self._request) if self._request.exists() else {}
            owner = Claim(self.path.with_name(".run.claim")).owner() if found else None
            if owner and found.get("run") == owner.get("token"):
                reason = f": {found['reason']}" if found.get("reason") else ""
                return f"{found.get('by')} asked the run to stop{reason}"
        return ""

    def heed_request(self) -> None:
        """Raise Asked if somebody asked the run to stop."""
        if asked := self.asked:
            raise Asked(f"{asked}. {GOES_ON}")

    @property
    def _request(self) -> Path:
        return self.path.with_name("stop.json")

    # ---- what the run reads ---------------------------------------------------------------------

    @property
    def left_out(self) -> dict[str, str]:
        """The nodes to which the run gives no further jobs, with the reasons."""
        found = (d for d in _documents(self._lines()) if "left_out" in d)
        return {str(d["left_out"]): str(d.get("why", "")) for d in found}

    @property
    def ran(self) -> bool:
        """Whether any evaluation of the study has run to its end, in this run or before."""
        return any(d.get("ran") or d.get("status") in WORKED for d in _documents(self._lines()))

    @property
    def objective(self) -> dict[str, Any]:
        """The fingerprint of the objective; empty without a journal."""
        return (self._read(1)[0] or {}).get("objective") or {}

    @property
    def stopped(self) -> str:
        """Why the run stopped, "" if it did not."""
        found = _documents(reversed(self._lines()))
        return next((d["stopped"] for d in found if "stopped" in d), "")

    def _lines(self) -> list[str]:
        try:
            return self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []

    def heed(self, limit: int) -> None:
        """Raise Halted if the run must not start another evaluation.

        limit: `stop.failures`. Without a journal, as in a stage outside a run, this raises nothing.
        """
        self.heed_request()
        head, lines, whole = self._read(limit)
        newest = list(itertools.islice(_ends(reversed(lines)), limit))
        # One that worked contradicts both findings, and saves reading the rest at each evaluation.
        if head is None or not newest or any(end["status"] in WORKED for end in newest):
            return
        ends = list(_ends(lines))
        last = ends[-1]
        if whole and not head["ran"] and not any(e["status"] in WORKED for e in ends):
            mistake = next((end for end in ends if _is_mistake(end["message"])), None)
            if mistake:
                raise Halted(
                    self._words(
                        "no evaluation has worked yet, and one has ended like this", mistake
                    )
                )
        ways = {way(e["status"], e["message"]) for e in ends[-limit:]}
        if len(ends) >= limit and len(ways) == 1 and last["status"] not in WORKED:
            raise Halted(
                self._words(f"the last {limit} evaluations all ended in the same way", last)
            )

    def heed_design(self, outcomes: list[Outcome], limit: int) -> None:
        """Raise Halted if all of a design has failed."""
        outcomes = [o for o in outcomes if o.status != "withdrawn"]
        if (
            limit == 0
            or not outcomes
            or not self.path.exists()
            or any(o.status in WORKED for o in outcomes)
        ):
            return
        ways = [way(o.status, o.message) for o in outcomes]
        most = max(ways, key=ways.count)
        first = outcomes[ways.index(most)]
        end = {"id": first.id, "status": first.status, "message": first.message[:SHOWN]}
        n, alike = len(outcomes), ways.count(most)
        share = "like this" if alike == n else f"{alike} of them like this"
        raise Halted(self._words(f"all {n} evaluations of the design failed, {share}", end))

    def _words(self, finding: str, end: dict[str, Any]) -> str:
        """The message of a run that stops: what happened, where, and the key to look at."""
        iteration, slot = end["id"].split("-")
        log = self.path.parent / "logs" / "points" / iteration / f"{slot}.err"
        said = f"{end['status']}: {end['message']} (point {end['id']}; see {log})"
        return f"{finding}: {said}. {cure(end['status'], end['message'])}"

    def _append(self, document: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # outside a run, or on a full disk; nobody needs it
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            with open(descriptor, "ab", buffering=0) as stream:
                stream.write((json.dumps(document) + "\n").encode())

    def _read(self, limit: int) -> tuple[dict[str, Any] | None, list[str], bool]:
        """What the run began with, at least its last `limit` lines, and whether there are no others."""
        try:
            with open(self.path, "rb") as stream:
                head = next(_documents([stream.readline().decode()]), None)
                start, size = stream.tell(), stream.seek(0, os.SEEK_END)
                stream.seek(max(start, size - limit * _LINE))
                lines = stream.read().decode("utf-8", "replace").splitlines()
        except (OSError, UnicodeDecodeError):
            return None, [], False
        return head if head and "ran" in head else None, lines, size - start <= limit * _LINE


@dataclass(frozen=True)
class Watched(Around):
    """An evaluator that obeys the journal of its run, and writes it.

    limit: `stop.failures`. seen: called with each outcome.
    """

    journal: Journal
    limit: int
    seen: Callable[[Outcome], None] = lambda outcome: None

    def adopt(self, proposal: Proposal, attempts: int) -> Outcome | None:
        """The outcome that earlier starts left behind, if any."""
        outcome = super().adopt(proposal, attempts)
        if outcome is not None:
            self._note(outcome)
        return outcome

    def run(self, proposal: Proposal, attempts: int) -> Outcome:
        """The outcome of one more start; raises Halted if the run may not start it."""
        self.journal.heed(self.limit)
        outcome = super().run(proposal, attempts)
        self._note(outcome)
        return outcome

    def _note(self, outcome: Outcome) -> None:
        self.journal.note(outcome)
        self.seen(outcome)


def _documents(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The objects in the complete lines."""
    for line in lines:
        with contextlib.suppress(ValueError):
            document = json.loads(line)
            if isinstance(document, dict):
                yield document


def _ends(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """How evaluations ended, of the lines that say that."""
    return (d for d in _documents(lines) if {"id", "status", "message"} <= d.keys())


def _is_mistake(message: str) -> bool:
    return any(re.search(pattern, message) for pattern, _ in MISTAKES)


def cure(status: str, message: str) -> str:
    """A text with the key to look at after such an end."""
    found = (cure for pattern, cure in MISTAKES if re.search(pattern, message))
    otherwise = _BY_STATUS.get(
        status, "objective: the program does not work, or its input is wrong"
    )
    return next(found, otherwise)
