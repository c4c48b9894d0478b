"""Snakemake many times, imported once: a process forks for each run.

A run reads profile, Snakefile and `dngo` anew, and has a session, a folder and an environment of its own, as if
`python -m snakemake` had been typed. That spends half of its CPU seconds on imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

STARTS = """
import gc, json, os, signal, sys
import h5py, numpy, psutil, pydantic, snakemake.cli, snakemake_executor_plugin_slurm, yaml
gc.freeze()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in iter(sys.stdin.readline, ""):
    run = json.loads(line)
    if os.fork():
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:  # this one waits, and notes how the run has ended
        print(pid, flush=True)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with open(run["status"] + ".new", "w") as stream:
            stream.write(str(status))
        os.replace(stream.name, run["status"])
        os._exit(0)
    os.setsid()
    os.chdir(run["folder"])
    os.environ.clear()
    os.environ.update(run["environment"])
    output = os.open(run["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(stream, number)
    sys.argv[1:] = run["words"]
    exec(run["before"])
    sys.exit(snakemake.cli.main())
"""


@cache
def _starter() -> subprocess.Popen[str]:
    """The process that forks, which ends with this one."""
    command = [sys.executable, "-c", STARTS]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)


class Run:
    """A run of Snakemake, as far as it is used like a `Popen`."""

    def __init__(
        self,
        words: list[str],
        folder: Path,
        environment: Mapping[str, str],
        output: Path,
        before: str,
    ):
        """before: what Python does before Snakemake starts."""
        output.touch()
        self.status = output.with_suffix(".status")
        run = {"words": words, "folder": str(folder), "environment": dict(environment)}
        run |= {"output": str(output), "status": str(self.status), "before": before}
        starter = _starter()
        assert starter.stdin is not None and starter.stdout is not None
        print(json.dumps(run), file=starter.stdin, flush=True)
        self.pid = int(starter.stdout.readline())
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal to this process alone."""
        os.kill(self.pid, number)

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        if self.returncode is None and self.status.exists():
            self.returncode = int(self.status.read_text())
        return self.returncode

    def wait(self, timeout: float = 600) -> int:
        """The exit status, once it has ended."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("snakemake", timeout)
            time.sleep(0.05)
        return status
