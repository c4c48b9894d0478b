"""The shares of a job. Each point that it evaluates at the same time has one."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from typing import Literal

from dngo.evaluation.limits import Limits, memory_to_hand


@dataclass(frozen=True)
class Slot:
    """One share: limits, CPUs by number (none: whichever are free) and environment variables."""

    limits: Limits
    cpus: frozenset[int] = frozenset()
    environment: dict[str, str] = field(default_factory=dict)


def slots(at_once: int | Literal["auto"], threads: int, limits: Limits) -> list[Slot]:
    """The shares of this job for `at_once` points side by side; "auto": one share for every
    `threads` CPUs.

    threads: CPUs of one evaluation. limits: the job's.
    """
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    # If a cluster hands out whole nodes, a job may have more CPUs than it asked for.
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")
    available = min(int(given) if given.isdigit() else len(cpus), limits.cpus)
    number = max(1, int(available // threads)) if at_once == "auto" else at_once
    if number == 1:
        return [Slot(limits)]
    memory = limits.memory if math.isfinite(limits.memory) else memory_to_hand()
    share = replace(limits, memory=memory / number)
    devices = [d for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d]
    each = max(1, len(devices) // number)
    found = []
    for i in range(number):
        environment = {"OMP_NUM_THREADS": str(threads)}
        if devices:
            first = i * each % len(devices)
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(devices[first : first + each])
        bound = len(cpus) >= number * threads
        mine = frozenset(cpus[i * threads : (i + 1) * threads] if bound else ())
        found.append(Slot(share, mine, environment))
    return found
