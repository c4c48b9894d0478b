"""A job's connection to the process that starts its objectives, `dngo.evaluation.start`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dngo.config import Objective
from dngo.evaluation import start
from dngo.evaluation.command import Call, CannotStart, Places
from dngo.evaluation.obstacles import obstacle
from dngo.storage.patience import has_no_room, spare_descriptors
from dngo.storage.processes import host


class NotStarted(OSError):
    """The system had no process, memory or descriptor left. Nothing has begun."""


class StarterDied(Exception):
    """The process that starts objectives was killed, and its children with it."""


class Starter:
    """Starts objectives for any number of threads, through one process. It starts that process when
    needed.

    That process dies with the thread that first needed it, so threads that share a starter end together.
    """

    base = 0.0  # bytes that its children share with it; they count for no evaluation

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._end: Callable[[], Any] = lambda: None

    def start(
        self, call: Call, objective: Objective, places: Places, cpus: frozenset[int] = frozenset()
    ) -> Started:
        """Start an objective in its own session, on these CPUs (none: all of the job's).

        Returns when it is about to begin. From then on, the note in `places` finds it. Raises
        NotStarted.
        """
        words = call.words
        if objective.callable:
            words = [sys.executable, "-P", "-m", "dngo.evaluation.call", "REPORT", *words]
        request = {
            "words": words,
            "reports": bool(objective.callable),
            "environment": call.environment,
            "folder": objective.working_directory or ".",
            "cpus": sorted(cpus),
            "note": str(places.started),
            "host": host(),
        }
        try:
            with spare_descriptors():
                started = self._request(json.dumps(request).encode())
        except OSError as error:
            if has_no_room(error):
                raise NotStarted(error.errno, error.strerror) from error
            raise
        try:
            while started.pid is started.code is None:
                started.hear()
        except BaseException as error:
            started.close()
            if isinstance(error, StarterDied):  # it had not named a process, so nothing has begun
                raise NotStarted(
                    errno.EAGAIN, "the process that starts objectives was killed"
                ) from error
            raise
        return started

    def _request(self, document: bytes) -> Started:
        ours, theirs = _descriptors()
        try:
            with self._lock:
                try:
                    self._send(document, theirs)
                except StarterDied:  # it had nothing to do, so nothing has begun
                    self._send(document, theirs)
        except BaseException as error:
            for descriptor in ours:
                os.close(descriptor)
            if isinstance(error, StarterDied):
                raise NotStarted(
                    errno.EAGAIN, "the process that starts objectives was killed"
                ) from error
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        stdin, stdout, stderr, report = ours
        return Started(stdin, stdout, stderr, report, base=self.base)

    def _send(self, document: bytes, descriptors: list[int]) -> None:
        control = self._control or self._begin()
        try:
            socket.send_fds(control, [b"%8d" % len(document)], descriptors)
            control.sendall(document)
        except OSError as error:
            if error.errno in (errno.ETOOMANYREFS, errno.ENOBUFS):
                raise NotStarted(error.errno, error.strerror) from error  # and nothing was sent
            self._control = None
            self._end()
            raise StarterDied from error

    def _begin(self) -> socket.socket:
        control, theirs = socket.socketpair()
        words = [sys.executable, "-I", "-S", str(start.__file__)]
        try:
            process = subprocess.Popen(
                [*words, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            control.close()
            raise
        finally:
            theirs.close()
        self._control = control
        self._end = weakref.finalize(self, _end, control, process)
        return control


def _end(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    control.close()
    process.wait()


def _descriptors() -> tuple[list[int], list[int]]:
    """Standard input, output, error and report: our ends, and the objective's ends."""
    made: list[int] = []
    try:
        made += reversed(os.pipe())
        made += os.pipe()
        made += os.pipe()
        made += (end.detach() for end in socket.socketpair())
    except OSError:
        for descriptor in made:
            os.close(descriptor)
        raise
    for descriptor in made[:6:2]:
        os.set_blocking(descriptor, False)
    return made[::2], made[1::2]


@dataclass
class Started:
    """A started objective: our ends of its streams, and the starter's reports about it.

    pid: None until it is known.
    code: as in `subprocess.Popen.returncode`, None until it has ended.
    complaint: why nothing could be started.
    base: bytes of its memory that belong to the starter.
    """

    stdin: int
    stdout: int
    stderr: int
    report: int
    pid: int | None = None
    code: int | None = None
    complaint: str = ""
    base: float = 0.0
    _heard: bytes = field(default=b"", repr=False)

    def hear(self) -> None:
        """Read the report, once there is something to read; raises StarterDied, NotStarted."""
        data = os.read(self.report, 1 << 16)
        if not data and self.code is None:
            raise StarterDied
        *lines, self._heard = (self._heard + data).split(b"\n")
        refusal = 0
        for line in lines:
            sign, _, words = line.decode("utf-8", "replace").partition(" ")
            if sign == "p":
                self.pid = int(words)
            elif sign == "x":
                self.code = int(words)
            elif sign == "f":
                refusal = int(words)
            else:
                self.complaint = words
        if refusal:
            raise NotStarted(refusal, os.strerror(refusal))

    def wait(self) -> None:
        """Wait for the objective's end; raises StarterDied."""
        while self.code is None:
            self.hear()

    def send(self, number: signal.Signals) -> None:
        """Signal its process group, if there is one."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def close_input(self) -> None:
        """Close its standard input."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def close(self) -> None:
        """Close our ends; call it once."""
        self.close_input()
        for descriptor in (self.stdout, self.stderr, self.report):
            os.close(descriptor)

    def check(self, objective: Objective, call: Call) -> None:
        """Raise CannotStart if nothing could be started. It says what the user can do."""
        if self.complaint:
            key, _, why = self.complaint.partition(": ")
            if objective.callable and key == "command":
                key = "callable"
            folder, path = objective.working_directory or ".", call.environment.get("PATH")
            more = obstacle(call.words, Path(folder), path) if key == "command" else ""
            raise CannotStart("; ".join(filter(None, (f"objective.{key}: {why}", more))))
