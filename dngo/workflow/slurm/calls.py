"""Slurm's commands. Each has a time limit, so none of them can delay a run or its end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SLOW = 30.0  # seconds without an answer before the user reads of it
AGAIN = 120.0  # seconds after which the user reads again what a run waits for
LIMIT, LONGEST_LIMIT = 60.0, 240.0  # seconds for an answer, at first and after missing answers
LOOK = 0.25  # seconds between looks at whether the run is being ended
# Variables of the user's that would change an answer, or have sbatch wait for the job's end.
OPTIONS = ("SQUEUE_", "SCANCEL_", "SINFO_", "SBATCH_WAIT", "SBATCH_ARRAY_INX")
GOODBYE = 5.0  # seconds that the end of a run waits for its jobs to be cancelled


@dataclass(frozen=True)
class Answer:
    """The output of a command. status: its exit status, or None if it gave no answer in time."""

    status: int | None = None
    out: str = ""
    err: str = ""

    @property
    def said(self) -> str:
        """Its complaint, as it printed it."""
        return self.err if self.err.strip() else self.out

    @property
    def words(self) -> str:
        """Its complaint, on one line."""
        return " ".join(self.said.split())


class Calls:
    """Runs the commands of Slurm for one run of Snakemake, from any thread."""

    def __init__(self, tell: Callable[[str], None]):
        """tell: called with messages for the user.

        They say that Slurm is silent, or that it answers again.
        """
        self._tell = tell
        self._over = threading.Event()
        self._unanswered = 0
        self._silent: dict[str, float] = {}  # what does not answer, and since when
        self._said = 0.0
        self._words: dict[str, str] = {}  # the last complaint of each command
        self._lock = threading.Lock()

    def ask(
        self,
        *words: str,
        stdin: str | None = None,
        environment: dict[str, str] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """The output of a command; no answer if it takes too long, or if `stop` says to stop."""
        if self._over.is_set():
            return Answer()
        began = time.monotonic()
        limit = min(LIMIT * 2**self._unanswered, LONGEST_LIMIT)
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=_without_options(environment or os.environ),
                # Ctrl-C goes to Snakemake alone. It ends these calls itself, with the processes
                # that they started.
                start_new_session=True,
            )
        except OSError as error:
            return Answer(127, err=f"{words[0]}: {error.strerror}")
        while True:
            try:
                out, err = process.communicate(stdin, timeout=LOOK)
                self._heard(words[0], err)
                if process.returncode == 0:
                    self.answers(words[0])
                return Answer(process.returncode, out, err)
            except subprocess.TimeoutExpired:
                stdin = None
            waited = time.monotonic() - began
            if waited > SLOW:
                self.silent(words[0])
            if waited > limit or self._over.is_set() or stop():
                _kill(process)
                with self._lock:
                    self._unanswered += waited > limit
                return Answer()

    def silent(self, who: str) -> None:
        """Tell the user that Slurm does not answer, and what it printed instead; again every two
        minutes."""
        now = time.monotonic()
        with self._lock:
            is_first = not self._silent
            since = self._silent.setdefault(who, now)
            if not is_first and now < self._said + AGAIN:
                return
            self._said = now
            words = self._words.get(who.split()[0], "")
        said = f"{who}: {words}" if words else who
        still = f" for {(now - since) / 60:.0f} minutes" if now - since >= 60 else ""
        self._tell(f"Slurm does not answer{still} ({said}); waiting until it does.")

    def _heard(self, command: str, complaint: str) -> None:
        with self._lock:
            self._unanswered = 0
            self._words[command] = " ".join(complaint.split())[:300]

    def answers(self, who: str) -> None:
        """Note that a command has answered. Once none is silent any more, tell the user."""
        with self._lock:
            was_silent = self._silent.pop(who, None) is not None
            if not was_silent or self._silent:
                return
        self._tell("Slurm answers again.")

    def end(self) -> None:
        """End all calls, and allow no further ones."""
        self._over.set()

    def last(self, *words: str, until: float) -> bool:
        """Run a command at the end of a run. Returns whether it succeeded in time.

        until: by the monotonic clock. A command that takes longer goes on alone, for ten minutes at
        most.
        """
        bounded = [*(["timeout", "600"] if shutil.which("timeout") else []), *words]
        try:
            process = subprocess.Popen(
                bounded,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_without_options(os.environ),
                start_new_session=True,
            )
            return process.wait(max(0.1, until - time.monotonic())) == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def last_look(self, *words: str, until: float) -> Answer:
        """The output of a command at the end of a run; no answer if it takes longer."""
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env=_without_options(os.environ),
                start_new_session=True,
                timeout=max(0.1, until - time.monotonic()),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return Answer()
        return Answer(done.returncode, done.stdout, done.stderr)


def _without_options(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(OPTIONS)}


def _kill(process: subprocess.Popen[str]) -> None:
    """End a command and all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
        process.communicate(timeout=1.0)
