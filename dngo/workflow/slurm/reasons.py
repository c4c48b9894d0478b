"""Slurm's reasons for not starting a job. Does a reason pass, and what can the user change?

The decisions here depend only on Slurm's words, and on a time that the caller passes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

STAYS_FOR = 20.0  # seconds after which a reason counts as one that will not pass
PATIENCE = 60.0  # seconds of waiting before the user reads the reason
AGAIN = 3600.0  # seconds after which the user reads it again
IDLE = 120.0  # the same while no job of the run is running
OFTEN = 3  # times that a job is queued again before the user reads of it; then twice as many
MUTE = "MUTE"  # our state of a job that has run for PATIENCE, and has not said that it begins

# Reasons of a pending job that will never start. Each comes with the resource that the user must
# change.
_NEVER = (
    (re.compile(r"InvalidAccount|AccountNotAllowed"), "slurm_account"),
    (re.compile(r"InvalidQOS|QOSNotAllowed"), "qos"),
    (re.compile(r"MinutesPerJob|WallDuration|(Partition|QOS|Association)TimeLimit"), "runtime"),
    (re.compile(r"(Cpu|CPU)\w*Per(Job|Node)|MinCpu|MinCPU"), "threads"),
    (re.compile(r"Mem(ory)?Per(Job|Node)|MinMem|MaxMemPerLimit"), "mem_mb"),
    (re.compile(r"G(RES|res)Per(Job|Node)|MinG(RES|res)"), "gpu"),
    (
        re.compile(r"NodePerJob|MinNode|PartitionNodeLimit|PartitionConfig"),
        "nodes or slurm_partition",
    ),
    (re.compile(r"(BB|Energy|License|Billing|Unknown)Per(Job|Node)"), "slurm_extra"),
    (re.compile(r"QOSMin(BB|Energy|License|Billing|Unknown)"), "slurm_extra"),
    (re.compile(r"BadConstraints"), "constraint, threads or mem_mb"),
    (re.compile(r"DependencyNeverSatisfied|DeadLine|Reservation(Deleted|Invalid)"), "slurm_extra"),
)
_SENTENCES = (
    (re.compile(r"Job's account not permitted to use this partition\b"), "slurm_account"),
    (re.compile(r"Job's QOS not permitted to use this partition\b"), "qos"),
)
# Limits on the sum of a user's jobs. A single job may exceed them.
_TOGETHER = (
    (re.compile(r"(Cpu|CPU)PerUser|Grp(Cpu|CPU)Limit"), "threads"),
    (re.compile(r"Mem(ory)?PerUser|GrpMem\w*Limit"), "mem_mb"),
    (re.compile(r"G(RES|res)PerUser|GrpG(RES|res)\w*Limit"), "gpu"),
)
_USUAL = {"", "None", "Priority", "Resources", "BeginTime", "Prolog", "Cleaning"}


def key_of(reason: str) -> str:
    """The resource to change so that a pending job can start; "" if waiting may help."""
    return _key(reason, _NEVER) or next((key for form, key in _SENTENCES if form.match(reason)), "")


def shared_key_of(reason: str) -> str:
    """The resource to change if one job alone exceeds a limit on the sum of a user's jobs."""
    return _key(reason, _TOGETHER)


def _key(reason: str, patterns: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """The key of a reason that is one of Slurm's names. The words of a site have no key."""
    name = reason.partition(",")[0].strip()
    if not re.fullmatch(r"[A-Z][A-Za-z]+", name):
        return ""
    return next((key for pattern, key in patterns if pattern.search(name)), "")


class Row(NamedTuple):
    """A job as `squeue` lists it. node: where its script runs or ran. tag: see `submission`."""

    state: str
    reason: str = ""
    node: str = ""
    tag: str = ""


def minutes(limit: str) -> float:
    """A time limit as Slurm prints it, [days-][[hours:]minutes:]seconds; infinite for any other text."""
    days, _, rest = limit.strip().rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in [days or "0", *parts]) or len(parts) > 3:
        return math.inf
    hours, mins, seconds = ([0, 0] + [int(part) for part in parts])[-3:]
    return 1440 * int(days or 0) + 60 * hours + mins + seconds / 60


