"""Identifies processes reliably, although numbers are used again and clocks may be set."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import socket
import subprocess
import time
from pathlib import Path

import psutil

ANSWER = 20.0  # seconds that Slurm has to answer


def host() -> dict[str, str]:
    """Where a process number is valid: the machine, its boot, its PID namespace."""
    found = {"host": socket.gethostname(), "boot": "", "namespace": ""}
    with contextlib.suppress(OSError):
        found["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        found["namespace"] = os.readlink("/proc/self/ns/pid")
    return found


def start_ticks(pid: int) -> int | None:
    """When a process started, in ticks since boot. None if it is gone, or has ended and only its
    parent has not noticed.

    The wall clock would not do: if it is set, every process seems to have started at another time.
    """
    try:
        # The name in parentheses may contain anything. The fields after it are numbers.
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if status[0] in "ZX" else int(status[19])
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, ValueError, IndexError):
        pass
    try:  # a system without /proc
        process = psutil.Process(pid)
        dead = process.status() == psutil.STATUS_ZOMBIE
        return None if dead else round(process.create_time() * 100)
    except psutil.Error:
        return None


def since_boot() -> float:
    """Seconds since boot, including the machine's sleep. Nobody can set this clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def age(pid: int) -> float:
    """Seconds since a process started, 0 if it is gone."""
    ticks = start_ticks(pid)
    return 0.0 if ticks is None else max(0.0, since_boot() - ticks / os.sysconf("SC_CLK_TCK"))


def is_suspended(job: str) -> bool:
    """Whether Slurm has suspended a job: its processes live, although nothing is heard of them."""
    words = ["squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T"]
    known = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER, env=known)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout.split() == ["SUSPENDED"]


def end_at_once() -> None:
    """Let this process end without a last garbage collection, which takes a job 0.1 to 0.3 s.

    Not for processes with a user's code, which may rely on that collection to close its files.
    """
    atexit.register(gc.freeze)
