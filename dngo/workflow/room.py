"""A run on a machine that has no process or thread to spare: Snakemake waits for one, as its jobs do.

It starts each job, and the threads that attend to jobs, once; what the machine refuses would be an error of
the job, and the end of the run.
"""

from __future__ import annotations

import subprocess
import threading
from typing import Any

from snakemake.shell import shell

from dngo.storage.patience import has_no_room, patiently

_start = threading.Thread.start


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    def __init__(self, *words: Any, **options: Any):
        begin = super().__init__
        patiently(lambda: begin(*words, **options), what="starting a process", refusal=has_no_room)


def _start_thread(thread: threading.Thread) -> None:
    patiently(lambda: _start(thread), what="starting a thread", refusal=has_no_room)


def await_room(*, alone: bool) -> None:
    """Have this process, Snakemake's, wait where it would be refused a process or a thread.

    alone: whether all rules are a study's. Then no shell stays beside a script, which it would start by
    another fork.
    """
    if alone:
        shell.prefix("set -euo pipefail; exec ")
    subprocess.Popen = _Popen  # type: ignore[misc]
    threading.Thread.start = _start_thread  # type: ignore[method-assign,assignment]
