"""A job's share of a batch: each point claimed, run once, and its outcome written down.

A point that has an outcome is never run again. A point that somebody else is running is
left to them; one whose owner died is taken over: what the owner left is adopted, and if it left
nothing the point is started again, and given up after so many starts.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dngo.batch import Outcome, Proposal, find_outcome, write_outcomes
from dngo.errors import UserError
from dngo.evaluation.command import CannotStart
from dngo.evaluation.run import JobLimit, JobOver, Runner
from dngo.evaluation.starter import NotStarted, StarterDied
from dngo.evaluation.supervision import StopSignal
from dngo.storage.claim import Claim, describe
from dngo.storage.digest import digest_parameters
from dngo.storage.patience import in_words, patiently

PROGRESS = "evaluated by this job"  # ends the message of a job that is over, but not in vain


@dataclass(frozen=True)
class Attempts:
    """How often a point may be started before it is given up.

    run: names this run of Snakemake. Starts of other runs do not count: stopping a study and typing
    the command again must not use up the attempts of points that were running.
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
        """The outcome of one more start, the `attempts`-th; raises NotStarted if nothing started."""

    def tidy(self, proposal: Proposal) -> None:
        """Called once the outcome is on disk."""


def evaluate(
    proposals: list[Proposal],
    outcome_of: Callable[[Proposal], Path],
    claim_of: Callable[[Proposal], Path],
    evaluators: Sequence[Evaluator],
    *,
    archived: Callable[[Proposal], Outcome | None],
    attempts: Attempts = Attempts(),
    has_time: Callable[[float], bool] = lambda seconds: True,
    progress: Callable[[float, str], None] = lambda fraction, message: None,
) -> list[Outcome]:
    """The outcomes of some proposals, running only those that have none.

    A point that somebody else is running is left to them and waited for; if they die it is taken
    over. evaluators: each evaluates one point at a time, side by side with the others.
    archived: looks a point up in the archive, for a batch that was merged meanwhile.
    has_time: whether the job has time for one more point, given the longest of this job so far in
    seconds; the first point of each evaluator is always started.
    Raises Interrupted if this process was told to stop, JobOver if another job is to go on, CannotStart
    if the objective cannot be started at all; evaluations that run then are still supervised to their end.
    """
    StopSignal.listen()
    share = _Share(proposals, claim_of, progress)

    def work(evaluator: Evaluator) -> None:
        first = True
        while (proposal := share.take()) is not None:
            with share.giving_up_on_errors():
                outcome = find_outcome(outcome_of(proposal), proposal) or archived(proposal)
                if outcome is None:
                    if not first and not has_time(share.longest):
                        raise JobOver("no time for another point")
                    claim = share.claim(proposal)
                    outcome = _claim_and_run(
                        claim, proposal, outcome_of, evaluator, attempts, first
                    )
                    first = first and outcome is None
                    share.ran(outcome)
                share.give(proposal, outcome)

    if len(evaluators) == 1:
        work(evaluators[0])
    else:
        _side_by_side(work, evaluators)
    return [share.found[p.id] for p in proposals]


def _side_by_side(work: Callable[[Evaluator], None], evaluators: Sequence[Evaluator]) -> None:
    """A thread for each evaluator, or for as many as the system has threads to spare for."""
    workers: list[futures.Future[None]] = []
    with ThreadPoolExecutor(len(evaluators), "evaluate") as pool:
        for evaluator in evaluators:
            try:
                workers.append(pool.submit(work, evaluator))
            except RuntimeError as error:
                print(f"{len(workers)} points at once, and no more: {error}", flush=True)
                break
        futures.wait(workers)  # so that no thread ends before the others: see `Starter`
    for worker in workers:
        worker.result()
    if not workers:
        work(evaluators[0])


class _Share:
    """The points of a job: handed out one at a time to those who evaluate."""

    def __init__(
        self,
        proposals: list[Proposal],
        claim_of: Callable[[Proposal], Path],
        progress: Callable[[float, str], None],
    ):
        self.found: dict[str, Outcome] = {}
        self.done, self.longest = 0, 0.0  # of those evaluated here: how many, and the most seconds
        self._all, self._left = len(proposals), deque(proposals)
        self._claim_of, self._progress = claim_of, progress
        self._claims: dict[str, Claim] = {}
        self._waiting: set[str] = set()
        self._lock = threading.Lock()

    def take(self) -> Proposal | None:
        """The next point, None if there is none.  Raises Interrupted."""
        StopSignal.heed()
        with self._lock:
            return self._left.popleft() if self._left else None

    def claim(self, proposal: Proposal) -> Claim:
        """The claim on a point: the same each time, since it remembers its owner's heartbeat."""
        return self._claims.setdefault(proposal.id, Claim(self._claim_of(proposal)))

    def ran(self, outcome: Outcome | None) -> None:
        """Note what was evaluated here."""
        if outcome is not None:
            with self._lock:
                self.done += 1
                self.longest = max(self.longest, outcome.duration)

    def give(self, proposal: Proposal, outcome: Outcome | None) -> None:
        """Hand in the outcome of a point, or the point itself if somebody else is running it."""
        with self._lock:
            if outcome is not None:
                self.found[proposal.id] = outcome
                self._progress(len(self.found) / self._all, f"{proposal.id} {outcome.status}")
                return
            if proposal.id not in self._waiting:
                owner = describe(self.claim(proposal).owner())
                print(f"{proposal.id}: is being evaluated by {owner}; waiting", flush=True)
            self._waiting.add(proposal.id)
            self._left.append(proposal)
            idle = all(p.id in self._waiting for p in self._left)
            pause = 0.5 / len(self._left) if idle else 0.0
        time.sleep(pause)

    @contextlib.contextmanager
    def giving_up_on_errors(self) -> Iterator[None]:
        """Let nobody start another point after an error."""
        try:
            yield
        except BaseException as error:
            with self._lock:
                self._left.clear()
            if isinstance(error, JobOver) and self.done:
                raise JobOver(f"{error}; {self.done} {PROGRESS}") from None
            raise


