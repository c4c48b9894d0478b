"""The process of a job that starts its objectives: `python -I -S start.py CONTROL PARENT`.

Between fork and exec our own Python code runs, which is unsafe in a process with threads. This process
has none. It imports nothing of this package and little else, so that a fork of it is
cheap: an interpreter for each objective would cost 15 to 20 ms of CPU time, a fork costs one or two.

CONTROL is a socket. A request is the length of a JSON document in eight bytes, with the objective's
standard input, output and error and its report; then the document (`dngo.evaluation.starter.Starter`).
On the report go lines: `p PID` just before it begins, `! KEY: WHY` if it cannot be started, `f ERRNO` if
the system has no process or memory to spare for it, `x CODE` at its end, as in
`subprocess.Popen.returncode`. This process dies with PARENT, and what it has started dies with it.
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
# A job that is ended has all its processes signalled. The supervisor then decides what to do.
IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
# Errors that keep a program from starting now, but not for good. The last: it is still being written.
PASSING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY)
Handlers = dict[int, "signal._HANDLER"]
DEATH = getattr(ctypes.CDLL(None), "prctl", None)


def main() -> None:
    """Start what is asked for and report how it ended, until the parent is gone."""
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), _execute)


def serve(control: socket.socket, parent: int, become: Callable[[dict, int], None]) -> None:
    """Fork for each request, and have the child do what `become` says; until the parent is gone.

    become: is given the request and the descriptor of the report; what it raises is reported there.
    """
    _die_with(parent)
    control.set_inheritable(False)
    handlers: Handlers = {number: signal.signal(number, signal.SIG_IGN) for number in IGNORED}
    # Python ignores these two signals, and children inherit that.
    handlers |= dict.fromkeys((signal.SIGPIPE, signal.SIGXFSZ), signal.SIG_DFL)
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
            ):  # no process to spare: the parent sees the report end without a word
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
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(report, f"{line}\n".encode("utf-8", "replace"))


def _begin(
    request: dict,
    parent: int,
    streams: list[int],
    report: int,
    handlers: Handlers,
    become: Callable[[dict, int], None],
) -> None:
    """What a child does: prepare, and become what is asked for; it never returns."""
    try:
        os.setsid()
        _die_with(parent)
        for number, handler in handlers.items():
            python = handler is signal.default_int_handler
            signal.signal(number, signal.SIG_DFL if python or handler is None else handler)
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
        with contextlib.suppress(OSError):
            _write("/proc/self/oom_score_adj", "1000")  # the first that the kernel kills for memory
        _note(request)
        if request["cpus"]:
            os.sched_setaffinity(0, request["cpus"])
        _say(report, f"p {os.getpid()}")  # now that it can be found, whatever its environment
        become(request, report)
    except OSError as error:
        _say(report, f"f {error.errno}" if error.errno in PASSING else f"! {error.strerror}")
    except ValueError as error:  # a name of a variable that no system accepts
        _say(report, f"! environment: {error}")
    finally:
        os._exit(127)


def _execute(request: dict, report: int) -> None:
    """Execute the words; raises OSError that says which of them, and why not."""
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
        os._exit(1)  # it died before that


def _note(request: dict) -> None:
    """Write down who runs it, in case the supervisor is found dead: a help, not a condition."""
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
