"""A run on a machine that refuses: without a process or a thread to spare, or with a full disk.

Jobs wait for what they need. So does Snakemake itself. It starts each job once, with threads of its own,
and notes in its folder what has begun and ended. An error there would end the run.
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
_workflows: list[Any] = []  # Snakemake's, of which one runs in this process


def _heed() -> None:
    """End a wait once Snakemake was told to stop, as by `kill PID`."""
    for workflow in _workflows:
        if getattr(getattr(workflow, "scheduler", None), "_user_kill", None):
            thread = threading.current_thread()
            if thread is threading.main_thread():
                raise KeyboardInterrupt  # as Ctrl-C does, which the scheduler takes for its end
            if type(thread).__module__ == benchmark.__name__:
                raise SystemExit  # it measures, and ends without a word
            raise InterruptedError(errno.EINTR, "the run was told to stop")  # a job's, and its end


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
    """Write a script from its beginning, even if a part was written before."""

    def whole(self: Any, preamble: str, stream: Any) -> None:
        stream.seek(0)
        stream.truncate()
        write(self, preamble, stream)
        stream.flush()

    return whole


def await_room(workflow: Any, *, alone: bool) -> None:
    """Have Snakemake's process wait, where the system would refuse it, until it is told to stop.

    workflow: Snakemake's.  alone: whether all rules are a study's. Then no shell stays beside a script,
    since starting one takes another fork.
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
    logging.raiseExceptions = False  # what a log cannot hold is left out, without a traceback
    if alone:
        shell.prefix("set -euo pipefail; exec ")