@dataclass
class Queue:
    """What the jobs of a run wait for, and since when. It decides what to tell the user, and when.

    run: the name of its jobs.  Times are seconds of any monotonic clock.
    """

    run: str
    _since: dict[str, float] = field(default_factory=dict)  # by reason; "" means that no job runs
    _said: dict[str, float] = field(default_factory=dict)
    _never: dict[str, float] = field(default_factory=dict)  # by the job's number
    _ran: set[str] = field(default_factory=set)  # the jobs that were last seen at work
    _again: dict[str, int] = field(default_factory=dict)  # how often a job was queued again
    _told: int = 0  # the most of these that the user has read

    def never(self, rows: Mapping[str, Row], now: float) -> dict[str, str]:
        """The jobs that will never start as they are, by number, and the resource to change."""
        found = {
            job: key
            for job, row in rows.items()
            if row.state == "PENDING" and (key := key_of(row.reason))
        }
        self._never = {job: self._never.get(job, now) for job in found}
        return {job: key for job, key in found.items() if now - self._never[job] >= STAYS_FOR}

    def hear(self, rows: Mapping[str, Row], now: float) -> list[str]:
        """Messages for the user now. rows: by number, the jobs that are not over."""
        waiting: dict[str, list[str]] = {}
        for job, row in rows.items():
            if row.state == "PENDING":
                waiting.setdefault(row.reason.split(",")[0], []).append(job)
            elif row.state != "RUNNING":
                waiting.setdefault(row.state.lower(), []).append(job)
        odd = {reason for reason in waiting if reason not in _USUAL and not key_of(reason)}
        idle = bool(rows) and not any(
            row.state in ("RUNNING", "COMPLETING") for row in rows.values()
        )
        current = odd | ({""} if idle and not odd else set())
        self._since = {reason: self._since.get(reason, now) for reason in current}
        said = self._often(rows)
        for reason in sorted(current):
            held = "held" in reason.lower() or "hold" in reason.lower() or reason == MUTE.lower()
            since, last = self._since[reason], self._said.get(reason)
            again = IDLE if idle else AGAIN
            if now - since >= (0.0 if held else PATIENCE) and (last is None or now - last >= again):
                self._said[reason] = now
                full = next(
                    (r.reason for r in rows.values() if r.reason.startswith(reason)), reason
                )
                said.append(
                    self._of(reason, full, waiting[reason]) if reason else self._idle(waiting)
                )
        return said

    def _often(self, rows: Mapping[str, Row]) -> list[str]:
        """A message if Slurm has queued a job again and again after it ran."""
        waits = {job for job, row in rows.items() if row.state == "PENDING"} & self._ran
        self._ran -= waits
        self._ran |= {n for n, row in rows.items() if row.state in ("RUNNING", "COMPLETING", MUTE)}
        self._again |= {job: self._again.get(job, 0) + 1 for job in waits}
        job, times = max(self._again.items(), key=lambda found: found[1], default=("", 0))
        if times < max(OFTEN, 2 * self._told):
            return []
        self._told = times
        return [
            f"Slurm has queued job {job} again {times} times: it is preempted, or its nodes fail. What it "
            f"had evaluated is kept. `scontrol show job {job}` says more. Fewer points in a job "
            "(`points_per_job`), or a partition or `qos` whose jobs are not preempted, let it end."
        ]

    def _of(self, reason: str, full: str, jobs: Sequence[str]) -> str:
        number = _jobs(len(jobs))
        if "held" in reason.lower() or "hold" in reason.lower():
            return (
                f"Slurm holds {number} ({reason}); `scontrol release {','.join(jobs)}` releases "
                "them."
            )
        key = shared_key_of(reason)
        hint = (
            f" If nothing else is running, one job alone exceeds this limit: change {key}."
            if key
            else ""
        )
        if reason == MUTE.lower():
            return (
                f"{number} began in Slurm and did not come to our code: on the node a prolog, Python or a "
                f"file system may hang; waiting. `squeue --jobs={','.join(jobs)}` says which node."
            )
        if reason == reason.lower():  # a state
            return f"{number} in Slurm's state {reason.upper()}, not running; waiting."
        return f"Slurm does not start {number} yet: {full}; waiting.{hint}"

    def _idle(self, waiting: Mapping[str, Sequence[str]]) -> str:
        total = sum(map(len, waiting.values()))
        reasons = ", ".join(sorted(r for r in waiting if r not in ("", "None")))
        said = f" ({reasons})" if reasons else ""
        when = f"`squeue --start --name {self.run}` says when Slurm expects to start them"
        return f"{_jobs(total)} in Slurm's queue and none running{said}; waiting. {when}."


def _jobs(number: int) -> str:
    return f"{number} job{'s' if number != 1 else ''}"
