"""One running objective: started, fed, drained, held to its limits, and ended with all it started."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from dngo.config import Objective
from dngo.evaluation import start
from dngo.evaluation.command import Call, CannotStart, Places
from dngo.evaluation.leftovers import find, kill
from dngo.evaluation.limits import Bounds, End, kernel_kills, memory_of
from dngo.evaluation.streams import Kept
from dngo.storage.processes import host, start_ticks

GRACE = 5.0  # seconds between SIGTERM and SIGKILL
LAST_WORD = 1.0  # seconds within which a scheduler signals every process of a job
DRAIN = 1.0  # seconds for what children print that outlive the program, as `> >(tee log)` does
FIRST_LOOK, LOOK = 0.05, 0.25  # seconds between looks at the memory, at first and later on
# What common runtimes print when an allocation is refused before any limit of ours is met.
_OUT_OF_MEMORY = re.compile(
    r"\b(MemoryError|bad_alloc|out of memory|OutOfMemoryError|Cannot allocate memory)\b", re.I
)


class Interrupted(Exception):
    """The evaluation was stopped from outside: not an outcome, it will be started again."""


INTERRUPTED = End("interrupted", "its job was being ended")


class Stop:
    """SIGTERM and SIGINT end the running objective, and with it this process, without an outcome."""

    requested = False

    @classmethod
    def listen(cls) -> None:
        """Note these signals from now on."""

        def handle(number: int, frame: Any) -> None:
            cls.requested = True

        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError):  # not the main thread
                signal.signal(number, handle)


def supervise(
    call: Call,
    objective: Objective,
    places: Places,
    streams: tuple[Kept, Kept],
    bounds: Bounds,
    ended: Callable[[End], None],
) -> None:
    """Run the objective once, and hand how it ended to `ended` before anything else happens.

    streams: for standard output and standard error.
    Raises Interrupted if this process was told to stop meanwhile, CannotStart if there is nothing to
    be started, OSError if the system refuses; `ended` is not called then.
    """
    kills_before = kernel_kills()
    process, report = _start(call, objective)
    watch = _Watch(process, call.document, report, bounds, streams)
    try:
        _note(places, process.pid)
        with contextlib.suppress(OSError):
            os.write(report, b".")  # now that it can be found, whatever its environment: go
        stopped = watch.until_end()
        if stopped is None:
            ended(_judge(process.returncode, watch, kills_before))
            return
        _end(process, places)
        if process.returncode == 0:  # within the grace: if it reported, that was paid for
            ended(End("ok", "", next(iter(watch.out.last_lines(1)), ""), late=stopped))
        elif stopped is INTERRUPTED:
            raise Interrupted
        else:
            ended(stopped)
    finally:
        _end(process, places if process.poll() is None else None)


def _start(call: Call, objective: Objective) -> tuple[subprocess.Popen[bytes], int]:
    """The objective's process, and a descriptor that says why there is none if there is none."""
    ours, helpers = socket.socketpair()
    report, theirs = ours.detach(), helpers.detach()
    what = [str(theirs), str(os.getpid()), *call.words]
    if objective.callable:
        words = [sys.executable, "-m", "dngo.evaluation.call", *what]
    else:
        words = [sys.executable, "-I", "-S", str(start.__file__), *what]
    folder = objective.working_directory or "."
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=call.environment,
            start_new_session=True,
            pass_fds=(theirs,),
        )
    except BaseException as error:
        os.close(report)
        if isinstance(error, OSError) and error.filename == folder:
            raise CannotStart(
                f"objective.working_directory: {folder} cannot be entered: {error.strerror}"
            ) from None
        if isinstance(error, ValueError):  # a name of a variable that no system accepts
            raise CannotStart(f"objective.environment: {error}") from None
        raise
    finally:
        os.close(theirs)
    return process, report


def _note(places: Places, pid: int) -> None:
    """Who runs it, for whoever finds the supervisor dead: a help, not a condition."""
    note = {**host(), "pid": pid, "ticks": start_ticks(pid), "time": time.time()}
    with contextlib.suppress(OSError):
        places.started.write_text(json.dumps(note))


