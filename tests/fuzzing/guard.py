"""Runs a command in its own process, with limits on time and memory, and says how it ended."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dngo.errors import UserError

SECONDS = 5.0  # that a command may take, of processor time
MEMORY = 500 * 2**20  # bytes that it may take beyond what the test itself has


@dataclass(frozen=True)
class Result:
    """How a command ended: its exit status (negative: a signal) and what it wrote."""

    status: int
    output: str

    @property
    def fault(self) -> str:
        """What was wrong with its end, if anything."""
        if self.status < 0:
            return signal.Signals(-self.status).name
        if self.status not in (0, 1, 2) or "Traceback" in self.output:
            return "traceback"
        lines = [line for line in self.output.splitlines() if line.strip()]
        return "no message" if self.status == 1 and not lines else ""


def guarded(action: Callable[[], int]) -> Result:
    """Run an action in a forked process with little time and memory."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        status = 70
        text = io.StringIO()
        try:
            limit = int(Path("/proc/self/statm").read_text().split()[0]) * 4096 + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))
            signal.alarm(240)  # a wait for something that never comes, on a busy machine
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                status = action()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc(file=text)
        os.write(writer, text.getvalue()[-60000:].encode("utf-8", "backslashreplace"))
        os._exit(status)
    os.close(writer)
    with open(reader, "rb") as stream:
        output = stream.read().decode()
    _, ended = os.waitpid(pid, 0)
    return Result(os.waitstatus_to_exitcode(ended), output)


def warm() -> None:
    """Import once what every forked command would import anew."""
    import dngo.exchange.csv_table
    import dngo.exchange.optuna
    import dngo.exchange.parquet
    import dngo.exchange.ro_crate
    import dngo.replay
    import dngo.report
    import dngo.workflow.dag  # noqa: F401

    for name in (
        "optuna.storages",
        "pyarrow.parquet",
        "rocrate.rocrate",
        "sqlalchemy.dialects.sqlite",
    ):
        importlib.import_module(name)


def command(*arguments: str) -> Callable[[], int]:
    from dngo.cli import main

    return lambda: main(list(arguments))


def plan(config: str) -> int:
    """The first steps of Snakemake; a mistake is reported as the Snakefile does it."""
    from dngo.locate import find_study
    from dngo.workflow.dag import Dag

    try:
        Dag.build(find_study([config]), main=True, dry=True, remote=False)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def told(action: Callable[[], object]) -> Callable[[], int]:
    """A stage; a mistake is reported as its script does it."""

    def run() -> int:
        try:
            found = action()
            return found if isinstance(found, int) else 0
        except UserError as error:
            print(error, file=sys.stderr)
            return 1

    return run
