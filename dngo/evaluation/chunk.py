"""A job's share of a batch: each point claimed, run once, and its outcome written down.

A point that has an outcome is never run again, whoever asks. A point that somebody else is running is
left to them; one whose owner died is taken over: what the owner left is adopted, and if it left
nothing the point is started again, and given up after so many starts.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dngo.batch import Outcome, Proposal, find_outcome, write_outcomes
from dngo.evaluation.command import CannotStart
from dngo.evaluation.run import JobLimit
from dngo.evaluation.supervision import Interrupted, Stop
from dngo.storage.claim import Claim, describe
from dngo.storage.digest import digest_parameters
from dngo.storage.files import patiently


@dataclass(frozen=True)
class Attempts:
    """How often a point may be started before it is given up.

    run: names this run of Snakemake. Starts of other runs do not count: who stops a study and types
    the command again must not use up the attempts of the points that were running.
    limit: starts in one run.  escalates: each has more time and memory than the one before.
    """

    run: str = ""
    limit: int = 3
    escalates: bool = False


class Evaluator(Protocol):
    """What evaluates one point: `dngo.evaluation.run.Runner`."""

    def adopt(self, proposal: Proposal, attempts: int) -> Outcome | None:
        """What earlier starts, `attempts` of them, have left."""

    def run(self, proposal: Proposal, attempts: int) -> Outcome:
        """The outcome of one more start, the `attempts`-th."""

    def tidy(self, proposal: Proposal) -> None:
        """Called once the outcome is on disk."""


def evaluate(
    proposals: list[Proposal],
    outcome_of: Callable[[Proposal], Path],
    claim_of: Callable[[Proposal], Path],
    evaluator: Evaluator,
    *,
    archived: Callable[[Proposal], Outcome | None],
    attempts: Attempts = Attempts(),
    progress: Callable[[float, str], None] = lambda fraction, message: None,
) -> list[Outcome]:
    """The outcomes of some proposals, running only those that have none.

    A point that somebody else is running is left to them and waited for; if they die it is taken
    over. archived: looks a point up in the archive, for a batch that was merged meanwhile.
    Raises Interrupted if this process was told to stop, JobLimit if the job is too small for a point
    and another attempt may do better, CannotStart if the objective cannot be started at all.
    """
    Stop.listen()
    found: dict[str, Outcome] = {}
    waiting: dict[str, Claim] = {}
    first = True
    while len(found) < len(proposals):
        progressed = False
        for proposal in proposals:
            if proposal.id in found:
                continue
            if Stop.requested:
                raise Interrupted
            outcome = find_outcome(outcome_of(proposal), proposal) or archived(proposal)
            if outcome is None:
                claim = waiting.get(proposal.id) or Claim(claim_of(proposal))
                outcome = _claim_and_run(claim, proposal, outcome_of, evaluator, attempts, first)
                first = first and outcome is None
            if outcome is None:
                if proposal.id not in waiting:
                    waiting[proposal.id] = claim
                    owner = describe(claim.owner())
                    print(f"{proposal.id}: is being evaluated by {owner}; waiting", flush=True)
                continue
            progressed = True
            found[proposal.id] = outcome
            progress(len(found) / len(proposals), f"{proposal.id} {outcome.status}")
        if not progressed:
            time.sleep(0.5)
    return [found[p.id] for p in proposals]


def _claim_and_run(
    claim: Claim,
    proposal: Proposal,
    outcome_of: Callable[[Proposal], Path],
    evaluator: Evaluator,
    attempts: Attempts,
    first: bool,
) -> Outcome | None:
    """The outcome of a point, or None if it is somebody else's to evaluate."""
    if not patiently(claim.acquire, what=f"claiming {proposal.id}"):
        return None
    path, starts = outcome_of(proposal), claim.path.with_suffix(".starts")
    try:
        # Its last owner may have finished between our look and our claim.
        outcome = find_outcome(path, proposal)
        if outcome is not None:
            return outcome
        outcome = _evaluate(path, starts, proposal, evaluator, attempts, first)
        if outcome.status not in ("ok", "infeasible") and claim.lost:
            return None  # whoever took the point over may have ended it: no fact about the point
        if path.exists() and find_outcome(path, proposal) is None:
            # The outcome of other parameters: paid for, so kept.
            kept = path.with_name(f"{path.stem}.{int(time.time())}.replaced.json")
            patiently(lambda: os.replace(path, kept), what=f"keeping {kept}")
        write_outcomes(path, [outcome])
        evaluator.tidy(proposal)
        return outcome
    finally:
        with contextlib.suppress(OSError):
            claim.release()


def _evaluate(
    path: Path,
    starts: Path,
    proposal: Proposal,
    evaluator: Evaluator,
    attempts: Attempts,
    first: bool,
) -> Outcome:
    """What earlier starts of a point have left, or what one more comes to."""
    noted = _starts(starts)
    used = sum(name == (attempts.run or "-") for name, _, _ in noted)
    try:
        # While it was waited for, an owner who was not dead after all may have written its outcome.
        outcome = evaluator.adopt(proposal, len(noted)) or find_outcome(path, proposal)
        if outcome is not None:
            return outcome
        if used >= attempts.limit:
            return _give_up(noted, used, proposal)
        return _start(starts, len(noted) + 1, proposal, evaluator, attempts)
    except JobLimit as limit:
        # More is to come, or this job had given part of its time to others: the next attempt's turn.
        again = attempts.escalates and used + 1 < attempts.limit
        if again or (limit.outcome.status == "timeout" and not first):
            raise
        return limit.outcome


def _start(
    starts: Path, number: int, proposal: Proposal, evaluator: Evaluator, attempts: Attempts
) -> Outcome:
    before = starts.stat().st_size if starts.exists() else 0
    line = f"{attempts.run or '-'} {time.time():.3f} {socket.gethostname()} {os.getpid()}\n"
    patiently(lambda: _append(starts, before, line), what=f"noting the start of {proposal.id}")
    try:
        return evaluator.run(proposal, number)
    except CannotStart:
        with contextlib.suppress(OSError):  # it was none, and must not use up the attempts
            os.truncate(starts, before)
        raise


def _append(path: Path, size: int, line: str) -> None:
    """Add a line after the first `size` bytes: of one that a full disk has torn, nothing stays."""
    with open(path, "ab+") as stream:
        stream.truncate(size)
        stream.seek(max(0, size - 1))
        torn = stream.read(1) not in (b"", b"\n")  # by a kill
        stream.write((b"\n" if torn else b"") + line.encode())


def _starts(path: Path) -> list[tuple[str, float, str]]:
    """The starts that were noted: run, time and host; what is no such line was not written here."""
    found = []
    text = path.read_text(errors="replace") if path.exists() else ""
    for words in map(str.split, text.splitlines()):
        with contextlib.suppress(ValueError):
            name, began, host, _ = words
            found.append((name, float(began), host))
    return found


def _give_up(noted: list[tuple[str, float, str]], used: int, proposal: Proposal) -> Outcome:
    _, began, host = noted[-1]
    return Outcome(
        iteration=proposal.iteration,
        slot=proposal.slot,
        parameters_digest=digest_parameters(proposal.parameters),
        status="lost",
        attempts=len(noted),
        host=host,
        started=began,
        finished=time.time(),
        message=f"its job died {used} times without a word: node, scheduler or memory",
    )
