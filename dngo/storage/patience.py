"""Patience with a machine that refuses: a full disk, no process, thread or descriptor to spare."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

PATIENCE = 600.0  # seconds to wait until a full or read-only disk can be written to again
LONGEST_PAUSE = 15.0  # seconds between two attempts
# The system's errors at a limit on processes, threads, memory or descriptors.
NO_ROOM = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS)
# A network file system is away, or a file was replaced on its server since it was looked up.
AWAY = (errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ESHUTDOWN, errno.EHOSTDOWN)
NO_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, *AWAY)
SPARE = 16  # descriptors that are needed until the end of what was started has been written down
TAKEN = 12  # and those that a start takes


def has_no_room(error: BaseException) -> bool:
    """Whether an error is the system's refusal of a process, a thread, memory or a descriptor."""
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    return isinstance(error, RuntimeError) and "start new thread" in str(error)


def has_no_disk(error: BaseException) -> bool:
    """Whether an error says that a disk is full, or cannot be written to at the moment.

    HDF5's words for this count as well, since its errors may lack the system's number.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in NO_DISK
    return any(f"errno = {number}," in str(error) for number in NO_DISK)


def is_away(error: BaseException) -> bool:
    """Whether an error says that a network file system does not answer now, so that reading waits."""
    return isinstance(error, OSError) and error.errno in AWAY


def in_words(error: BaseException) -> str:
    """What the machine refuses, and where to find its limits; empty for any other error."""
    if has_no_room(error) or isinstance(error, MemoryError):
        what = getattr(error, "strerror", None) or str(error) or "out of memory"
        return (
            f"the machine refuses a process, memory or a file ({what}): see its limits (ulimit -u, "
            "ulimit -n, pids.max of a cgroup) and what else runs there"
        )
    if has_no_disk(error):
        name, why = getattr(error, "filename", None), getattr(error, "strerror", None)
        return f"{name or 'a disk'}: {why or error}"
    return ""


_most = ContextVar("most", default=PATIENCE)


@contextlib.contextmanager
def hurried(seconds: float) -> Iterator[None]:
    """A block in which nothing waits longer than so many seconds: somebody waits for its answer."""
    token = _most.set(seconds)
    try:
        yield
    finally:
        _most.reset(token)


def patiently(
    action: Callable[[], Any],
    *,
    what: str,
    patience: float | None = None,
    refusal: Callable[[Exception], bool] = lambda error: (
        isinstance(error, OSError) or has_no_disk(error)
    ),
    heed: Callable[[], None] = lambda: None,
) -> Any:
    """Repeat `action` while the machine refuses. What it writes was paid for and must not be lost.

    patience: seconds; by default `PATIENCE`.  refusal: recognises errors that are worth a wait.
    heed: raises if no further attempt must be made. Raises the last error once the time is over.
    """
    wait = min(PATIENCE if patience is None else patience, _most.get())
    deadline = time.monotonic() + wait
    pause = 0.5
    while True:
        try:
            return action()
        except FileNotFoundError:
            raise  # the folder is gone, and waiting does not bring it back
        except Exception as error:
            if not refusal(error) or time.monotonic() + pause > deadline:
                raise
            # The log may lie on the same full disk.
            with contextlib.suppress(OSError):
                print(f"{what}: {error}; trying again in {pause:g} s", file=sys.stderr, flush=True)
        _sleep(pause, heed)
        pause = min(pause * 2, LONGEST_PAUSE)


def _sleep(seconds: float, heed: Callable[[], None]) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        heed()
        time.sleep(min(left, 0.5))
    heed()


_spare = threading.Lock()


@contextlib.contextmanager
def spare_descriptors() -> Iterator[None]:
    """A block in which `TAKEN` descriptors are opened at most, after which there are `SPARE` more.

    Otherwise something could begin whose end cannot be read any more. Raises OSError before the
    block if there are too few.
    """
    with _spare:
        made: list[int] = []
        try:
            made.append(os.open(os.devnull, os.O_RDONLY))
            made += (os.dup(made[0]) for _ in range(TAKEN + SPARE))
        finally:
            for descriptor in made:
                os.close(descriptor)
        yield
