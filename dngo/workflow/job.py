"""What every script does around its one call: it writes the log, the progress and readable errors."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dngo.errors import UserError
from dngo.evaluation.command import CannotStart
from dngo.evaluation.run import JobOver
from dngo.evaluation.supervision import Interrupted
from dngo.storage.patience import in_words
from dngo.storage.processes import end_at_once, start_ticks
from dngo.study import Study, load_study
from dngo.workflow.words import BEGUN, CANNOT_START, CLUSTER_JOB, GOES_ON, STOPPED, STOPS

LINE_EVERY = 60.0  # seconds between progress lines in a log


@contextlib.contextmanager
def job(snakemake: Any) -> Iterator[tuple[Study, LogLines]]:
    """Run a stage with its output in Snakemake's log file; yields the study and a progress callback.

    A user's mistake ends with exit status 1, and with one line in the log and on the terminal.
    """
    end_at_once()
    terminal = sys.stderr
    path = Path(snakemake.log[0])
    if CLUSTER_JOB in os.environ:
        with contextlib.suppress(OSError):
            print(BEGUN, file=terminal, flush=True)
    with _Log(path) as log:
        progress = LogLines(log)
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            try:
                yield load_study(snakemake.config), progress
                return
            except Interrupted:
                message, status = STOPPED, 130
            except JobOver as limit:
                message, status = f"{limit}; {GOES_ON}", 1
            except UserError as error:
                message, status = str(error), 1
                if CLUSTER_JOB in os.environ and type(error) is CannotStart:
                    # The executor sees the other jobs, so it decides whether this is the node's
                    # fault.
                    message = f"{message}\n{CANNOT_START}"
                elif isinstance(error, CannotStart):
                    _stop_run(snakemake, message)
                    message = f"{message}\n{STOPS}"
            except Exception as error:
                message, status = in_words(error), 1
                if not message:
                    traceback.print_exc()
                    message = f"failed; the details are in {path}"
        print(message, file=log)
        # A terminal that has gone does not change how a job ends.
        with contextlib.suppress(OSError):
            line = "\r\033[K" if terminal.isatty() else ""  # the run's bar may be there
            print(f"{line}{snakemake.rule}: {message}", file=terminal, flush=True)
        sys.exit(status)


class _Log(io.TextIOBase):
    """A log that never fails. It drops text if the disk is full."""

    def __init__(self, path: Path):
        self.stream: Any = None
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.stream = open(path, "wb", buffering=0)  # noqa: SIM115

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            if self.stream is not None:
                self.stream.write(text.encode("utf-8", "replace"))
        return len(text)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self.stream is not None:
                self.stream.close()
        super().close()


def _stop_run(snakemake: Any, message: str) -> None:
    """Have the Snakemake of this run submit nothing more, if it runs on this host.

    On another host, its executor may read `STOPS`. Otherwise each further job reports the same.
    None of them counts as an attempt at its point.
    """
    with contextlib.suppress(UserError, OSError, ValueError, TypeError):
        study = load_study(snakemake.config)
        study.journal.note_stop(message)
        if CLUSTER_JOB in os.environ:
            return
        claim = study.run_claim
        owner = claim.owner()
        if owner and not claim.elsewhere and start_ticks(int(owner["pid"])) == owner.get("ticks"):
            os.kill(int(owner["pid"]), signal.SIGTERM)


class LogLines:
    """Progress of a job: a line a minute in its log."""

    def __init__(self, log: Any):
        self.log = log
        self.last = time.monotonic()

    def __call__(self, fraction: float, message: str) -> None:
        now = time.monotonic()
        if now - self.last >= LINE_EVERY:
            self.last = now
            print(f"{time.strftime('%H:%M:%S')} {fraction:4.0%} {message}", file=self.log)


@contextlib.contextmanager
def bar(name: str) -> Iterator[Callable[[float, str], None]]:
    """Progress of a command. After a second it shows a bar, if standard error is a terminal."""
    from tqdm import tqdm

    with tqdm(
        total=100,
        desc=name,
        file=sys.stderr,
        leave=False,
        delay=1.0,
        disable=None,  # without a terminal
        bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed} {postfix}",
    ) as shown:

        def progress(fraction: float, message: str) -> None:
            shown.set_postfix_str(message, refresh=False)
            shown.update(100 * fraction - shown.n)

        yield progress
