"""A job's share of a batch: each point claimed, run once, and its outcome written down.

A point that has an outcome is never run again, whoever asks. A point that somebody else is running is
left to them; one whose owner died is taken over, and given up after so many starts.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dngo.batch import Outcome, Proposal, find_outcome, write_outcomes
from dngo.evaluation.objective import Interrupted, JobLimit, Stop
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


def evaluate(
    proposals: list[Proposal],
    outcome_of: Callable[[Proposal], Path],
    claim_of: Callable[[Proposal], Path],
    run_one: Callable[[Proposal, int], Outcome],
    *,
    archived: Callable[[Proposal], Outcome | None],
    attempts: Attempts = Attempts(),
    progress: Callable[[float, str], None] = lambda fraction, message: None,
) -> list[Outcome]:
    """The outcomes of some proposals, running only those that have none.

    A point that somebody else is running is left to them and waited for; if they die it is taken
    over. archived: looks a point up in the archive, for a batch that was merged meanwhile.
    Raises Interrupted if this process was told to stop, JobLimit if the job is too small for a point
    and another attempt may do better.
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
                outcome = _claim_and_run(claim, proposal, outcome_of, run_one, attempts, first)
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
    run_one: Callable[[Proposal, int], Outcome],
    attempts: Attempts,
    first: bool,
) -> Outcome | None:
    if not patiently(claim.acquire, what=f"claiming {proposal.id}"):
        return None
    try:
        # Its last owner may have finished between our look and our claim.
        path = outcome_of(proposal)
        outcome = find_outcome(path, proposal)
        if outcome is None:
            starts = claim.path.with_suffix(".starts")
            outcome = _run(starts, proposal, run_one, attempts, first)
            if path.exists():  # the outcome of other parameters: paid for, so kept
                kept = path.with_name(f"{path.stem}.{int(time.time())}.replaced.json")
                patiently(lambda: os.replace(path, kept), what=f"keeping {kept}")
            write_outcomes(path, [outcome])
        return outcome
    finally:
        with contextlib.suppress(OSError):
            claim.release()


def _run(
    starts: Path,
    proposal: Proposal,
    run_one: Callable[[Proposal, int], Outcome],
    attempts: Attempts,
    first: bool,
) -> Outcome:
    """Start a point once more, or give it up: its jobs died as often as they may."""
    lines = starts.read_text().splitlines() if starts.exists() else []
    used = sum(line.split()[0] == (attempts.run or "-") for line in lines)
    if used >= attempts.limit:
        return Outcome(
            iteration=proposal.iteration,
            slot=proposal.slot,
            parameters_digest=digest_parameters(proposal.parameters),
            status="lost",
            attempts=len(lines),
            host=lines[-1].split()[2],
            started=float(lines[-1].split()[1]),
            finished=time.time(),
            message=f"its job died {used} times without a word: node, scheduler or memory",
        )
    patiently(lambda: _note_start(starts, attempts), what=f"noting the start of {proposal.id}")
    try:
        return run_one(proposal, len(lines) + 1)
    except JobLimit as limit:
        # More is to come, or this job had given part of its time to others: the next attempt's turn.
        again = attempts.escalates and used + 1 < attempts.limit
        if again or (limit.outcome.status == "timeout" and not first):
            raise
        return limit.outcome


def _note_start(starts: Path, attempts: Attempts) -> None:
    with open(starts, "a") as stream:
        name = attempts.run or "-"
        stream.write(f"{name} {time.time():.3f} {socket.gethostname()} {os.getpid()}\n")
