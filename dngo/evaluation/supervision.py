"""Supervises one running objective: feeds and drains its streams, enforces its limits, and ends it
with all its processes.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import selectors
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dngo.batch import STOPPED
from dngo.evaluation.command import Places
from dngo.evaluation.leftovers import find, kill, tell
from dngo.evaluation.limits import Bounds, End, kernel_kills, memory_below
from dngo.evaluation.progress import of_printed
from dngo.evaluation.starter import Started, StarterDied
from dngo.evaluation.stopping import Course
from dngo.evaluation.streams import Kept
from dngo.storage.text import shown

GRACE = 5.0  # seconds between SIGTERM and SIGKILL
LAST_WORD = 1.0  # seconds in which a scheduler signals all processes of a job
# Seconds to read the output of children that outlive the program, such as `> >(tee log)`.
DRAIN = 1.0
FIRST_LOOK, LOOK = 0.05, 0.25  # seconds between looks at the memory, at first and later on
CALM = 0.04  # seconds between two reads of a pipe with printed lines
TRICKLE = 2**14  # bytes: if a program prints more than this at a time, it is read at once
LOOKED_AT = 50  # lines at the end of standard output, for a result before the last one
# Seconds between two looks, and for a signal to arrive: the process may have been suspended.
GAP, ARRIVES = 2.0, 0.1
# Texts of common runtimes when an allocation fails before our limits apply.
_OUT_OF_MEMORY = re.compile(
    r"\b(MemoryError|bad_alloc|out of memory|OutOfMemoryError|Cannot allocate memory)\b", re.I
)


class Interrupted(Exception):
    """The evaluation was stopped from outside. That is no outcome; it will start again."""


INTERRUPTED = End("interrupted", "its job was being ended")


class StopSignal:
    """SIGTERM and SIGINT end the running objective and this process, without an outcome."""

    requested = False
    number: int | None = None  # of the signal
    passed: ClassVar[list[int]] = []  # signals for the objectives, in their order
    resumed = 0.0  # when this process was last told to go on (SIGCONT), by the monotonic clock

    @classmethod
    @contextlib.contextmanager
    def for_a_while(cls) -> Iterator[None]:
        """Note signals during a block. After it, restore their handlers and forget requests."""
        before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                with contextlib.suppress(ValueError):  # not the main thread
                    signal.signal(number, signal.SIG_DFL if handler is None else handler)
            cls.requested, cls.number = False, None

    @classmethod
    def listen(cls) -> None:
        """Note these signals from now on, except those that this process ignores from its start.

        Under a shell's `&`, all processes ignore SIGINT, and so does Snakemake. If only the job
        ended, Snakemake would start it and its evaluation again at once.
        """

        def handle(number: int, frame: Any) -> None:
            cls.requested, cls.number = True, number

        def go_on(number: int, frame: Any) -> None:
            cls.resumed = time.monotonic()

        def pass_on(number: int, frame: Any) -> None:
            cls.passed.append(number)

        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGCONT, go_on)
            if "SLURM_JOB_ID" in os.environ:  # by --signal=B:USR1@200
                signal.signal(signal.SIGUSR1, pass_on)
                signal.signal(signal.SIGUSR2, pass_on)
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            with contextlib.suppress(ValueError):  # not the main thread
                signal.signal(number, handle)

    @classmethod
    def heed(cls) -> None:
        """Raise Interrupted if this process was asked to stop."""
        if cls.requested:
            raise Interrupted


def supervise(
    started: Started,
    document: str,
    places: Places,
    streams: tuple[Kept, Kept],
    bounds: Bounds,
    ended: Callable[[End], None],
    course: Course,
) -> None:
    """Supervise a started objective to its end, and first of all pass the end to `ended`.

    document: for its standard input.
    streams: for standard output and standard error.
    course: its progress, which may decide to stop it.
    Raises Interrupted if this process was asked to stop meanwhile, StarterDied if its end is
    unknown. In these cases `ended` is not called, nor if nothing could be started.
    """
    kills_before = kernel_kills()
    watch = _Watch(started, document.encode(), bounds, streams, course, places)
    left_alone = False
    try:
        stopped = watch.until_end()
        if started.complaint:
            return
        if stopped is None:
            ended(_judge(watch, kills_before))
            return
        _end(started, places)
        # A report within the grace was paid for and counts, unless the run was cut short.
        if started.code == 0 and not course.cut_short:
            ended(replace(_reported(watch), late=stopped))
        elif stopped is INTERRUPTED:
            raise Interrupted
        else:
            ended(_with_late_words(stopped, watch))
    except StarterDied:
        left_alone = True  # if processes still go on, wait for them as after a supervisor's death
        try:
            _heed_scheduler(-signal.SIGKILL)  # the kernel may be about to end this process too
        except Interrupted:
            kill(find(places))
            raise
        raise
    finally:
        if not left_alone:
            _end(started, places if started.code is None else None)


@dataclass
class _Watch:
    """The streams, the limits and the end of one process."""

    started: Started
    to_send: bytes
    bounds: Bounds
    streams: tuple[Kept, Kept]
    course: Course
    places: Places
    open_streams: int = 2
    came: int = 0
    passed: int = field(default_factory=lambda: len(StopSignal.passed))

    def until_end(self) -> End | None:
        """Feed and drain the process until it ends by itself (None), or return why it must be stopped.

        Raises StarterDied.
        """
        started = self.started
        with selectors.DefaultSelector() as selector:
            selector.register(started.stdin, selectors.EVENT_WRITE, self._send)
            for descriptor, kept in zip(
                (started.stdout, started.stderr), self.streams, strict=True
            ):
                selector.register(descriptor, selectors.EVENT_READ, self._receive(kept))
            selector.register(started.report, selectors.EVENT_READ, self._hear)
            stopped = self._run(selector)
            if stopped is not None:
                self._grant_grace(selector)
            if started.code is not None:
                self._drain(selector)
        return stopped

    def _run(self, selector: selectors.BaseSelector) -> End | None:
        started = last = time.monotonic()
        look = started + FIRST_LOOK
        while True:
            deadline = self.bounds.deadline + self.course.suspended
            pause = min(look, deadline) - time.monotonic()
            self._attend(selector, pause)
            self._note_suspension(last)
            if 0 < self.came < TRICKLE and not self.to_send and self.started.code is None:
                self._calm(selector)
            # An evaluation that has just ended by itself was paid for, so its report counts.
            if self.started.code is not None:
                return None
            if StopSignal.requested:
                return INTERRUPTED
            for number in StopSignal.passed[self.passed :]:
                self.passed += 1
                tell(find(self.places), number)
            now = last = time.monotonic()
            if now >= self.bounds.deadline + self.course.suspended:
                return self.bounds.out_of_time()
            if now >= look:
                if decision := self.course.look():
                    return End(STOPPED, str(decision))
                if self.bounds.exceeded(memory_below(self.started.pid) - self.started.base):
                    return self.bounds.out_of_memory()
                look = now + (FIRST_LOOK if now - started < 1.0 else LOOK)

    def _note_suspension(self, last: float) -> None:
        """Note the time since the last look if Slurm, or a person, had suspended this process.

        The objective did not run either, and neither limit counts that time. Nor does Slurm's.
        """
        if time.monotonic() - last > GAP:
            time.sleep(ARRIVES)
            self.course.suspended += max(0.0, StopSignal.resumed - last)

    def _grant_grace(self, selector: selectors.BaseSelector) -> None:
        """Ask it to stop, and read what it still prints."""
        decided = self.course.decision is not None and self.course.judge
        if not (decided and self.course.asks):
            self.started.send(signal.SIGTERM)
        end = time.monotonic() + (decided.grace if decided else GRACE)
        while self.started.code is None and time.monotonic() < end:
            if decided and StopSignal.requested:
                return  # no time is left; the note already says that it is stopped
            self._attend(selector, end - time.monotonic())

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """Read the rest of its streams. Children may hold them open, but only for a limited time."""
        end = time.monotonic() + DRAIN
        while self.open_streams and time.monotonic() < end:
            self._attend(selector, end - time.monotonic())

    def _calm(self, selector: selectors.BaseSelector) -> None:
        """Leave printed text in its pipe for a moment, since each wake costs CPU time.

        Notice its end at once.
        """
        poll = select.poll()
        poll.register(self.started.report, select.POLLIN)
        if poll.poll(CALM * 1000):
            self._attend(selector, 0.0)

    def _attend(self, selector: selectors.BaseSelector, pause: float) -> None:
        self.came = 0
        for key, _ in selector.select(max(0.0, min(pause, 1.0))):
            key.data(selector, key.fd)

    def _send(self, selector: selectors.BaseSelector, descriptor: int) -> None:
        try:
            self.to_send = self.to_send[os.write(descriptor, self.to_send) :]
        except BlockingIOError:
            return
        except OSError:
            self.to_send = b""  # it may leave its standard input unread
        if not self.to_send:
            selector.unregister(descriptor)
            self.started.close_input()

    def _receive(self, kept: Kept) -> Callable[[selectors.BaseSelector, int], None]:
        def receive(selector: selectors.BaseSelector, descriptor: int) -> None:
            data = os.read(descriptor, 1 << 16)
            if data:
                self.came += len(data)
                kept.feed(data)
                if kept is self.streams[0]:
                    self.course.printed.feed(data)
            else:
                selector.unregister(descriptor)
                self.open_streams -= 1

        return receive

    def _hear(self, selector: selectors.BaseSelector, descriptor: int) -> None:
        self.started.hear()
        if self.started.code is not None:
            selector.unregister(descriptor)


def _with_late_words(stopped: End, watch: _Watch) -> End:
    """The end of a stopped process, with its last printed line, so that a complete result is not
    lost.
    """
    last = _reported(watch).last_line.strip() if watch.started.code == 0 else ""
    said = f"; it printed {shown(last)} then" if last else ""
    return replace(stopped, message=f"{stopped.message}{said}")


def _reported(watch: _Watch) -> End:
    """The end of a process with exit status 0. Its printed result may count."""
    lines = watch.streams[0].last_lines(LOOKED_AT)
    *before, last = [line for line in lines if of_printed(line.encode()) is None] or [""]
    return End("ok", "", last, tuple(before))


def _judge(watch: _Watch, kills_before: int) -> End:
    """The end of a process that met none of our limits; raises Interrupted if its job is being ended."""
    code = watch.started.code
    assert code is not None
    if code == 0:
        return _reported(watch)
    _heed_scheduler(code)
    complaints = watch.streams[1].last_lines(10)
    reason = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    message = f"{reason}: {complaints[-1]}" if complaints else reason
    if code == -signal.SIGKILL and kernel_kills() > kills_before:
        return watch.bounds.short_of_memory("killed by the kernel: out of memory")
    if any(_OUT_OF_MEMORY.search(line) for line in complaints):
        return watch.bounds.short_of_memory(message)
    return End("failed", message)


def _heed_scheduler(code: int) -> None:
    """Raise Interrupted if the objective failed because its job is being ended.

    A scheduler signals the processes of a job one after another, and the objective may be the
    first. A cancelled job must not count as a failed point. If this process is killed too, it ends
    during the wait.
    """
    if StopSignal.requested:
        raise Interrupted
    signalled = code < 0 or code > 128
    until = time.monotonic() + LAST_WORD
    while signalled or "SLURM_JOB_ID" in os.environ:
        if StopSignal.requested:
            raise Interrupted
        if time.monotonic() > until:
            return
        time.sleep(0.02)


def _end(started: Started, places: Places | None) -> None:
    """End the process, if it still runs, and all processes in its group.

    places: if given, find processes that left the group by them, and end those too.
    """
    started.send(signal.SIGKILL)
    started.wait()
    if places is not None:
        kill(find(places))
