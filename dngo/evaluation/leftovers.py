"""What a dead supervisor left: running processes, and outcomes that it did not record.

The kernel ends a supervisor's program together with the supervisor, but not the program's children.
Under a wrapper that does not `exec` (a shell script, `conda run`), the evaluation goes on. It was
paid for, so dngo waits for it. Its report at `{outcome}` counts if it is complete and valid,
although its exit status is unknown. So a program should write its outcome last, or rename it into
place.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from dngo.config import Objective
from dngo.evaluation.command import Places
from dngo.evaluation.document import adoptable, read_report
from dngo.evaluation.limits import Bounds, End, Limits, memory_of
from dngo.outcomes import Verdict
from dngo.storage.patience import is_away, patiently
from dngo.storage.processes import host, since_boot, start_ticks
from dngo.thresholds import Constraints

LOOK = 0.25  # seconds between looks at processes that still run
SETTLED = 5.0  # seconds to wait for a process that has already written its outcome


@dataclass(frozen=True)
class Left:
    """How such an evaluation ended: by a limit, or with a complete report.

    started, finished: wall clock.
    """

    end: End | None
    verdict: Verdict | None
    started: float
    finished: float


def find(places: Places) -> list[psutil.Process]:
    """The processes on this host that belong to the evaluation in a folder.

    They inherit an environment variable, or belong to the session of the evaluation.
    """
    note = _note(places)
    here = all(note.get(k) == v for k, v in host().items())
    session, ticks = (note.get("pid"), note.get("ticks") or 0) if here else (None, 0)
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        with contextlib.suppress(psutil.Error, OSError):
            marked = process.environ().get("DNGO_WORKDIR") == str(places.workdir)
            began = start_ticks(process.pid)
            same = session is not None and os.getsid(process.pid) == session
            if began is not None and (marked or (same and began >= ticks)):
                found.append(process)
    return found


def kill(processes: list[psutil.Process]) -> None:
    """End processes at once."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def tell(processes: list[psutil.Process], number: int) -> None:
    """Send a signal to the processes that handle it. It would end the others."""
    for process in processes:
        with contextlib.suppress(OSError, ValueError, psutil.Error):
            status = Path(f"/proc/{process.pid}/status").read_text()
            caught = int(status.partition("SigCgt:")[2].split()[0], 16)
            if caught >> (number - 1) & 1:
                process.send_signal(number)


def wait(
    places: Places,
    objective: Objective,
    job: Limits,
    constraints: Constraints,
    interrupted: Callable[[], None],
) -> Left:
    """Wait for an evaluation's remaining processes, within its limits. Returns how it ended.

    interrupted: raises if this process was asked to stop; then running processes are ended.
    """
    note = _note(places)
    bounds = Bounds.of(objective, job, _elapsed(note))
    whole_since: tuple[bytes, float] | None = None
    end: End | None = None
    processes = find(places)
    if processes:
        numbers = ", ".join(str(p.pid) for p in processes[:5])
        print(f"{places.workdir}: still running (process {numbers}); waiting for it", flush=True)
    try:
        while processes and end is None:
            interrupted()
            report = _report(places)
            if adoptable(report, constraints) is None:
                whole_since = None
            elif whole_since is None or whole_since[0] != report:
                whole_since = (report or b"", time.monotonic())
            elif time.monotonic() - whole_since[1] > SETTLED:
                break
            if time.monotonic() >= bounds.deadline:
                end = bounds.out_of_time()
            elif bounds.exceeded(memory_of(processes)):
                end = bounds.out_of_memory()
            else:
                time.sleep(LOOK)
            processes = find(places)
    finally:
        kill(processes)
    verdict = None if end else adoptable(_report(places), constraints)
    finished = time.time()
    with contextlib.suppress(OSError):
        finished = places.outcome.stat().st_mtime
    return Left(end, verdict, float(note.get("time") or finished), finished)


def _note(places: Places) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        note = json.loads(places.started.read_text())
        if isinstance(note, dict):
            return note
    return {}


def _elapsed(note: dict[str, Any]) -> float:
    """Seconds since the evaluation started, 0 if unknown."""
    if note.get("boot") != host()["boot"] or not isinstance(note.get("ticks"), int):
        return 0.0
    return max(0.0, since_boot() - note["ticks"] / os.sysconf("SC_CLK_TCK"))


def _report(places: Places) -> bytes | None:
    with contextlib.suppress(OSError, ValueError):
        path = places.outcome
        return patiently(lambda: read_report(path), what=f"reading {path}", refusal=is_away)
    return None
