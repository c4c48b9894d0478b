"""What every script does around its one call: log, progress, and errors that a person can read."""

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
from typing import Any, TextIO

from dngo.errors import UserError
from dngo.evaluation.command import CannotStart
from dngo.evaluation.run import JobOver
from dngo.evaluation.supervision import Interrupted
from dngo.storage.processes import start_ticks
from dngo.study import Study, load_study

LINE_EVERY = 60.0  # seconds between progress lines in a log


@contextlib.contextmanager
def job(snakemake: Any) -> Iterator[tuple[Study, Progress]]:
    """Run a stage with its output in Snakemake's log file; yields the study and a progress callback.

    A user's mistake ends as one line, in the log and on the terminal, and exit status 1.
    """
    terminal = sys.stderr
    path = Path(snakemake.log[0])
    with _Log(path) as log:
        progress = Progress(f"{snakemake.rule} {' '.join(snakemake.wildcards)}", terminal, log)
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            try:
                yield load_study(snakemake.config), progress
                return
            except Interrupted:
                message, status = "stopped from outside; no outcome was written", 130
            except JobOver as limit:
                message, status = f"{limit}; the next attempt goes on", 1
            except UserError as error:
                message, status = str(error), 1
                if isinstance(error, CannotStart):
                    _stop_run(snakemake)
            except Exception:
                traceback.print_exc()
                message, status = f"failed; the details are in {path}", 1
            finally:
                progress.close()
        print(message, file=log)
        print(f"{snakemake.rule}: {message}", file=terminal)
        sys.exit(status)


class _Log(io.TextIOBase):
    """A log that never is what fails: what cannot be written, on a full disk, is dropped."""

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


def _stop_run(snakemake: Any) -> None:
    """Have the Snakemake of this run submit nothing more, where it runs on this host.

    Elsewhere the other jobs say the same; none of them uses up an attempt at its point.
    """
    with contextlib.suppress(UserError, OSError, ValueError, TypeError):
        claim = load_study(snakemake.config).run_claim
        owner = claim.owner()
        if owner and not claim.elsewhere and start_ticks(int(owner["pid"])) == owner.get("ticks"):
            os.kill(int(owner["pid"]), signal.SIGTERM)


@contextlib.contextmanager
def bar(name: str) -> Iterator[Callable[[float, str], None]]:
    """Progress of a command: a bar if standard error is a terminal."""
    progress = Progress(name, sys.stderr)
    try:
        yield progress
    finally:
        progress.close()


class Progress:
    """A bar on a terminal, a line a minute in a log if there is one."""

    def __init__(self, name: str, terminal: TextIO, log: Any = None):
        self.name, self.terminal, self.log = name, terminal, log
        self.bar: Any = None
        self.started = self.last = time.monotonic()

    def __call__(self, fraction: float, message: str) -> None:
        now = time.monotonic()
        if self.terminal.isatty() and now - self.started > 1.0:
            self._show(fraction, message)
        if self.log and now - self.last >= LINE_EVERY:
            self.last = now
            print(f"{time.strftime('%H:%M:%S')} {fraction:4.0%} {message}", file=self.log)

    def say(self, message: str) -> None:
        """A line for whoever watches, and for the log."""
        for stream in (self.terminal, self.log):
            if stream is not None:
                print(message, file=stream)

    def _show(self, fraction: float, message: str) -> None:
        if self.bar is None:
            from tqdm import tqdm

            self.bar = tqdm(
                total=100,
                desc=self.name,
                file=self.terminal,
                leave=False,
                bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed} {postfix}",
            )
        self.bar.n = round(100 * fraction)
        self.bar.set_postfix_str(message, refresh=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
