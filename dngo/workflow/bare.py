"""Runs a stage in a job of a cluster without a Snakemake in the job.

A Snakemake in a job reads the workflow again, and starts the rule's script in another process. That
costs more than sixty short evaluations. The Snakemake that submits the job knows all of that
already. So it writes one note for all jobs of the rule, and each job begins at once. A fit and the
proposals that follow from it are one process. A job that needs more (conda, files that are not
shared, a folder for temporary files) is Snakemake's own.

This module imports nothing that computes until the number of threads is set.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import resource
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from dngo.workflow.words import CANNOT_BEGIN, ENDED

OVERHEAD_MB = 400  # MB that a job with a Snakemake needs in addition to the objective
# Snakemake sets these for a job's script. Libraries of linear algebra read them.
THREADS = ("OMP", "GOTO", "OPENBLAS", "MKL", "VECLIB", "NUMEXPR")
NOTHING = "-"  # stands for a path
STAGES = ("fit", "propose", "evaluate")
# Seconds for which a job that cannot begin stays on its node, so that no other job goes there.
HOLD = 30
DEAF = "trap '' USR1 USR2"  # for the shell of a job, which `--signal=B:` would end
TEMPORARY = ("TMPDIR", "TMP", "TEMPDIR", "TEMP")


def job_limits(wildcards: Any, resources: Any) -> dict[str, Any]:
    """Seconds and bytes that the objective may use: a little less than the cluster job has. `cut`
    says that Slurm gave the job less time than it asked for.

    The job then meets its own limit first, and records that before the scheduler kills it.
    """
    asked, gave = 60 * getattr(resources, "runtime", math.inf), slurm_gave()
    seconds = min(asked, gave)
    # 0 means all the memory of a node in Slurm.
    memory = getattr(resources, "mem_mb", 0) or math.inf
    found = {
        "seconds": seconds - min(max(30, 0.05 * seconds), 0.5 * seconds) - _elapsed(),
        "memory": 1e6 * max(memory - OVERHEAD_MB, 0.1 * memory),
    }
    limits: dict[str, Any] = {k: v for k, v in found.items() if math.isfinite(v)}
    if gave < asked < math.inf:
        limits["cut"] = (
            f"Slurm gave it {gave / 60:.3g} of the {asked / 60:.3g} minutes in resources.evaluate.runtime"
        )
    return limits


def slurm_gave() -> float:
    """Seconds that Slurm gives this job, from its start to its end; infinite if it does not say.

    A site may give less than was asked for. Releases before 23.02 do not say. Both times are the
    controller's, whatever the node's clock says.
    """
    began, ends = (os.environ.get(f"SLURM_JOB_{name}_TIME", "") for name in ("START", "END"))
    if "SLURM_JOB_ID" not in os.environ or not ends.isdigit():
        return math.inf
    start = int(began) if began.isdigit() else time.time() - _elapsed()
    return max(int(ends) - start, 1.0)


def _elapsed() -> float:
    """Seconds since this job began, by its node's monotonic clock; 0 outside a job."""
    from dngo.storage.processes import age

    return age(os.getpid()) or 0.0 if "SLURM_JOB_ID" in os.environ else 0.0


def stage_of(rule: Any) -> str:
    """The stage that a Snakemake rule runs. "" if the rule needs no cluster, or differs from ours."""
    from dngo.provenance import workflow_folder

    rules = workflow_folder() / "rules"
    path = Path(rule.snakefile).resolve()
    own = path.parent == rules and str(rule.script) == f"../scripts/{path.stem}.py"
    return path.stem if own and path.stem in STAGES else ""


def members(job: Any) -> list[Any]:
    """The rules' jobs in one job of Snakemake, in the order in which they must run."""
    return [m for level in job.toposorted for m in level] if job.is_group() else [job]


def is_bare(workflow: Any, job: Any) -> bool:
    """Whether a job only runs scripts of stages, in the current environment."""
    from snakemake_interface_executor_plugins.settings import SharedFSUsage

    parts = members(job)
    stages = [stage_of(part.rule) for part in parts]
    if not all(stages) or (job.is_group() and set(stages) - {"fit", "propose"}):
        return False
    temporary = [part.rule.resources.get("tmpdir") for part in parts]
    return (
        not any(part.is_shadow for part in parts)
        and len({part.threads for part in parts}) == 1
        and not workflow.deployment_settings.deployment_method
        and SharedFSUsage.all() <= set(workflow.storage_settings.shared_fs_usage)
        and not workflow.remote_execution_settings.precommand
        and all(found is None or found.raw == "system_tmpdir" for found in temporary)
    )


