"""What an evaluation may use: by its own limits, by its job's, and by the machine's."""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from dngo.config import Objective


@dataclass(frozen=True)
class End:
    """How an evaluation ended, before its report is read.

    status: "ok" if the report counts.
    last_line: of standard output.
    before: some lines before it.
    by_job: its job's limits ended it, not its own.
    late: how it ended if its report does not count: it ended successfully, but after it had been
    asked to stop.
    """

    status: str
    message: str = ""
    last_line: str = ""
    before: tuple[str, ...] = ()
    by_job: bool = False
    late: End | None = None


@dataclass(frozen=True)
class Limits:
    """What the job that evaluates may use: deadline (seconds, monotonic clock), memory (bytes), CPUs.

    cut: a text if the job has less time than it asked for.
    """

    deadline: float = math.inf
    memory: float = math.inf
    cpus: float = math.inf
    cut: str = ""

    @classmethod
    def from_now(cls, given: dict[str, Any]) -> Limits:
        """The limits that a job has at its start: "seconds", "memory", "cpus" and "cut", if any."""
        seconds, memory, cpus = (
            float(given.get(k, math.inf)) for k in ("seconds", "memory", "cpus")
        )
        return cls(time.monotonic() + seconds, memory, cpus, str(given.get("cut", "")))


@dataclass(frozen=True)
class Bounds:
    """One evaluation's own limits within those of its job."""

    time_limit: float  # seconds
    own: Limits
    job: Limits

    @classmethod
    def of(cls, objective: Objective, job: Limits, elapsed: float = 0.0) -> Bounds:
        """The bounds of an evaluation that started `elapsed` seconds ago."""
        time_limit = objective.time_limit or math.inf
        memory = objective.memory_mb * 2**20 if objective.memory_mb else memory_to_hand()
        return cls(time_limit, Limits(time.monotonic() + time_limit - elapsed, memory), job)

    @property
    def deadline(self) -> float:
        return min(self.own.deadline, self.job.deadline)

    @property
    def memory(self) -> float:
        return min(self.own.memory, self.job.memory)

    def exceeded(self, used: float) -> bool:
        """Whether this number of resident bytes is too large for the limits or the machine."""
        return used > self.memory or _machine_is_full(used)

    def out_of_time(self) -> End:
        """The end of a run that met the deadline."""
        if self.job.deadline < self.own.deadline:
            cut = f" ({self.job.cut})" if self.job.cut else ""
            return End("timeout", f"stopped: its job ran out of time{cut}", by_job=True)
        return End("timeout", f"stopped after {self.time_limit:g} s")

    def out_of_memory(self) -> End:
        """The end of a run that used too much memory."""
        return self.short_of_memory(
            f"stopped: more than {self.memory / 2**20:.0f} MB, or the machine was full"
        )

    def short_of_memory(self, message: str) -> End:
        """The end of a run that lacked memory, also if dngo noticed it first.

        A larger job may succeed.
        """
        return End("out_of_memory", message, by_job=self.job.memory < self.own.memory)


def memory_of(processes: list[psutil.Process]) -> float:
    """Resident bytes of some processes together."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def memory_below(pid: int | None) -> float:
    """Resident bytes of a process and all its descendants."""
    if not os.path.exists(
        f"/proc/self/task/{os.getpid()}/children"
    ):  # not Linux: look at all processes
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            return memory_of([process, *process.children(recursive=True)])
        return 0.0
    pages, found = 0, [pid]
    for process_id in found:  # the list grows during the loop
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
            for task in os.listdir(f"/proc/{process_id}/task"):
                children = Path(f"/proc/{process_id}/task/{task}/children").read_text()
                found += map(int, children.split())
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory_to_hand() -> float:
    """Bytes that an evaluation may use if no limit is configured: the free memory, less a reserve.

    An objective without bounds must not bring down the machine, this process or the study.
    """
    free = float(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup/memory.max")
    with contextlib.suppress(OSError, ValueError):
        used = float(Path("/sys/fs/cgroup/memory.current").read_text())
        free = min(free, float(group.read_text()) - used)
    return max(0.9 * free, 64 * 2**20)


def kernel_kills() -> int:
    """How many processes this kernel has killed so far because memory ran out."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _machine_is_full(used: float) -> bool:
    # Together, evaluations can fill the machine although each keeps within its limit. The cause is
    # then an evaluation that uses more than its share.
    memory = psutil.virtual_memory()
    fair = memory.total / (1 + (os.cpu_count() or 1))
    return memory.available < 0.04 * memory.total and used > fair
