"""What a run prints for people: a bar for the study, and a line for each batch.

`--logger dngo` (snakemake_logger_plugin_dngo) passes on Snakemake's messages. The study's folder
says the rest. Without a terminal there is no bar, and lines have no colours.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from snakemake_interface_logger_plugins.common import LogEvent

from dngo.study import Study

PAUSE = 1.0  # least seconds between two looks at the study
SHARE = 0.05  # largest share of a core for these looks
STAGES = {"surrogate.h5": "fit", "proposals.json": "propose", "receipt.json": "merge"}


def outlive_readers() -> None:
    """Let a run end normally although its output is no longer read.

    Text left in a buffer would turn any exit status into Python's 120, so it is thrown away.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


def attach(handlers: Sequence[Any], study: Study) -> None:
    """Have `--logger dngo` show the course of a study, if it is one of the handlers."""
    for handler in handlers:
        if hasattr(handler, "course"):
            handler.course = handler.course or Course(handler.stream)
            if study.folder not in [known.folder for known in handler.course.studies]:
                handler.course.studies.append(study)


class Course:
    """The course of the studies of one run, written to a stream; usually there is one study."""

    def __init__(self, stream: TextIO):
        self.studies: list[Study] = []
        self.stream = stream
        self._jobs: dict[int, list[str]] = {}  # what each job makes, by its number
        self._since: dict[int, float] = {}
        self._bar: Any = None
        self._told: set[str] = set()
        self._over = threading.Event()
        self._lock = threading.RLock()

    # ---- what Snakemake says --------------------------------------------------------------------

    def knows(self, record: logging.LogRecord) -> bool:
        """Whether a message concerns a job of these studies. Such jobs have their own lines."""
        if record.__dict__.get("event") == LogEvent.JOB_INFO:
            return self._study(_paths(record)) is not None
        number = record.__dict__.get("job_id", record.__dict__.get("jobid"))
        return number is None or number in self._jobs

    def follow(self, record: logging.LogRecord) -> None:
        """Take note of a message. For each merged batch, print a line."""
        told = record.__dict__
        event = told.get("event")
        if event == LogEvent.JOB_INFO and self._study(_paths(record)) is not None:
            self._jobs[told["jobid"]] = [str(path) for path in told.get("output") or []]
            self._since[told["jobid"]] = time.monotonic()
            self._start()
        elif event == LogEvent.JOB_FINISHED:
            for path in self._jobs.pop(told["job_id"], []):
                self._finished(path)
        elif event == LogEvent.JOB_ERROR:
            self._jobs.pop(told["jobid"], None)
        elif event == LogEvent.GROUP_ERROR:
            for job in told["job_error_info"]:
                self._jobs.pop(job["jobid"], None)

    def _study(self, paths: Sequence[str]) -> Study | None:
        for study in self.studies:
            if paths and all(path.startswith(f"{study.folder}/") for path in paths):
                return study
        return None

    def _finished(self, path: str) -> None:
        study, found = self._study([path]), re.search(r"/iterations/(\d+)/receipt\.json$", path)
        if study is None or found is None:
            return
        from dngo.report.live import merged_batches
        from dngo.report.text import batch_lines

        (batch,) = merged_batches(study, [int(found[1])])
        head, *lines = batch_lines(batch)
        name = study.config.study if len(self.studies) > 1 else ""
        with self.aside():
            if name not in self._told:
                self._told.add(name)
                lines = ["", head, *lines]
            for line in lines:
                print(f"{name} {line}".strip() if name else line, file=self.stream, flush=True)

    # ---- the bar --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while something else is written."""
        with self._lock:
            if self._bar is not None:
                self._bar.clear()
            yield
            if self._bar is not None:
                self._bar.refresh()

    def _start(self) -> None:
        if self._bar is not None or self._over.is_set() or not self.stream.isatty():
            return
        from tqdm import tqdm

        name = ", ".join(study.config.study for study in self.studies)
        self._bar = tqdm(
            desc=name, file=self.stream, dynamic_ncols=True, leave=False, bar_format="{desc}"
        )
        threading.Thread(target=self._keep_drawing, daemon=True).start()

    def _keep_drawing(self) -> None:
        pause, before = PAUSE, 0.0
        while not self._over.wait(pause):
            spent = time.thread_time()
            # The file is being replaced, or the terminal has gone. The run goes on.
            with contextlib.suppress(Exception):
                self._draw()
            cost = time.thread_time() - spent
            pause = max(PAUSE, min(cost, before) / SHARE)  # the first look imports what it needs
            before = cost

    def _draw(self) -> None:
        from dngo.report.live import expected_evaluations, status
        from dngo.report.text import in_flight

        done = total = 0
        parts = [self._at_work()]
        for study in self.studies:
            data = status(study)
            done += data["evaluations"]
            total += expected_evaluations(study, data)
            parts += [in_flight(batch) for batch in data["in_flight"] if batch["evaluated"]]
            if data["best"]:
                parts.append(f"best {data['best']['objective']:.6g}")
        words = "; ".join(filter(None, parts)).replace("{", "{{").replace("}", "}}")
        with self._lock:
            if self._over.is_set():
                return
            self._bar.n, self._bar.total = done, total
            self._bar.bar_format = f"{{desc}} {{bar:24}} {{n}} of {{total}} in {{elapsed}}; {words}"
            self._bar.refresh()

    def _at_work(self) -> str:
        """The stage that the others wait for, and how long it has run."""
        for number, paths in list(self._jobs.items()):
            for path in paths:
                place, _, name = path.rpartition("/")
                if name in STAGES:
                    seconds = time.monotonic() - self._since[number]
                    return f"{STAGES[name]} {place.rpartition('/')[2]}: {seconds:.0f} s"
        return ""

    def close(self) -> None:
        """Take the bar off the terminal, for good."""
        self._over.set()
        with self._lock:
            if self._bar is not None:
                self._bar.close()
            self._bar = None


def _paths(record: logging.LogRecord) -> list[str]:
    told = record.__dict__
    return [str(path) for path in told.get("output") or told.get("input") or []]
