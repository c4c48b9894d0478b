"""A run on a machine that refuses: without a process or a thread to spare, or with a full disk.

Jobs wait for what they need. So does Snakemake itself, which starts each job once, with threads that attend
to it, and writes in its own folder what has begun and ended: an error there would be the end of the run.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from snakemake import benchmark, script
from snakemake.persistence import file
from snakemake.shell import shell

from dngo.storage.patience import has_no_disk, has_no_room, patiently

_start = threading.Thread.start


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    def __init__(self, *words: Any, **options: Any):
        begin = super().__init__
        patiently(lambda: begin(*words, **options), what="starting a process", refusal=has_no_room)


def _start_thread(thread: threading.Thread) -> None:
    patiently(lambda: _start(thread), what="starting a thread", refusal=has_no_room)


def _writing(write: Callable[..., Any]) -> Callable[..., Any]:
    def patient(*words: Any, **options: Any) -> Any:
        what = "writing what Snakemake keeps"
        return patiently(lambda: write(*words, **options), what=what, refusal=has_no_disk)

    return patient


def _whole(write: Callable[..., None]) -> Callable[..., None]:
    """Write a script from its beginning, whatever of it was written before."""

    def whole(self: Any, preamble: str, stream: Any) -> None:
        stream.seek(0)
        stream.truncate()
        write(self, preamble, stream)
        stream.flush()

    return whole


def await_room(*, alone: bool) -> None:
    """Have this process, Snakemake's, wait where it would be refused.

    alone: whether all rules are a study's. Then no shell stays beside a script, which it would start by
    another fork.
    """
    if subprocess.Popen is _Popen:
        return
    subprocess.Popen = _Popen  # type: ignore[misc]
    threading.Thread.start = _start_thread  # type: ignore[method-assign,assignment]
    for owner, name, act in (
        (file.FilePersistence, "_io_write", lambda write: write),
        (benchmark, "write_benchmark_records", lambda write: write),
        (script.PythonScript, "write_script", _whole),
    ):
        if hasattr(owner, name):
            setattr(owner, name, _writing(act(getattr(owner, name))))
    logging.raiseExceptions = False  # what a log cannot hold is left out, without a traceback
    if alone:
        shell.prefix("set -euo pipefail; exec ")
