"""Snakemake's Slurm executor, made patient: a long study lives through a cluster's bad days.

Three things in snakemake-executor-plugin-slurm end or hang a run that lasts for weeks, and all three
are replaced here. Its polling forgets every job when the controller is away for longer than a number
of attempts, and waits for ever for a job that Slurm has forgotten; it asks ever less often, up to
three minutes, so that a cluster stands idle; and a submission that finds no controller counts as a
failed attempt at the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from dngo.storage.processes import age, since_boot

SUBMITTER = "snakemake_executor_plugin_slurm"
STARTER = "snakemake_executor_plugin_slurm_jobstep"
BEGAN = "DNGO_JOB_BEGAN"  # environment variable: the job's number and when it began
ANSWER = 150.0  # seconds for a question; Slurm's own commands try for two minutes
SILENCE = 30.0  # seconds after which a job that Slurm does not know is over
OUTAGE = 24 * 3600.0  # seconds that a submission waits for the controller

ENDED_BADLY = {"BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
# Over, unless Slurm queues the job again a moment later.
ENDED_PERHAPS = {"NODE_FAIL", "PREEMPTED", "REVOKED", "UNKNOWN", "GONE"}


def make_patient() -> None:
    """Replace the polling and wrap the submission of Snakemake's Slurm executor, if it is loaded."""
    executor = getattr(sys.modules.get(SUBMITTER), "Executor", None)
    if executor is None or getattr(executor, "dngo_patient", False):
        return
    submit, cancel, poll = executor.run_job, executor.cancel_jobs, executor.check_active_jobs

    def run_job(self: Any, job: Any) -> None:
        _await_controller(self)
        submit(self, job)

    def cancel_jobs(self: Any, active_jobs: list[Any]) -> None:
        self.dngo_cancelled = True
        cancel(self, active_jobs)

    async def check_active_jobs(self: Any, active_jobs: list[Any]) -> AsyncIterator[Any]:
        # Jobs on several clusters are the plugin's own business.
        check = poll if getattr(self, "_submitted_job_clusters", None) else _check
        async for job in check(self, active_jobs):
            yield job

    executor.run_job, executor.cancel_jobs = run_job, cancel_jobs
    executor.check_active_jobs, executor.dngo_patient = check_active_jobs, True


def begin_job() -> None:
    """In a job: note when it began, and let `srun` find the cluster where SLURM_CONF says so.

    The plugin that starts it clears the environment of Slurm's variables, and of this one with them.
    """
    job = os.environ.get("SLURM_JOB_ID", "")
    if os.environ.get(BEGAN, "").split()[:1] != [job]:
        os.environ[BEGAN] = f"{job} {since_boot() - age(os.getpid())}"
    starter: Any = sys.modules.get(STARTER)
    place = os.environ.get("SLURM_CONF")
    if starter is None or place is None or not hasattr(starter, "subprocess"):
        return

    start: Any = subprocess.Popen

    def popen(*words: Any, env: dict[str, str] | None = None, **options: Any) -> Any:
        env = {**(os.environ if env is None else env), "SLURM_CONF": place}
        return start(*words, env=env, **options)

    starter.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": popen})


def elapsed() -> float:
    """Seconds since this job began, on a clock of its node that nobody sets; 0 outside a job."""
    job, _, began = os.environ.get(BEGAN, "").rpartition(" ")
    return max(0.0, since_boot() - float(began)) if began and job else 0.0


async def _check(executor: Any, active_jobs: list[Any]) -> AsyncIterator[Any]:
    """Report the jobs that have ended and yield the others."""
    settings = executor.workflow.remote_execution_settings
    executor.next_seconds_between_status_checks = settings.seconds_between_status_checks
    if not active_jobs:
        return
    states = await _states(executor.run_uuid)
    if states is None:
        if not getattr(executor, "dngo_silent", False):
            executor.logger.warning("Slurm does not answer; waiting until it does.")
        executor.dngo_silent = True
        for job in active_jobs:
            yield job
        return
    executor.dngo_silent = False
    for job in active_jobs:
        state, reason = states.get(job.external_jobid, ("GONE", ""))
        if state not in ENDED_PERHAPS:
            job.aux.pop("dngo_ended", None)
        if state == "COMPLETED":
            executor.report_job_success(job)
            _remove_log(executor, job)
        elif state in ENDED_BADLY or _over(job, state):
            if state == "GONE":
                # A restarted controller has forgotten it, or it ended long ago: if its outputs are
                # there it has succeeded, and Snakemake looks for them.
                executor.logger.warning(f"Slurm does not know job {job.external_jobid} any more.")
                executor.report_job_success(job)
            else:
                message = f"Slurm job {job.external_jobid} has ended: {state} {reason}. "
                log = job.aux.get("slurm_logfile")
                executor.report_job_error(job, msg=message, aux_logs=[str(log)] if log else [])
        elif "launch failed" in reason:
            # A node could not start it, and Slurm holds it until somebody lets it go.
            await _ask("scancel", "--quiet", job.external_jobid)
            message = f"Slurm job {job.external_jobid} could not be started: {reason}. "
            executor.report_job_error(job, msg=message)
        else:
            if "held" in reason.lower() and not job.aux.get("dngo_held"):
                job.aux["dngo_held"] = True
                executor.logger.warning(
                    f"Slurm holds job {job.external_jobid} ({reason}); "
                    f"`scontrol release {job.external_jobid}` lets it go."
                )
            yield job


def _over(job: Any, state: str) -> bool:
    """Whether a job that may have ended has been so for long enough."""
    if state not in ENDED_PERHAPS:
        return False
    now = time.monotonic()
    return now - job.aux.setdefault("dngo_ended", now) >= SILENCE


async def _states(run: str) -> dict[str, tuple[str, str]] | None:
    """State and reason of each job of this run by its number; None if Slurm does not answer."""
    words = ("squeue", "--noheader", "--states=all", f"--name={run}", "--format=%i|%T|%r")
    output = await _ask(*words)
    if output is None:
        return None
    rows = (line.strip().split("|") for line in output.splitlines())
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}


async def _ask(*words: str) -> str | None:
    """What a command of Slurm prints; None if it fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return None
    try:
        output, _ = await asyncio.wait_for(process.communicate(), ANSWER)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return None
    return None if process.returncode else output.decode(errors="replace")


def _remove_log(executor: Any, job: Any) -> None:
    log = job.aux.get("slurm_logfile")
    if log and not executor.workflow.executor_settings.keep_successful_logs:
        with contextlib.suppress(OSError):
            log.unlink(missing_ok=True)


def _await_controller(executor: Any) -> None:
    """Return once the controller answers, or after a day, or when the run is given up."""
    deadline = time.monotonic() + OUTAGE
    while _is_down() and time.monotonic() < deadline:
        if getattr(executor, "dngo_cancelled", False):
            return
        time.sleep(5.0)


def _is_down() -> bool:
    """Whether Slurm says of itself that no controller is up; any other trouble is not known here."""
    try:
        answer = subprocess.run(
            ["scontrol", "ping"], capture_output=True, text=True, timeout=ANSWER, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return " DOWN" in answer.stdout and " UP" not in answer.stdout