def command(job: Any, folder: Path, python: str, patience: float) -> str:
    """The command line of a job that runs stages. It has no quotes if no path has spaces.

    job: Snakemake's.
    folder: the note's, for the time of the run.
    patience: seconds for which the job waits to see a file written here.
    """
    from dngo.provenance import workflow_folder
    from dngo.storage.files import write_json

    parts = members(job)
    first = parts[0].rule
    note = folder / f"{first.name}.json"
    if not note.exists():
        config = first.module_globals["config"]
        write_json(note, {"config": config, "folder": os.getcwd(), "patience": patience})
    script = str(workflow_folder() / "scripts" / "bare.py")
    words = [python, "-P", script, str(note)]
    words.append(f"--threads={job.threads}")
    for name in ("runtime", "mem_mb"):
        if job.resources.get(name) is not None:
            words.append(f"--{name}={job.resources[name]}")
    made = {path for part in parts for path in part.output}
    words += [f"--await={path}" for part in parts for path in part.input if path not in made]
    for part in parts:
        words += ["--stage", stage_of(part.rule), part.rule.name, part.wildcards.iteration]
        words += [
            part.wildcards.get("chunk", "0"),
            part.log[0],
            part.benchmark or NOTHING,
            part.output[0],
        ]
        words.append(part.input[0] if part.input else NOTHING)
    return shlex.join(map(str, words))


def holding(command: str) -> str:
    """A job's command for our executor. A job that cannot begin says so, and waits until the
    executor reads it.

    If the job ended at once, its node would take the next waiting job, and then all others. Signals
    that `--signal=B:` asks for must not end the shell: the stage passes them on.
    """
    python, _, script, *_ = shlex.split(command)
    check = shlex.join([python, "-P", "-c", "import sys; open(sys.argv[1])", script])
    said = f'echo "{CANNOT_BEGIN} (exit status $status)"'
    otherwise = f"{{ status=$?; {said}; sleep {HOLD}; exit $status; }}"
    return f"{DEAF}; {check} || {otherwise}; exec {command} --hold"


def main() -> None:
    """Run the stages that the note and the command line name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("note", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runtime", type=float, default=math.inf, help="minutes")
    parser.add_argument("--mem_mb", type=float, default=0.0)
    parser.add_argument("--await", type=Path, action="append", default=[], dest="inputs")
    parser.add_argument("--stage", nargs=8, action="append", default=[])
    parser.add_argument("--hold", action="store_true")
    given = parser.parse_args()
    try:
        note = json.loads(_seen(given.note, 60.0).read_text(encoding="utf-8"))
        os.chdir(note["folder"])
        for path in given.inputs:
            _seen(path, note["patience"])
        _prepare(given.threads)
        import dngo.workflow.job  # noqa: F401
    except Exception:
        traceback.print_exc()
        _cannot_begin(given.hold)
    status: Any = 1
    try:
        for words in given.stage:
            _run(words, note["config"], given)
        status = 0
    except SystemExit as end:
        status = end.code
        raise
    finally:
        # Slurm may not say it: where `squeue` lists only active jobs, and `scontrol` is denied.
        with contextlib.suppress(OSError):
            print(f"{ENDED} (exit status {status})", file=sys.stderr, flush=True)


def _cannot_begin(hold: bool) -> NoReturn:
    """End a job that cannot read its files on this node."""
    print(f"{CANNOT_BEGIN} (exit status 1)", flush=True)
    if hold:
        time.sleep(HOLD)
    sys.exit(1)


def _run(words: Sequence[str], config: Any, given: argparse.Namespace) -> None:
    """Run a stage. words: its name, rule, iteration, chunk, log, benchmark, output and input."""
    from dngo.evaluation.limits import Limits
    from dngo.workflow.job import job

    stage, rule, iteration, chunk, log, benchmark, output, source = words
    began = time.monotonic()
    with job(SimpleNamespace(rule=rule, config=config, log=[log])) as (study, progress):
        t, to = int(iteration), Path(output)
        if stage == "fit":
            study.fit(t, to, progress)
        elif stage == "propose":
            study.propose(t, Path(source) if source != NOTHING else None, to, progress)
        else:
            limits = Limits.from_now(job_limits(None, given))
            study.evaluate(t, int(chunk), to, progress, limits)
    if benchmark != NOTHING:
        _note_cost(Path(benchmark), time.monotonic() - began)


def _note_cost(path: Path, seconds: float) -> None:
    """Write the costs of a job as Snakemake does. The report shows the seconds.

    Memory and CPU seconds count from the start of the process.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    row = [seconds, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "s\tmax_rss\tcpu_time\n" + "\t".join(f"{x:.2f}" for x in row) + "\n"
    path.write_text(text, encoding="utf-8")


def _seen(path: Path, patience: float) -> Path:
    """Wait until the network file system shows a path here; raises FileNotFoundError if it never
    does.
    """
    end = time.monotonic() + patience
    while not path.exists():
        if time.monotonic() > end:
            raise FileNotFoundError(f"{path}: is not there after {patience:.0f} s")
        time.sleep(0.5)
    return path


def _prepare(threads: int) -> None:
    """Set the environment that Snakemake gives a script."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    os.environ |= {f"{name}_NUM_THREADS": str(min(threads, given)) for name in THREADS}
    os.environ |= dict.fromkeys(TEMPORARY, tempfile.gettempdir())
