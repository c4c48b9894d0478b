"""Slurm's reasons for not taking or starting a job: whether they pass, and what to change.

All decisions here depend on Slurm's words and on a clock that is passed in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

STAYS_FOR = 20.0  # seconds for which a reason must hold before it is believed not to pass
PATIENCE = 60.0  # seconds that jobs wait before it is said what for
AGAIN = 3600.0  # seconds after which it is said once more

# What sbatch says when it may accept the same job later.
_PASSES = re.compile(
    r"(Max|Grp)Submit|temporarily|\(inactive or drain\)|contact slurm controller|timed out"
    r"|Connection refused|communication connection|Zero Bytes|Resource unavailable"
    r"|authentication|munge|Socket|database",
    re.I,
)
# What it says where it may have accepted the job even so.
_UNCERTAIN = re.compile(
    r"timed out|Zero Bytes|communication|Socket|Connection reset|Unexpected message", re.I
)
# What it says of a job that it will never accept, and the resource that the user must change.
_STAYS = (
    (re.compile(r"invalid partition", re.I), "slurm_partition"),
    (
        re.compile(r"invalid account|account .* (appears|is) (to be )?invalid", re.I),
        "slurm_account",
    ),
    (re.compile(r"invalid qos", re.I), "qos"),
    (re.compile(r"invalid license", re.I), "slurm_extra"),
    (re.compile(r"reservation", re.I), "slurm_extra"),
    (re.compile(r"time limit is invalid|WallDuration|TimeLimit|MinutesPerJob", re.I), "runtime"),
    (re.compile(r"memory|MaxMem|MinMem", re.I), "mem_mb"),
    (re.compile(r"feature", re.I), "constraint"),
    (re.compile(r"generic resource|gres", re.I), "gpu"),
    (re.compile(r"CPU count|processors|MaxCpu|MinCpu", re.I), "threads"),
    (re.compile(r"node count|NodePerJob|MinNode", re.I), "nodes"),
    (re.compile(r"node configuration is not available", re.I), "threads, mem_mb or constraint"),
)
# When all remaining nodes are excluded, or an excluded node no longer exists.
_NO_NODE = re.compile(r"node configuration is not available|Invalid node name", re.I)

# Why a job is pending that will never start as it is, and the resource that the user must change.
_NEVER = (
    (re.compile(r"InvalidAccount|AccountNotAllowed|account not permitted"), "slurm_account"),
    (re.compile(r"InvalidQOS|QOSNotAllowed|QOS not permitted"), "qos"),
    (re.compile(r"MinutesPerJob|WallDuration|(Partition|QOS|Association)TimeLimit"), "runtime"),
    (re.compile(r"(Cpu|CPU)\w*Per(Job|Node)|MinCpu|MinCPU"), "threads"),
    (re.compile(r"Mem(ory)?Per(Job|Node)|MinMem|MaxMemPerLimit"), "mem_mb"),
    (re.compile(r"G(RES|res)Per(Job|Node)|MinG(RES|res)"), "gpu"),
    (
        re.compile(r"NodePerJob|MinNode|PartitionNodeLimit|PartitionConfig"),
        "nodes or slurm_partition",
    ),
    (re.compile(r"(BB|Energy|License|Billing|Unknown)Per(Job|Node)"), "slurm_extra"),
    (re.compile(r"BadConstraints"), "constraint, threads or mem_mb"),
    (re.compile(r"DependencyNeverSatisfied|DeadLine|ReservationDeleted"), "slurm_extra"),
)
# Limits on what all of a user's jobs hold together: one job alone may be beyond them.
_TOGETHER = (
    (re.compile(r"(Cpu|CPU)PerUser|Grp(Cpu|CPU)Limit"), "threads"),
    (re.compile(r"Mem(ory)?PerUser|GrpMem\w*Limit"), "mem_mb"),
    (re.compile(r"G(RES|res)PerUser|GrpG(RES|res)\w*Limit"), "gpu"),
)
_USUAL = {"", "None", "Priority", "Resources", "BeginTime", "Prolog", "Cleaning"}


@dataclass(frozen=True)
class Refusal:
    """Why `sbatch` did not accept a job.

    words: Slurm's own.  passes: whether the same job may be accepted later.  key: the resource that
    must be changed, "" where that is not known.
    """

    words: str
    passes: bool = False
    key: str = ""

    @classmethod
    def read(cls, words: str) -> Refusal:
        """The refusal in what sbatch printed, on one line."""
        words = " ".join(words.split())
        if _PASSES.search(words):
            return cls(words, passes=True)
        keys = (key for pattern, key in _STAYS if pattern.search(words))
        return cls(words, key=next(keys, ""))

    @property
    def uncertain(self) -> bool:
        """Whether the job may have been accepted even so."""
        return bool(_UNCERTAIN.search(self.words))

    @property
    def for_want_of_nodes(self) -> bool:
        """Whether there may be no node left because some are excluded."""
        return bool(_NO_NODE.search(self.words))


def key_of(reason: str) -> str:
    """The resource that must be changed for a pending job to start; "" if waiting may help."""
    return next((key for pattern, key in _NEVER if pattern.search(reason)), "")


class Row(NamedTuple):
    """What `squeue` says of a job.  node: where its script runs or ran.  tag: see `submission`."""

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
    """What the jobs of a run wait for, and since when: what to say of it, and when.

    run: the name of its jobs.  Times are seconds of any monotonic clock.
    """

    run: str
    _since: dict[str, float] = field(default_factory=dict)  # a reason, or "" for: nothing runs
    _said: dict[str, float] = field(default_factory=dict)
    _never: dict[str, float] = field(default_factory=dict)  # a job, by its number

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
        """What to tell the user now; rows: of the jobs that are not over, by number."""
        waiting: dict[str, list[str]] = {}
        for job, row in rows.items():
            if row.state == "PENDING":
                waiting.setdefault(row.reason.split(",")[0], []).append(job)
            elif row.state not in ("RUNNING", "COMPLETING"):
                waiting.setdefault(row.state.lower(), []).append(job)
        odd = {reason for reason in waiting if reason not in _USUAL and not key_of(reason)}
        idle = bool(rows) and not any(
            row.state in ("RUNNING", "COMPLETING") for row in rows.values()
        )
        current = odd | ({""} if idle and not odd else set())
        self._since = {reason: self._since.get(reason, now) for reason in current}
        said = []
        for reason in sorted(current):
            held = "held" in reason.lower() or "hold" in reason.lower()
            since, last = self._since[reason], self._said.get(reason)
            if now - since >= (0.0 if held else PATIENCE) and (last is None or now - last >= AGAIN):
                self._said[reason] = now
                full = next(
                    (r.reason for r in rows.values() if r.reason.startswith(reason)), reason
                )
                said.append(
                    self._of(reason, full, waiting[reason]) if reason else self._idle(waiting)
                )
        return said

    def _of(self, reason: str, full: str, jobs: Sequence[str]) -> str:
        number = _jobs(len(jobs))
        if "held" in reason.lower() or "hold" in reason.lower():
            return f"Slurm holds {number} ({reason}); `scontrol release {','.join(jobs)}` lets go."
        key = next((key for pattern, key in _TOGETHER if pattern.search(reason)), "")
        hint = (
            f" If nothing else is running, one job alone is beyond it: change {key}." if key else ""
        )
        if reason == reason.lower():  # a state
            return f"{number} in Slurm's state {reason.upper()} and not running; waiting."
        return f"Slurm does not start {number} yet: {full}; waiting.{hint}"

    def _idle(self, waiting: Mapping[str, Sequence[str]]) -> str:
        total = sum(map(len, waiting.values()))
        reasons = ", ".join(sorted(r for r in waiting if r not in ("", "None")))
        said = f" ({reasons})" if reasons else ""
        when = f"`squeue --start --name {self.run}` says when Slurm expects to start them"
        return f"{_jobs(total)} in Slurm's queue and none running{said}; waiting. {when}."


def _jobs(number: int) -> str:
    return f"{number} job{'s' if number != 1 else ''}"
