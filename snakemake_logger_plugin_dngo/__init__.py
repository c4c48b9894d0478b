"""Snakemake's `--logger dngo`: what a run says on the terminal, in lines of the study.

Snakemake finds logger plugins by the name of a top-level package, and imports each of them before
it reads a Snakefile. So this module imports nothing of dngo. The package beside the Snakefile runs
the study. When it has planned a study, it passes its `dngo.workflow.course.Course` to this plugin.
Before that, the plugin changes nothing. It also changes nothing in dry runs, and with --verbose,
--debug-dag or --printshellcmds. Snakemake's log file always has all messages.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

__all__ = ["LogHandler"]

# For jobs of a study, a bar and a line for each batch replace these messages.
JOBS = {LogEvent.JOB_INFO, LogEvent.GROUP_INFO, LogEvent.JOB_FINISHED, LogEvent.SHELLCMD}
# These messages say how Snakemake works.
CHATTER = {
    LogEvent.WORKFLOW_STARTED,
    LogEvent.RUN_INFO,
    LogEvent.JOB_STARTED,
    LogEvent.PROGRESS,
    LogEvent.RESOURCES_INFO,
    LogEvent.RULEGRAPH,
}
# So do these, which have no event. All other messages are shown.
PHRASES = re.compile(
    r"Assuming unrestricted shared filesystem|Building DAG of jobs|Using shell:|Select jobs to exec"
    r"|Conda environments: ignored|Singularity containers: ignored|Group jobs: inactive"
    r"|Job rate limit reached|Touching output file|Cleaning up SLURM log files"
    r"|Job \d+ has been submitted with SLURM jobid"
)


class LogHandler(LogHandlerBase):
    """Shows what a user must see of Snakemake's messages, and the course of a study.

    course: knows the study's jobs, once there is a study. It gets every message.
    """

    course: Any = None
    last: str = ""  # the last shown message: some messages come again with every job that ends

    def __post_init__(self) -> None:
        # Import it here, since Snakemake imports this module while it imports snakemake.logging.
        from snakemake.logging import ColorizingTextHandler

        _provide_cache()
        common = self.common_settings
        self.stream = sys.stdout if getattr(common, "stdout", False) else sys.stderr
        self.own = ColorizingTextHandler(nocolor=common.nocolor, stream=self.stream)
        self.nocolor = self.own.nocolor
        self.whole = any(
            getattr(common, name) for name in ("verbose", "dryrun", "debug_dag", "printshellcmds")
        )

    @property
    def writes_to_stream(self) -> bool:
        """Snakemake's own handler for the terminal makes room for this one."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """The log file stays Snakemake's."""
        return False

    @property
    def has_filter(self) -> bool:
        """Snakemake's filter is kept, and with it --quiet."""
        return False

    @property
    def has_formatter(self) -> bool:
        """Snakemake words the errors: rule, log files, the scheduler's reason."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """Nothing here draws the rules."""
        return False

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, or hide it. Nothing that goes wrong here may end a run."""
        with contextlib.suppress(Exception):
            course = None if self.whole else self.course
            if course is None:
                self._show(record)
            elif self._matters(record, course):
                # Only errors and warnings have colours.
                self.own.nocolor = self.nocolor or record.levelno == logging.INFO
                with course.aside():
                    self._show(record)
        with contextlib.suppress(Exception):
            if not self.whole and self.course is not None:
                self.course.follow(record)

    def _matters(self, record: logging.LogRecord, course: Any) -> bool:
        event = getattr(record, "event", None)
        if record.levelno > logging.INFO:
            # A job waited for a process when the run was told to stop: see dngo/workflow/room.py.
            return "[Errno 4] the run was told to stop" not in str(record.msg)
        if event in JOBS:
            return not course.knows(record)
        return event not in CHATTER and not PHRASES.match(str(record.msg))

    def _show(self, record: logging.LogRecord) -> None:
        said, self.last = self.last, str(record.msg)
        if said == self.last and record.levelno == logging.INFO and self.course is not None:
            return
        self.own.setFormatter(self.formatter)
        self.own.emit(record)

    def close(self) -> None:
        """Take the bar off the terminal."""
        with contextlib.suppress(Exception):
            if self.course is not None:
                self.course.close()
        super().close()


def _provide_cache() -> None:
    """Give Snakemake a folder for its cached sources, if the user's home has no room for one.

    Snakemake makes that folder before it reads anything. Jobs on a cluster may have no home at all.
    """
    from snakemake.common import get_appdirs

    try:
        place = os.path.join(get_appdirs().user_cache_dir, "snakemake", "source-cache")
        os.makedirs(place, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place):
            pass
    except OSError:
        with contextlib.suppress(OSError):
            folder = tempfile.mkdtemp(prefix="snakemake-cache-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            os.environ["XDG_CACHE_HOME"] = folder
