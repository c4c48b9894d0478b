"""Run the objective at one point, in its own process group, within limits, to one outcome.

The contract. Input: the parameters as a JSON object on standard input and in the file
`{parameters}` (also `$DNGO_PARAMETERS`), or as placeholders on the command line. Output: the
document that `dngo.evaluation.document` reads, in the file `{outcome}` (`$DNGO_OUTCOME`) or as the
last line of standard output. A non-zero exit status means that the point failed; the study goes on.
If the program cannot be started at all, the point is not the cause, and the study stops.

Nothing here imports a numerical module, so that an evaluation costs no more than its objective.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from dngo.batch import RAN, STOPPED, Outcome, Proposal, find_outcome, write_outcomes
from dngo.config import Objective
from dngo.errors import UserError
from dngo.evaluation import leftovers, pictures
from dngo.evaluation.command import Places, call_of
from dngo.evaluation.document import judge_file, known_of
from dngo.evaluation.limits import Bounds, End, Limits
from dngo.evaluation.progress import last_lines
from dngo.evaluation.starter import Starter
from dngo.evaluation.stopping import Course, Judge
from dngo.evaluation.streams import Kept
from dngo.evaluation.supervision import INTERRUPTED, Interrupted, StopSignal, supervise
from dngo.outcomes import MAX_MESSAGE, Verdict
from dngo.redaction import Mask, each_text, secrets_of
from dngo.storage.digest import digest_parameters
from dngo.storage.files import read_json
from dngo.storage.patience import patiently
from dngo.storage.text import one_line
from dngo.thresholds import Constraints

ADOPTED = "its job died meanwhile; the outcome that it had written was adopted"


class JobOver(Exception):
    """The job has no time for its remaining points. The next job goes on."""


class JobLimit(JobOver):
    """The job ran out of time or memory before the evaluation did.

    outcome: the outcome if nobody tries again.
    goes_on: whether the next attempt finds a checkpoint that this one wrote.
    """

    def __init__(self, outcome: Outcome, goes_on: bool = False):
        super().__init__(outcome.message)
        self.outcome, self.goes_on = outcome, goes_on


@dataclass(frozen=True)
class Files:
    """The paths of one evaluation: private folder, standard output and error, checkpoint.

    picture: path for its picture, without the ending; None: do not keep it.
    """

    workdir: Path
    stdout: Path
    stderr: Path
    checkpoint: Path | None = None
    picture: Path | None = None

    @property
    def places(self) -> Places:
        return Places(self.workdir.absolute(), self.checkpoint)


@dataclass(frozen=True)
class Runner:
    """Evaluates points. Each gets exactly one outcome, whatever happens.

    names: every parameter of the space.
    constraints: what the objective must report.
    files_of, seed_of: the paths of a point's files, and the seed of its evaluation.
    limits: the job's; the objective has its own in the configuration.
    cpus: numbers of the CPUs that an evaluation is bound to; none: all CPUs of the job.
    starter: starts the objective; the evaluators of a job share one.
    judge: decides which running evaluations to stop by their reports; None: stop none.
    """

    objective: Objective
    names: list[str]
    constraints: Constraints
    files_of: Callable[[Proposal], Files]
    seed_of: Callable[[Proposal], int] = lambda proposal: 0
    limits: Limits = field(default_factory=Limits)
    cpus: frozenset[int] = frozenset()
    starter: Starter = field(default_factory=Starter)
    judge: Judge | None = None

    @cached_property
    def mask(self) -> Mask:
        """The objective's secrets, which must not be stored."""
        objective = self.objective
        return Mask(secrets_of({**os.environ, **objective.environment}, objective.environment_from))

    def run(self, proposal: Proposal, attempts: int) -> Outcome:
        """Start the objective at a point, and supervise it to its end.

        attempts: the number of its starts, including this one.
        Raises Interrupted if this process was asked to stop meanwhile, JobLimit if the job's limits
        ended it, CannotStart if nothing can be started, NotStarted if nothing can be started now,
        StarterDied if its end is unknown.
        """
        files = self.files_of(proposal)
        places = files.places
        call = call_of(self.objective, proposal, places, self.names, self.seed_of(proposal))
        made_of = (self.objective.output_limit, self.mask)

        def prepare() -> tuple[Kept, Kept]:
            prepare_folder(places, proposal)
            return Kept(files.stdout, *made_of), Kept(files.stderr, *made_of)

        # Steps that fail on a full disk come first, since the objective must not start twice.
        streams = patiently(prepare, what=f"preparing {proposal.id}", heed=StopSignal.heed)
        began, clock = time.time(), time.monotonic()
        course = self.course(proposal, began=clock)
        made: list[Outcome] = []

        def ended(end: End) -> None:
            verdict = Verdict(end.status, end.message)
            if end.status == "ok":
                verdict = judge_file(places.outcome, end.last_line, self.constraints, end.before)
            elif not end.by_job and (
                known := known_of(places.outcome, self.constraints, end.status)
            ):
                verdict = replace(known, message=end.message)
            if end.late is not None:
                verdict, end = _judge_late(verdict, end.late)
            verdict = course.said(verdict)
            duration = time.monotonic() - clock - course.suspended
            made.append(self.outcome(proposal, verdict, attempts, began, time.time(), duration))
            _note(places, made[0], final=not end.by_job)
            if end.by_job:
                raise JobLimit(made[0], _wrote_checkpoint(places, began))

        try:
            started = self.starter.start(call, self.objective, places, self.cpus)
            try:
                bounds = Bounds.of(self.objective, self.limits)
                supervise(started, call.document, places, streams, bounds, ended, course)
            finally:
                started.close()
        finally:
            for stream in streams:
                stream.close()
        started.check(self.objective, call)
        return made[0]

    def adopt(self, proposal: Proposal, attempts: int) -> Outcome | None:
        """The outcome of a start whose supervisor died, if it left one. Waits for processes that
        still run.

        attempts: the number of its starts. Raises Interrupted and JobLimit as `run` does.
        """
        places = self.files_of(proposal).places
        if not attempts and not places.workdir.exists():
            return None
        if not _is_of(places, proposal):
            leftovers.kill(leftovers.find(places))
            return None
        with contextlib.suppress(UserError, OSError):
            noted = find_outcome(places.ended, proposal)
            if noted is not None:
                leftovers.kill(leftovers.find(places))
                return noted

        course = self.course(proposal)
        course.decision = course.noted.read()
        if course.decision is not None:  # it counts, whichever process died after it
            leftovers.kill(leftovers.find(places))
        left = leftovers.wait(
            places, self.objective, self.limits, self.constraints, StopSignal.heed
        )
        if course.decision is not None and (left.verdict is None or course.cut_short):
            verdict = Verdict(STOPPED, str(course.decision))
            left = replace(left, finished=course.noted.time or left.finished)
        elif left.end is None and left.verdict is None:
            return None
        else:
            verdict = left.verdict or Verdict(left.end.status, left.end.message)  # type: ignore[union-attr]
        verdict = course.said(verdict)
        message = "; ".join(filter(None, (verdict.message, "" if left.end else ADOPTED)))
        outcome = self.outcome(
            proposal,
            replace(verdict, message=message),
            attempts,
            left.started,
            left.finished,
            max(0.0, left.finished - left.started),
        )
        if left.end is not None and left.end.by_job:
            raise JobLimit(outcome)
        return outcome

    def course(self, proposal: Proposal, began: float | None = None) -> Course:
        """The course of a point's evaluation.

        began: its start by the monotonic clock, None if unknown.
        """
        places, asks = self.files_of(proposal).places, bool(self.objective.callable)
        return Course(proposal.id, places, self.constraints, self.judge, asks=asks, began=began)

    def outcome(
        self,
        proposal: Proposal,
        verdict: Verdict,
        attempts: int,
        started: float,
        finished: float,
        duration: float,
    ) -> Outcome:
        """The outcome of an evaluation to store, without the objective's secrets."""
        files = self.files_of(proposal)
        said = pictures.kept(verdict.fields.get("metadata", {}), files.workdir, files.picture)
        metadata = each_text(said, self.mask.text)
        return Outcome(
            iteration=proposal.iteration,
            slot=proposal.slot,
            parameters_digest=digest_parameters(proposal.parameters),
            status=verdict.status,
            duration=duration,
            attempts=attempts,
            host=socket.gethostname(),
            job=os.environ.get("SLURM_JOB_ID", ""),
            started=started,
            finished=finished,
            message=one_line(self.mask.text(verdict.message), MAX_MESSAGE),
            **{**verdict.fields, "metadata": metadata},
        )

    def runs(self, proposal: Proposal) -> bool:
        """Whether a process of an earlier start still runs, on this host."""
        places = self.files_of(proposal).places
        return places.workdir.exists() and bool(
            leftovers.find(places)
        )  # no folder exists before a start

    def tidy(self, proposal: Proposal) -> None:
        """Remove an evaluation's files. Its outcome is on disk."""
        places = self.files_of(proposal).places
        for note in (places.started, places.ended):
            with contextlib.suppress(OSError):
                note.unlink(missing_ok=True)
        if not self.objective.keep_workdir:
            shutil.rmtree(places.workdir, ignore_errors=True)