@contextlib.contextmanager
def at_rest(claim: Claim, proposal: Proposal, path: Path, evaluator: Runner) -> Iterator[None]:
    """Hold a point that has no outcome and that nobody evaluates, so that nobody begins to.

    path: of its outcome. Raises UserError otherwise: what is being evaluated is paid for, and what an
    earlier start has left counts.
    """
    try:
        acquired = claim.acquire()
    except FileNotFoundError:
        raise UserError(f"{proposal.id}: its batch has just been merged") from None
    if not acquired:
        owner = describe(claim.owner())
        raise UserError(f"{proposal.id}: is being evaluated by {owner}; its outcome will count")
    try:
        outcome = find_outcome(path, proposal)
        if outcome is None and evaluator.runs(proposal):
            raise UserError(f"{proposal.id}: its evaluation still runs; its outcome will count")
        if outcome is None:
            outcome = evaluator.adopt(proposal, len(_starts(claim.path.with_suffix(".starts"))))
            if outcome is not None:
                write_outcomes(path, [outcome])
                evaluator.tidy(proposal)
        if outcome is not None:
            raise UserError(f"{proposal.id}: has its outcome: {outcome.status}")
        yield
    finally:
        with contextlib.suppress(OSError):
            claim.release()


def _claim_and_run(
    claim: Claim,
    proposal: Proposal,
    outcome_of: Callable[[Proposal], Path],
    evaluator: Evaluator,
    attempts: Attempts,
    first: bool,
) -> Outcome | None:
    """The outcome of a point, or None if another job evaluates it."""
    if not patiently(claim.acquire, what=f"claiming {proposal.id}", heed=StopSignal.heed):
        return None
    path, starts = outcome_of(proposal), claim.path.with_suffix(".starts")
    try:
        # Its last owner may have finished after we looked and before we claimed it.
        outcome = find_outcome(path, proposal)
        if outcome is not None:
            return outcome
        outcome = _evaluate(path, starts, proposal, evaluator, attempts, first)
        if outcome.status not in ("ok", "infeasible") and claim.lost:
            return None  # the process that took the point over may have ended it: no fact about the point
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
    """What earlier starts of a point have left, or the outcome of one more start."""
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
    except StarterDied:
        print(f"{proposal.id}: the process that started it was killed", flush=True)
        return _evaluate(path, starts, proposal, evaluator, attempts, first)
    except JobLimit as limit:
        # The next attempt has more time or memory, or this job had given part of its time to others.
        again = attempts.escalates and used + 1 < attempts.limit
        if again or (limit.outcome.status == "timeout" and not first):
            raise
        return limit.outcome


def _start(
    starts: Path, number: int, proposal: Proposal, evaluator: Evaluator, attempts: Attempts
) -> Outcome:
    before = starts.stat().st_size if starts.exists() else 0

    def start() -> Outcome:
        line = f"{attempts.run or '-'} {time.time():.3f} {socket.gethostname()} {os.getpid()}\n"
        noted = f"noting the start of {proposal.id}"
        patiently(lambda: _append(starts, before, line), what=noted, heed=StopSignal.heed)
        try:
            return evaluator.run(proposal, number)
        except (CannotStart, NotStarted):
            with contextlib.suppress(OSError):  # nothing started: that must not use up the attempts
                os.truncate(starts, before)
            raise

    try:
        return patiently(
            start,
            what=f"starting {proposal.id}",
            refusal=lambda error: isinstance(error, NotStarted),
            heed=StopSignal.heed,
        )
    except NotStarted as error:
        raise JobOver(f"{proposal.id} was not started: {in_words(error)}") from None


def _append(path: Path, size: int, line: str) -> None:
    """Add a line after the first `size` bytes; if a full disk cuts it off, nothing of it stays."""
    with open(path, "ab+") as stream:
        stream.truncate(size)
        stream.seek(max(0, size - 1))
        torn = stream.read(1) not in (b"", b"\n")  # by a kill
        stream.write((b"\n" if torn else b"") + line.encode())


def _starts(path: Path) -> list[tuple[str, float, str]]:
    """The starts that were noted: run, time and host. Other lines were not written here."""
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
