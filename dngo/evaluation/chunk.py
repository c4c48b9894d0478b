"""A job's share of a batch. The job claims each point, runs it once, and records its outcome.

A point that has an outcome is never run again. If another process runs a point, this job leaves it
alone. If the owner of a point has died, this job takes the point over. It adopts the outcome that
the owner left. Without one, it starts the point again, and gives it up after too many starts.
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

# End of the message of a job that ran out of time, but evaluated points.
PROGRESS = "evaluated by this job"


@dataclass(frozen=True)
class Attempts:
    """How often a point may be started before it is given up.

    run: names this run of Snakemake. Starts of other runs do not count: if you stop a study and
    type the command again, running points must not lose attempts.
    limit: starts in one run.
    escalates: whether each start has more time and memory than the one before.
    """

    run: str = ""
    limit: int = 3
    escalates: bool = False


class Evaluator(Protocol):
    """Evaluates one point at a time, as `dngo.evaluation.run.Runner` does."""

    def adopt(self, proposal: Proposal, attempts: int) -> Outcome | None:
        """The outcome that earlier starts left behind, if any. attempts: the number of these starts."""

    def run(self, proposal: Proposal, attempts: int) -> Outcome:
        """The outcome of one more start. attempts: its number. Raises NotStarted if nothing started."""

    def tidy(self, proposal: Proposal) -> None:
        """Remove what is no longer needed. Called once the outcome is on disk."""


@dataclass(frozen=True)
class Around:
    """An evaluator around another one, which it asks for everything."""

    evaluator: Evaluator

    def adopt(self, proposal: Proposal, attempts: int) -> Outcome | None:
        """The outcome that earlier starts left behind, if any."""
        return self.evaluator.adopt(proposal, attempts)

    def run(self, proposal: Proposal, attempts: int) -> Outcome:
        """The outcome of one more start."""
        return self.evaluator.run(proposal, attempts)

    def tidy(self, proposal: Proposal) -> None:
        """Remove what is no longer needed. Called once the outcome is on disk."""
        self.evaluator.tidy(proposal)


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
    """The outcomes of some proposals. It runs only proposals that have no outcome.

    If another process runs a point, this waits for it; if that process dies, this takes the point
    over.
    evaluators: work side by side, each on one point at a time.
    archived: looks a point up in the archive, in case its batch was merged meanwhile.
    has_time: whether the job has time for one more point, given the seconds of its longest
    evaluation so far; the first point of each evaluator always starts.
    Raises Interrupted if this process was asked to stop, and JobOver if another job should go on.
    Raises CannotStart if the objective cannot be started at all; running evaluations are still
    supervised to their end.
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
    """A thread for each evaluator, or fewer if the system has no more threads."""
    workers: list[futures.Future[None]] = []
    with ThreadPoolExecutor(len(evaluators), "evaluate") as pool:
        for evaluator in evaluators:
            try:
                workers.append(pool.submit(work, evaluator))
            except RuntimeError as error:
                print(f"no more than {len(workers)} points at once: {error}", flush=True)
                break
        futures.wait(workers)  # so that all threads end together: see `Starter`
    for worker in workers:
        worker.result()
    if not workers:
        work(evaluators[0])


class _Share:
    """The points of a job, handed out to its evaluators one at a time."""

    def __init__(
        self,
        proposals: list[Proposal],
        claim_of: Callable[[Proposal], Path],
        progress: Callable[[float, str], None],
    ):
        self.found: dict[str, Outcome] = {}
        # Of points evaluated here: their number, and the longest time in seconds.
        self.done, self.longest = 0, 0.0
        self._all, self._left = len(proposals), deque(proposals)
        self._claim_of, self._progress = claim_of, progress
        self._claims: dict[str, Claim] = {}
        self._waiting: set[str] = set()
        self._lock = threading.Lock()

    def take(self) -> Proposal | None:
        """The next point, or None at the end. Raises Interrupted."""
        StopSignal.heed()
        with self._lock:
            return self._left.popleft() if self._left else None

    def claim(self, proposal: Proposal) -> Claim:
        """The claim on a point.

        It is the same object each time, since it remembers its owner's heartbeat.
        """
        return self._claims.setdefault(proposal.id, Claim(self._claim_of(proposal)))

    def ran(self, outcome: Outcome | None) -> None:
        """Note an evaluation of this job."""
        if outcome is not None:
            with self._lock:
                self.done += 1
                self.longest = max(self.longest, outcome.duration)

    def give(self, proposal: Proposal, outcome: Outcome | None) -> None:
        """Hand in the outcome of a point, or give the point back if another process runs it."""
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
        """After an error, no evaluator starts another point."""
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
    """Hold a point that has no outcome and is not being evaluated, so that nobody starts it.

    path: of its outcome.
    Raises UserError if it has an outcome or is being evaluated. An outcome that an earlier start
    left counts as well.
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
    """Claim a point and run it. Returns its outcome, or None if another job evaluates it."""
    if not patiently(claim.acquire, what=f"claiming {proposal.id}", heed=StopSignal.heed):
        return None
    path, starts = outcome_of(proposal), claim.path.with_suffix(".starts")
    try:
        # Its last owner may have finished between our look and our claim.
        outcome = find_outcome(path, proposal)
        if outcome is not None:
            return outcome
        outcome = _evaluate(path, starts, proposal, evaluator, attempts, first)
        if outcome.status not in ("ok", "infeasible") and claim.lost:
            # Another process took the point over and may have ended this evaluation. That says
            # nothing about the point.
            return None
        if path.exists() and find_outcome(path, proposal) is None:
            # The outcome belongs to other parameters. It was paid for, so keep it.
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
    """The outcome that earlier starts of a point left, or the outcome of one more start."""
    noted = _starts(starts)
    used = sum(name == (attempts.run or "-") for name, _, _ in noted)
    try:
        # The earlier owner may still have lived, and written the outcome while we waited.
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
        # The next attempt has more time or memory, or goes on from a checkpoint, or this job spent
        # part of its time on other points.
        again = (attempts.escalates or limit.goes_on) and used + 1 < attempts.limit
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
            with contextlib.suppress(OSError):  # nothing started, so this is no attempt
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
    """Add a line after the first `size` bytes. If a full disk cuts the line off, remove the part."""
    with open(path, "ab+") as stream:
        stream.truncate(size)
        stream.seek(max(0, size - 1))
        torn = stream.read(1) not in (b"", b"\n")  # by a kill
        stream.write((b"\n" if torn else b"") + line.encode())


def _starts(path: Path) -> list[tuple[str, float, str]]:
    """The noted starts: run, time and host. Lines of another form are ignored."""
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
        message=f"its job died {used} times without a message; the cause may be the node, the "
        "scheduler or the memory",
    )