def _judge_late(verdict: Verdict, stopped: End) -> tuple[Verdict, End]:
    """The verdict on a report that came after its program was asked to stop."""
    known = {"": verdict.fields.get("objective", math.nan), **verdict.fields.get("objectives", {})}
    if verdict.status in RAN or any(map(math.isfinite, known.values())):
        late = f"late, but valid: {stopped.message}"
        message = "; ".join(filter(None, (verdict.message, late)))
        return replace(verdict, message=message), End(verdict.status)
    if stopped is INTERRUPTED:
        raise Interrupted
    return Verdict(stopped.status, stopped.message, verdict.fields), stopped


def prepare_folder(places: Places, proposal: Proposal) -> None:
    """Leave only the parameters and earlier progress in the private folder of an evaluation.

    A kill at any moment leaves that progress: where there is some, its file is replaced as a whole,
    and the parameters, which say whose it is, stay.
    """
    before = _reported_before(places, proposal)
    if not before:
        shutil.rmtree(places.workdir, ignore_errors=True)
        places.workdir.mkdir(parents=True, exist_ok=True)
        places.parameters.write_text(json.dumps(proposal.parameters), encoding="utf-8")
        return
    for entry in places.workdir.iterdir():
        if entry in (places.parameters, places.progress):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    temporary = places.progress.with_suffix(".tmp")
    temporary.write_bytes(before)
    os.replace(temporary, places.progress)


