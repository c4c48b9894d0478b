"""The process of a job that starts its objectives: `python -I -S start.py CONTROL PARENT`.

Our Python code runs between fork and exec. That is unsafe in a process with threads, and this
process has none. It imports nothing of this package and little else, so that a fork of it is cheap.
A new interpreter for each objective would cost 15 to 20 ms of CPU time; a fork costs 1 or 2 ms.

CONTROL is a socket. A request begins with the length of a JSON document in eight bytes. With it
come four descriptors: the objective's standard input, output and error, and its report. Then
follows the document (`dngo.evaluation.starter.Starter`). The report has lines: `p PID` just before
the objective begins, `! KEY: WHY` if it cannot be started, `f ERRNO` if the system has no process
or memory left, `x CODE` at its end, as in `subprocess.Popen.returncode`. This process dies with
PARENT, and its children die with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
# When a job is ended, all its processes get a signal. The supervisor decides what to do.
IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
# Errors that prevent a start only for now. The last one: the program is still being written.
PASSING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY)
Handlers = dict[int, "signal._HANDLER"]
DEATH = getattr(ctypes.CDLL(None), "prctl", None)


def main() -> None:
    """Start each requested program and report its end, until the parent is gone."""
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), _execute)


def serve(control: socket.socket, parent: int, become: Callable[[dict, int], None]) -> None:
    """Fork for each request, until the parent is gone. The child calls `become`.

    become: takes the request and the descriptor of the report; its exceptions are reported there.
    """
    _die_with(parent)
    control.set_inheritable(False)
    handlers: Handlers = {number: signal.signal(number, signal.SIG_IGN) for number in IGNORED}
    # Python ignores these two signals, and children would inherit that.
    handlers |= dict.fromkeys((signal.SIGPIPE, signal.SIGXFSZ), signal.SIG_DFL)
    # A job's shell ignores these two, and a script that inherits that could not handle them.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        if handlers[number] is signal.SIG_IGN:
            handlers[number] = signal.SIG_DFL
    wakeup, awake = socket.socketpair()
    wakeup.setblocking(False)
    awake.setblocking(False)
    signal.set_wakeup_fd(awake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control, wakeup], [], [])
        if wakeup in ready:
            wakeup.recv(4096)
            _reap(reports)
        if control in ready:
            size, descriptors, _, _ = socket.recv_fds(control, 8, 4)
            if not size:
                return
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            request = json.loads(_receive(control, int(size)))
            if (
                len(descriptors) < 4
            ):  # no process left: the parent sees the report end without a line
                for descriptor in descriptors:
                    os.close(descriptor)
                continue
            *streams, report = descriptors
            starter = os.getpid()
            try:
                pid = os.fork()
                if pid == 0:
                    _begin(request, starter, streams, report, handlers, become)
                reports[pid] = report
            except OSError as error:
                _say(report, f"f {error.errno}")
                os.close(report)
            for descriptor in streams:
                os.close(descriptor)


def _receive(control: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = control.recv(size - len(data))
        if not piece:
            os._exit(1)  # the parent died
        data += piece
    return data


def _reap(reports: dict[int, int]) -> None:
    """Report how each child has ended."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        _say(report, f"x {os.waitstatus_to_exitcode(status)}")
        os.close(report)


def _say(report: int, line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it any more
        os.write(report, f"{line}\n".encode("utf-8", "replace"))


def _begin(
    request: dict,
    parent: int,
    streams: list[int],
    report: int,
    handlers: Handlers,
    become: Callable[[dict, int], None],
) -> None:
    """The work of a child: prepare, then become the requested program. It never returns."""
    try:
        os.setsid()
        _die_with(parent)
        for number, handler in handlers.items():
            python = handler is signal.default_int_handler
            signal.signal(number, signal.SIG_DFL if python or handler is None else handler)
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
        with contextlib.suppress(OSError):
            # The kernel kills it first if memory runs out.
            _write("/proc/self/oom_score_adj", "1000")
        _note(request)
        if request["cpus"]:
            os.sched_setaffinity(0, request["cpus"])
        _say(report, f"p {os.getpid()}")  # now it can be found, whatever its environment is
        become(request, report)
    except OSError as error:
        _say(report, f"f {error.errno}" if error.errno in PASSING else f"! {error.strerror}")
    except ValueError as error:  # a name of a variable that the system refuses
        _say(report, f"! environment: {error}")
    finally:
        os._exit(127)


def _execute(request: dict, report: int) -> None:
    """Execute the words. Raises OSError that says what failed, and why."""
    words = request["words"]
    if request["reports"]:
        os.set_inheritable(report, True)
        words = [word if word != "REPORT" else str(report) for word in words]
    why = f"working_directory: {request['folder']} cannot be entered"
    try:
        os.chdir(request["folder"])
        why = f"command: {words[0]!r} cannot be started"
        os.execvpe(words[0], words, request["environment"])
    except OSError as error:
        raise OSError(error.errno, f"{why}: {error.strerror}") from None


def _die_with(parent: int) -> None:
    if DEATH is not None:
        DEATH(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before that


def _note(request: dict) -> None:
    """Note which process runs it, in case the supervisor dies. The note helps but is not required."""
    note = {**request["host"], "pid": os.getpid(), "ticks": None, "time": time.time()}
    with contextlib.suppress(OSError):
        with contextlib.suppress(OSError), open("/proc/self/stat", "rb") as stream:
            note["ticks"] = int(stream.read().rpartition(b")")[2].split()[19])
        _write(request["note"], json.dumps(note))


def _write(path: str, text: str) -> None:
    with open(path, "w") as stream:
        stream.write(text)


if __name__ == "__main__":
    main()