class _Watch:
    """The streams, the limits and the end of one process."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        document: str,
        report: int,
        bounds: Bounds,
        streams: tuple[Kept, Kept],
    ):
        self.process, self.bounds, self.report = process, bounds, report
        self.out, self.err = streams
        self.to_send = document.encode()
        self.complaint = b""  # why nothing could be started
        self.open_streams = 2

    def until_end(self) -> End | None:
        """Feed and drain the process until it ends by itself (None), or else why it was told to.

        Raises CannotStart.
        """
        assert self.process.stdin and self.process.stdout and self.process.stderr
        os.set_blocking(self.process.stdin.fileno(), False)
        with selectors.DefaultSelector() as selector, _ended(self.process) as pidfd:
            selector.register(self.process.stdin, selectors.EVENT_WRITE, self._send)
            selector.register(self.process.stdout, selectors.EVENT_READ, self._receive(self.out))
            selector.register(self.process.stderr, selectors.EVENT_READ, self._receive(self.err))
            selector.register(self.report, selectors.EVENT_READ, self._hear)
            if pidfd is not None:
                selector.register(pidfd, selectors.EVENT_READ, lambda _, __: None)
            try:
                stopped = self._run(selector)
                if stopped is not None:
                    self._grant_grace(selector)
                if self.process.poll() is not None:
                    if pidfd is not None:
                        selector.unregister(pidfd)
                    self._drain(selector)
            finally:
                os.close(self.report)
                for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                    with contextlib.suppress(OSError):
                        stream.close()
        if self.complaint:
            key = "callable" if "dngo.evaluation.call" in self.process.args else "command"  # type: ignore[operator]
            raise CannotStart(f"objective.{key}: {self.complaint.decode('utf-8', 'replace')}")
        return stopped

    def _run(self, selector: selectors.BaseSelector) -> End | None:
        started = time.monotonic()
        look = started + FIRST_LOOK
        while True:
            pause = min(look, self.bounds.deadline) - time.monotonic()
            self._attend(selector, pause)
            # One that has just ended by itself is judged, not thrown away: it was paid for.
            if self.process.poll() is not None:
                return None
            if Stop.requested:
                return INTERRUPTED
            now = time.monotonic()
            if now >= self.bounds.deadline:
                return self.bounds.out_of_time()
            if now >= look:
                if self.bounds.exceeded(memory_of(_family(self.process.pid))):
                    return self.bounds.out_of_memory()
                look = now + (FIRST_LOOK if now - started < 1.0 else LOOK)

    def _grant_grace(self, selector: selectors.BaseSelector) -> None:
        """Tell it to stop, and hear what it still has to say."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        end = time.monotonic() + GRACE
        while self.process.poll() is None and time.monotonic() < end:
            self._attend(selector, end - time.monotonic())

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """What is still to come from its streams: children may hold them open, but not for ever."""
        end = time.monotonic() + DRAIN
        while self.open_streams and time.monotonic() < end:
            self._attend(selector, end - time.monotonic())

    def _attend(self, selector: selectors.BaseSelector, pause: float) -> None:
        for key, _ in selector.select(max(0.0, min(pause, 1.0))):
            key.data(selector, key.fd)

    def _send(self, selector: selectors.BaseSelector, descriptor: int) -> None:
        try:
            self.to_send = self.to_send[os.write(descriptor, self.to_send) :]
        except BlockingIOError:
            return
        except OSError:
            self.to_send = b""  # it does not read its standard input: its own business
        if not self.to_send:
            selector.unregister(descriptor)
            assert self.process.stdin
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def _receive(self, kept: Kept) -> Callable[[selectors.BaseSelector, int], None]:
        def receive(selector: selectors.BaseSelector, descriptor: int) -> None:
            data = os.read(descriptor, 1 << 16)
            if data:
                kept.feed(data)
            else:
                selector.unregister(descriptor)
                self.open_streams -= 1

        return receive

    def _hear(self, selector: selectors.BaseSelector, descriptor: int) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(descriptor, 1 << 12)
        self.complaint += data
        if not data:
            selector.unregister(descriptor)


def _judge(code: int, watch: _Watch, kills_before: int) -> End:
    """How a process ended that met no limit of ours; raises Interrupted if its job is being ended."""
    last_line = next(iter(watch.out.last_lines(1)), "")
    if code == 0:
        return End("ok", "", last_line)
    _heed_scheduler(code)
    complaints = watch.err.last_lines(10)
    reason = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    message = f"{reason}: {complaints[-1]}" if complaints else reason
    if code == -signal.SIGKILL and kernel_kills() > kills_before:
        return watch.bounds.short_of_memory("killed by the kernel, out of memory")
    if any(_OUT_OF_MEMORY.search(line) for line in complaints):
        return watch.bounds.short_of_memory(message)
    return End("failed", message)


def _heed_scheduler(code: int) -> None:
    """Raise Interrupted if the objective failed because its whole job is being ended.

    A scheduler signals every process of a job, one after another, and the objective may go first: a
    job that is cancelled must not pass for a point that fails. A process that is killed ends here.
    """
    if Stop.requested:
        raise Interrupted
    signalled = code < 0 or code > 128
    until = time.monotonic() + LAST_WORD
    while signalled or "SLURM_JOB_ID" in os.environ:
        if Stop.requested:
            raise Interrupted
        if time.monotonic() > until:
            return
        time.sleep(0.02)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process ends, where the system has such a thing."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _end(process: subprocess.Popen[bytes], places: Places | None) -> None:
    """End the process, if it still runs, and whatever it started in its group.

    places: if given, what left the group is found by them and ended, too.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if places is not None:
        kill(find(places))
