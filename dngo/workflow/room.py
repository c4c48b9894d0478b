"""A run waits if the machine has no process or thread left, or if the disk is full.

Jobs wait by themselves. This module makes Snakemake itself wait. It starts each job once, with
threads of its own, and notes in its folder what has begun and ended. An error there would end the
run.
"""

from __future__ import annotations

import errno
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
_workflows: list[Any] = []  # Snakemake's; one runs in this process


def _heed() -> None:
    """End a wait if Snakemake was asked to stop, for example by `kill PID`."""
    for workflow in _workflows:
        if getattr(getattr(workflow, "scheduler", None), "_user_kill", None):
            thread = threading.current_thread()
            if thread is threading.main_thread():
                raise KeyboardInterrupt  # as Ctrl-C does; the scheduler ends
            if type(thread).__module__ == benchmark.__name__:
                raise SystemExit  # a thread that only measures ends quietly
            raise InterruptedError(errno.EINTR, "the run was told to stop")  # ends a job


def _patiently(
    action: Callable[[], Any], what: str, refusal: Callable[[BaseException], bool]
) -> Any:
    return patiently(action, what=what, refusal=refusal, heed=_heed)


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    def __init__(self, *words: Any, **options: Any):
        begin = super().__init__
        _patiently(lambda: begin(*words, **options), "starting a process", has_no_room)


def _start_thread(thread: threading.Thread) -> None:
    _patiently(lambda: _start(thread), "starting a thread", has_no_room)


def _writing(write: Callable[..., Any]) -> Callable[..., Any]:
    def patient(*words: Any, **options: Any) -> Any:
        what = "writing what Snakemake keeps"
        return _patiently(lambda: write(*words, **options), what, has_no_disk)

    return patient


def _whole(write: Callable[..., None]) -> Callable[..., None]:
    """Write a script from its beginning, even if a part of it is there."""

    def whole(self: Any, preamble: str, stream: Any) -> None:
        stream.seek(0)
        stream.truncate()
        write(self, preamble, stream)
        stream.flush()

    return whole


def await_room(workflow: Any, *, alone: bool) -> None:
    """Have Snakemake wait whenever the system refuses what it needs, until it is asked to stop.

    workflow: Snakemake's.
    alone: whether all rules belong to studies. Then no shell stays beside a script, which saves a
    fork.
    """
    _workflows.append(workflow)
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
    logging.raiseExceptions = False  # the log drops what it cannot hold, without a traceback
    if alone:
        shell.prefix("set -euo pipefail; exec ")
