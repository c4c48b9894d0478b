"""Waiting for an event. No test decides by the time that something takes: a busy machine takes any time."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(happens: Callable[[], T], process: subprocess.Popen | None = None) -> T:
    """What is true, once it is. It is an error if the process ends before; pytest ends what hangs."""
    while not (found := happens()):
        assert process is None or process.poll() is None, "it has ended"
        time.sleep(0.02)
    return found