def _wrote_checkpoint(places: Places, began: float) -> bool:
    """Whether an evaluation that began at this time has written to its checkpoint."""
    with contextlib.suppress(OSError):
        files = places.checkpoint.rglob("*") if places.checkpoint else ()
        return any(file.is_file() and file.stat().st_mtime >= began - 1.0 for file in files)
    return False


def _reported_before(places: Places, proposal: Proposal) -> bytes:
    """The lines of progress from an earlier start that left a checkpoint; else empty.

    If the program goes on from there, it reports later steps. If it begins again, its first steps
    replace these.
    """
    with contextlib.suppress(OSError):
        if places.checkpoint and os.listdir(places.checkpoint) and _is_of(places, proposal):
            return last_lines(places.progress)
    return b""


def _is_of(places: Places, proposal: Proposal) -> bool:
    """Whether the files in a private folder belong to exactly this point."""
    try:
        digest = digest_parameters(read_json(places.parameters))
    except (OSError, ValueError, RecursionError, AttributeError):
        return False
    return digest == digest_parameters(proposal.parameters)


def _note(places: Places, outcome: Outcome, *, final: bool) -> None:
    """Keep an outcome where the next owner of the point looks, in case this process is killed now.

    That takes a millisecond, since this file need not survive a crash of the machine. Next, this
    process writes the outcome to disk for good. A document that did not count is moved aside.
    """
    with contextlib.suppress(OSError):
        if outcome.status not in ("ok", "infeasible") and places.outcome.exists():
            os.replace(places.outcome, places.outcome.with_suffix(".rejected.json"))
    if not final:
        return
    with contextlib.suppress(OSError):
        temporary = places.ended.with_suffix(".tmp")
        write_outcomes(temporary, [outcome], durable=False)
        os.replace(temporary, places.ended)
