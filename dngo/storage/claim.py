"""One owner at a time, across processes, hosts and crashes.

A claim is a small file that names its owner. It is made with `link`, which is atomic on local and
network file systems alike, or with O_EXCL where a file system has no links. Its owner releases it.
If the owner is dead, another process takes it over. On the same host an owner is dead if its
process is gone. On another host it is dead if its heartbeat has stood still for a minute. The
observer's own clock measures that minute, and the clocks of two hosts are never compared.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from dngo.errors import UserError
from dngo.storage.files import appear, reading_regular
from dngo.storage.processes import host, is_suspended, start_ticks

BEAT = 10.0  # seconds between heartbeats
SILENCE = 60.0  # seconds without a heartbeat after which an owner on another host is dead


class Claim:
    """A claim on whatever `path` stands for.

    The folder of `path` must exist: a claim in a folder that was removed raises FileNotFoundError.
    """

    def __init__(self, path: Path):
        self.path = path
        self.token = ""
        self._beat: tuple[str, int, float] = ("", 0, 0.0)

    def acquire(self) -> bool:
        """Take the claim unless a living process holds it. A dead owner's claim is taken over.

        Raises OSError where the disk refuses.
        """
        try:
            if self._make():
                return True
        except OSError:
            # If the disk refuses, the owner cannot show its heartbeat either. Silence counts only
            # from when the disk is back.
            self._beat = ("", 0, 0.0)
            raise
        owner = self.owner()
        if owner is None:
            return self._make()
        if self._alive(owner):
            return False
        return self._take_over(owner)

    def owner(self) -> dict[str, Any] | None:
        """Who holds the claim, or None; raises UserError if a folder, or a pipe, is in its place."""
        try:
            with reading_regular(self.path) as stream:
                found = stream.read()
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            raise UserError(
                f"{self.path}: a folder stands where a claim is kept; remove it"
            ) from None
        except ValueError as error:
            raise UserError(f"{self.path}: a claim is kept there, and {error}; remove it") from None
        except OSError:
            return {}
        try:
            return json.loads(found)
        except ValueError:
            return {}

    def release(self) -> None:
        """Give the claim back. If another process has taken it over, do nothing."""
        _Heart.remove(self.path)
        owner = self.owner()
        if owner is not None and owner.get("token") == self.token:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def wait(self, seconds: float, what: str) -> None:
        """Take the claim, waiting up to `seconds` for its owner.

        Raises TimeoutError that names the owner.
        """
        deadline = time.monotonic() + seconds
        while not self.acquire():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} is held by {describe(self.owner())}")
            time.sleep(0.2)

    @contextlib.contextmanager
    def held(self, *, wait: float, what: str) -> Iterator[None]:
        """Hold the claim for a block; raises TimeoutError as `wait` does."""
        self.wait(wait, what)
        try:
            yield
        finally:
            self.release()

    @property
    def lost(self) -> bool:
        """Whether somebody else holds the claim that was acquired here."""
        return (self.owner() or {}).get("token", self.token) != self.token

    @property
    def elsewhere(self) -> bool:
        """Whether the owner is on another host. Then only its silence can show that it is dead."""
        here = host()
        owner = self.owner() or here
        return any(owner.get(k) != here[k] for k in here)

    def _make(self) -> bool:
        self.token = secrets.token_hex(8)
        pid = os.getpid()
        owner = {**host(), "pid": pid, "ticks": start_ticks(pid), "token": self.token}
        job = os.environ.get("SLURM_JOB_ID")
        if job:
            owner["job"] = job
        _Heart.begin()
        try:
            self._write(json.dumps(owner))
        except FileExistsError:
            return False
        _Heart.add(self.path)
        return True

    def _write(self, owner: str) -> None:
        """Make the claim; raises FileExistsError if there is one, OSError.

        On a file system without links the file is empty for a moment. A process that finds it empty
        waits, as for an owner on another host.
        """
        temporary = self.path.with_name(f".{self.path.name}.{self.token}")
        try:
            temporary.write_text(owner)
            appear(temporary, self.path)
        finally:
            # The claim is made, even if the disk refuses this. Otherwise its owner would wait for
            # itself.
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _alive(self, owner: dict[str, Any]) -> bool:
        here = host()
        if all(owner.get(k) == here[k] for k in here):
            found, ticks = start_ticks(int(owner["pid"])), owner.get("ticks")
            # A claim of an earlier release does not have the process's start time, so only its
            # number is compared.
            return found is not None and ticks in (found, None)
        # When the file is opened, a network file system reads its attributes anew.
        try:
            with open(self.path) as stream:
                modified = os.fstat(stream.fileno()).st_mtime_ns
        except FileNotFoundError:
            return False
        seen = (str(owner.get("token")), modified)
        if seen != self._beat[:2]:
            self._beat = (*seen, time.monotonic())
        if time.monotonic() - self._beat[2] < SILENCE:
            return True
        job = str(owner.get("job") or "")
        if not (job.isdecimal() and is_suspended(job)):
            return False
        self._beat = (*seen, time.monotonic())  # ask again after as long
        return True

    def _take_over(self, dead: dict[str, Any]) -> bool:
        # If two processes take over at once, the second one must not remove the new claim of the
        # first.
        with open(self.path.with_name(".takeover"), "w") as lock:
            # a file system without locks has only the check below
            with contextlib.suppress(OSError):
                fcntl.lockf(lock, fcntl.LOCK_EX)
            now = self.owner()
            if now is not None and now.get("token") != dead.get("token"):
                return False
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            return self._make()


def describe(owner: dict[str, Any] | None) -> str:
    """An owner in words."""
    if not owner:
        return "an unknown process"
    job = f", job {owner['job']}" if owner.get("job") else ""
    return f"process {owner.get('pid')} on {owner.get('host')}{job}"


class _Heart:
    """The one thread of a process that keeps all its claims fresh."""

    _paths: ClassVar[set[Path]] = set()
    _lock = threading.Lock()
    _thread: threading.Thread | None = None

    @classmethod
    def begin(cls) -> None:
        """Start the thread, before any claim is made: a claim needs a thread that keeps it fresh.
        Raises OSError."""
        with cls._lock:
            if cls._thread is None:
                thread = threading.Thread(target=cls._run, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise OSError(errno.EAGAIN, str(error)) from None
                cls._thread = thread

    @classmethod
    def add(cls, path: Path) -> None:
        with cls._lock:
            cls._paths.add(path)

    @classmethod
    def remove(cls, path: Path) -> None:
        with cls._lock:
            cls._paths.discard(path)

    @classmethod
    def _run(cls) -> None:
        while True:
            time.sleep(BEAT)
            with cls._lock:
                paths = list(cls._paths)
            for path in paths:
                with contextlib.suppress(OSError):
                    os.utime(path)
