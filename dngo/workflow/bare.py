"""An evaluation's job on a cluster without a Snakemake in it.

A Snakemake in a job reads the workflow again and starts the rule's script in a process of its own, which
costs more than sixty short evaluations. The Snakemake that submits the job knows all that it would
find out; so it writes that down in a note, one for all jobs of the rule, and the job begins at once. A job
that needs more (conda, files that are not shared, a folder for temporary files) is Snakemake's own.

Until the number of threads is set nothing is imported here that might compute.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

OVERHEAD_MB = 400  # what a job needs beside the objective, where it has Snakemakes, too
# What Snakemake tells a job's script; libraries of linear algebra read it.
THREADS = ("OMP", "GOTO", "OPENBLAS", "MKL", "VECLIB", "NUMEXPR")
TEMPORARY = ("TMPDIR", "TMP", "TEMPDIR", "TEMP")


def job_limits(wildcards: Any, resources: Any) -> dict[str, float]:
    """Seconds and bytes that a cluster job has left for the objective, a little less than it has.

    So a limit is met here and written down, and not guessed from a corpse.
    """
    seconds = 60 * getattr(resources, "runtime", math.inf)
    memory = getattr(resources, "mem_mb", 0) or math.inf  # 0 is Slurm's word for all of a node
    found = {
        "seconds": seconds - min(max(30, 0.05 * seconds), 0.5 * seconds) - _elapsed(),
        "memory": 1e6 * max(memory - OVERHEAD_MB, 0.1 * memory),
    }
    return {k: v for k, v in found.items() if math.isfinite(v)}


def _elapsed() -> float:
    """Seconds since this job began, on a clock of its node that nobody sets; 0 outside a job."""
    from dngo.storage.processes import age

    return age(os.getpid()) or 0.0 if "SLURM_JOB_ID" in os.environ else 0.0


def command(job: Any, folder: Path, python: str, patience: float) -> str:
    """The command line of a job of the rule `evaluate`, for a shell.

    job: Snakemake's.  folder: where the note is kept while the run goes on.
    patience: seconds within which what is written here is to be seen by the job.
    """
    from dngo.provenance import workflow_folder
    from dngo.storage.files import write_json

    note = folder / f"{job.rule.name}.json"
    if not note.exists():
        document = {
            "rule": job.rule.name,
            "config": job.rule.module_globals["config"],
            "folder": os.getcwd(),
            "patience": patience,
        }
        write_json(note, document)
    words = [python, "-P", str(workflow_folder() / "scripts" / "bare.py"), str(note)]
    words += [job.wildcards.iteration, job.wildcards.chunk, job.input[0], job.output[0], job.log[0]]
    words.append(f"--threads={job.threads}")
    for name in ("runtime", "mem_mb"):
        if job.resources.get(name) is not None:
            words.append(f"--{name}={job.resources[name]}")
    return f"exec {shlex.join(map(str, words))}"


def main() -> None:
    """Evaluate one chunk, as the note and the command line say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("note", type=Path)
    parser.add_argument("iteration", type=int)
    parser.add_argument("chunk", type=int)
    for name in ("proposals", "output", "log"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runtime", type=float, default=math.inf, help="minutes")
    parser.add_argument("--mem_mb", type=float, default=0.0)
    given = parser.parse_args()
    note = json.loads(_seen(given.note, 60.0).read_text(encoding="utf-8"))
    os.chdir(note["folder"])
    _seen(given.proposals, note["patience"])
    _prepare(given.threads)

    from dngo.evaluation.limits import Limits
    from dngo.workflow.job import job

    run = SimpleNamespace(rule=note["rule"], config=note["config"], log=[given.log])
    with job(run) as (study, progress):
        limits = Limits.from_now(job_limits(None, given))
        study.evaluate(given.iteration, given.chunk, given.output, progress, limits)


def _seen(path: Path, patience: float) -> Path:
    """The path, once a network file system shows it here; ends the process if it does not."""
    end = time.monotonic() + patience
    while not path.exists():
        if time.monotonic() > end:
            sys.exit(f"{path}: is not there after {patience:.0f} s")
        time.sleep(0.5)
    return path


def _prepare(threads: int) -> None:
    """The environment that Snakemake gives a script."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    os.environ |= {f"{name}_NUM_THREADS": str(min(threads, given)) for name in THREADS}
    os.environ |= dict.fromkeys(TEMPORARY, tempfile.gettempdir())
