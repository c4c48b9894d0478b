"""Functions that other processes evaluate. They must be able to import them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def _note() -> None:
    with open(os.environ["DNGO_TEST_RUNS"], "a") as stream:
        stream.write(os.environ["DNGO_ID"] + "\n")


def counted(x: float, y: float) -> float:
    """A value, and a line for each run: the proof of what was evaluated."""
    _note()
    return (x - 0.3) ** 2 + (y - 0.6) ** 2


def slowly(x: float, y: float) -> float:
    """The same after a while."""
    time.sleep(1.5)
    return counted(x, y)


def sleeps(x: float, y: float) -> float:
    """Longer than it may."""
    time.sleep(60)
    return x


def fails(x: float, y: float) -> float:
    """At every point."""
    raise ValueError("no")


def wrong(x: float, y: float) -> float:
    """A mistake of the function."""
    return undefined_name + x  # type: ignore[name-defined]  # noqa: F821


def ends_its_worker(x: float, y: float) -> float:
    """The process of the executor dies once, if a file says so, as if the system had killed it."""
    path = Path(os.environ["DNGO_TEST_RUNS"]).with_name("kill")
    if path.exists() and os.environ["DNGO_ID"].endswith("-2"):
        path.unlink()
        worker = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(worker, signal.SIGKILL)
        time.sleep(60)
    return counted(x, y)
