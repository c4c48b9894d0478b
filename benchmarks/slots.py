"""Where the slots of a cluster were while no objective ran in them, by cause.

From what Slurm's controller logged of its jobs, to the millisecond, and the archive's times of the
evaluations. Every moment in which a slot runs no objective is put down to one cause.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

# In the order in which they are shown.
START = "a job starts"
END = "a job ends"
BETWEEN = "between two points of a job"
TAIL = "a job's last points leave its other slots empty"
MODEL = "fit and propose hold the slot"
SLURM = "a job waits, and Slurm has room for it"
FULL = "a job waits, and needs more slots than are free"
SUBMIT = "the batch is not submitted yet"
PROPOSE = "the batch is not proposed yet: fit and propose run"
QUEUE = "fit and propose wait in the queue"
NOTICE = "what fit needs is evaluated, and not merged yet"
STRAGGLERS = "what fit needs is still evaluated"
NOTHING = "nothing is left to do"
CAUSES = (START, END, BETWEEN, TAIL, MODEL, SLURM, FULL)
CAUSES += (SUBMIT, PROPOSE, QUEUE, NOTICE, STRAGGLERS, NOTHING)

_SAID = re.compile(
    r"\[(?P<at>[^\]]+)\] (?:(?P<submitted>_slurm_rpc_submit_batch_job:)|(?P<ended>_job_complete:)"
    r"|(?P<started>sched: Allocate|sched/backfill: _start_job: Started)) JobId=(?P<job>\d+)"
)


@dataclass
class Job:
    """Of Slurm. Times in seconds since the epoch.  evaluations: (start, end) of each of its points."""

    submitted: float
    started: float
    ended: float
    cpus: int = 1
    evaluations: list[tuple[float, float]] = field(default_factory=list)

    def idle(self, at: float) -> tuple[str, int]:
        """Slots of a running job in which no objective runs, and why."""
        busy = sum(b <= at < e for b, e in self.evaluations)
        if not self.evaluations:
            return MODEL, self.cpus
        if at < min(b for b, _ in self.evaluations):
            return START, self.cpus
        if at >= max(e for _, e in self.evaluations):
            return END, self.cpus
        yet_to_start = sum(b > at for b, _ in self.evaluations)
        return (BETWEEN if yet_to_start else TAIL), self.cpus - busy


@dataclass
class Batch:
    """model: the job that fits and proposes it.  jobs: its evaluations.

    trained_on: when the last evaluation ended that its fit needs; 0 for the design.
    """

    model: Job
    trained_on: float
    jobs: list[Job]

    def awaits(self, at: float) -> str:
        """What the batch waits for, some of whose jobs are not submitted at that moment."""
        if at >= self.model.ended:
            return SUBMIT
        if at >= self.model.started:
            return PROPOSE
        if at >= self.model.submitted:
            return QUEUE
        return NOTICE if at >= self.trained_on else STRAGGLERS


def read_jobs(log: str, cpus: dict[int, int]) -> dict[int, Job]:
    """The jobs that ended, by number, from a controller's log.  cpus: of each job."""
    times: dict[int, dict[str, float]] = {}
    for found in _SAID.finditer(log):
        at = datetime.fromisoformat(found["at"]).timestamp()
        what = next(k for k in ("submitted", "started", "ended") if found[k])
        times.setdefault(int(found["job"]), {})[what] = at
    return {
        number: Job(t["submitted"], t["started"], t["ended"], cpus.get(number, 1))
        for number, t in times.items()
        if len(t) == 3
    }


def losses(
    batches: Sequence[Batch], slots: int, begin: float, end: float
) -> tuple[float, dict[str, float]]:
    """Share of the slots' time in which an objective runs, and the share that each cause takes."""
    jobs = [job for batch in batches for job in (batch.model, *batch.jobs)]
    evaluations = [e for job in jobs for e in job.evaluations]
    moments = {begin, end, *(t for e in evaluations for t in e)}
    moments |= {t for job in jobs for t in (job.submitted, job.started, job.ended)}
    moments |= {batch.trained_on for batch in batches}
    busy, lost = 0.0, Counter[str]()
    for left, right in pairwise(sorted(t for t in moments if begin <= t <= end)):
        running = sum(b <= left < e for b, e in evaluations)
        busy += running * (right - left)
        for cause, number in _causes(batches, jobs, left, slots - running):
            lost[cause] += number * (right - left)
    total = slots * (end - begin)
    return busy / total, {cause: lost[cause] / total for cause in CAUSES if lost[cause]}


def _causes(
    batches: Iterable[Batch], jobs: Sequence[Job], at: float, idle: int
) -> Iterable[tuple[str, int]]:
    """Causes of the idle slots of one moment, and the number of slots of each."""
    for job in jobs:
        if job.started <= at < job.ended and idle > 0:
            cause, number = job.idle(at)
            yield cause, min(number, idle)
            idle -= min(number, idle)
    for job in jobs:
        if job.submitted <= at < job.started and job.evaluations and idle > 0:
            if job.cpus > idle:
                yield FULL, idle
                return
            yield SLURM, job.cpus
            idle -= job.cpus
    if idle > 0:
        waiting = (batch for batch in batches if any(at < job.submitted for job in batch.jobs))
        batch = next(iter(waiting), None)
        yield (batch.awaits(at) if batch else NOTHING), idle
