"""Become the objective: `python -I -S start.py REPORT PARENT WORD...`.

What is to be done between fork and exec is done here, in an interpreter of its own: a parent with
threads may deadlock in `preexec_fn`. REPORT is a socket that says when to go on, and is told why
nothing could be started; it closes in silence once something has. PARENT is the process with which
this one dies.

It imports nothing of this package, and little else: it costs each evaluation some 15 ms.
"""

import contextlib
import ctypes
import os
import signal
import sys


def prepare(report: int, parent: int) -> None:
    """Die with the parent, be the first that the kernel kills for memory, keep the report private."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)  # it died before that
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as stream:
        stream.write("1000")
    os.set_inheritable(report, False)
    if not os.read(report, 1):  # the parent has noted who we are, or is dead
        os._exit(1)


def main() -> None:
    """Prepare, and execute the words."""
    report, words = int(sys.argv[1]), sys.argv[3:]
    prepare(report, int(sys.argv[2]))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that is inherited
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        os.write(report, f"{words[0]!r} cannot be started: {error.strerror}".encode())
        os._exit(127)


if __name__ == "__main__":
    main()
