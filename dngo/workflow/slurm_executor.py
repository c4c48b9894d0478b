"""Snakemake's Slurm executor, made patient: a long study lives through a cluster's bad days.

What differs from the plugin's own executor, each because it ended, stalled or slowed a long run:

polling      One `squeue` for all jobs, as often as the profile says. The plugin forgets every job when
             the controller is away for longer than a number of attempts, waits for ever for a job that
             Slurm has forgotten, and asks ever less often, so that a cluster stands idle. It is asked
             at once when all that a batch waits for has been written.
outputs      are waited for here, for all jobs at once; Snakemake waits for one job after another.
submission   waits for a controller that is away, and while Slurm refuses for a reason that passes; a
             refusal that stays ends the run with Slurm's words. The plugin counts each as an attempt.
a job        is no Snakemake (`dngo.workflow.bare`), and where it must be one not a second one below `srun`:
             which is less to start and to hold; an objective may call `srun` itself.
logs         are in a folder of this run, for the folders that are empty at its end are removed: pending
             jobs of another run need theirs.
messages     of jobs that are a group of rules are shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import snakemake_executor_plugin_slurm as plugin
from snakemake_executor_plugin_slurm.utils import delete_empty_dirs
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.settings import SharedFSUsage

from dngo.evaluation.chunk import PROGRESS
from dngo.workflow import bare
from dngo.workflow.job import STOPS

ANSWER = 150.0  # seconds for a question; Slurm's own commands try for two minutes
SILENCE = 30.0  # seconds after which a job that Slurm does not know is over
OUTAGE = 24 * 3600.0  # seconds that a submission waits for the controller
GLANCE, GLANCES = 1.0, 5  # seconds between looks at outputs, and how often they have Slurm asked
PAUSE, LONGEST_PAUSE = 5.0, 120.0  # seconds between attempts at a submission, at first and later on

ENDED_BADLY = {"BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
# Over, unless Slurm queues the job again a moment later.
ENDED_PERHAPS = {"NODE_FAIL", "PREEMPTED", "REVOKED", "UNKNOWN", "GONE"}

# What sbatch says when it may accept the same job later.
_PASSES = re.compile(
    r"(Max|Grp)Submit|temporarily|\(inactive or drain\)|contact slurm controller|timed out"
    r"|Connection refused|communication connection|Zero Bytes|Resource unavailable",
    re.I,
)
# What it says of a job that it will never accept, and the resource that the user must change.
_STAYS = (
    (re.compile(r"invalid partition", re.I), "slurm_partition"),
    (re.compile(r"invalid account", re.I), "slurm_account"),
    (re.compile(r"invalid qos", re.I), "qos"),
    (re.compile(r"time limit is invalid|WallDuration|TimeLimit", re.I), "runtime"),
    (re.compile(r"memory|MaxMem|MinMem", re.I), "mem_mb"),
    (re.compile(r"feature", re.I), "constraint"),
    (re.compile(r"generic resource|gres", re.I), "gpu"),
    (re.compile(r"CPU count|processors|MaxCpu", re.I), "threads"),
    (re.compile(r"node configuration is not available", re.I), "threads, mem_mb or constraint"),
)


@dataclass(frozen=True)
class Refusal:
    """Why `sbatch` did not accept a job.

    words: Slurm's own.  passes: whether the same job may be accepted later.  key: the resource that
    must be changed, "" where that is not known.
    """

    words: str
    passes: bool = False
    key: str = ""

    @classmethod
    def read(cls, message: str) -> Refusal:
        """The refusal in the plugin's message."""
        found = re.search(r"The error message was '(.*?)'\.\n", message, re.S)
        words = " ".join((found[1] if found else message).split())
        if _PASSES.search(words):
            return cls(words, passes=True)
        keys = (key for pattern, key in _STAYS if pattern.search(words))
        return cls(words, key=next(keys, ""))


class Executor(plugin.Executor):
    """The executor of `--profile slurm`; see the module's text."""

    _cancelled = _silent = False
    _refused: dict[int, str] | None = None  # by the job's identity, while run_job has it
    _waits_for = ""
    _asked: list[Any]  # jobs that Slurm was last asked about, without those that are over
    slurm_logdir: Path

    def __post_init__(self, test_mode: bool = False) -> None:
        super().__post_init__(test_mode)
        self._refused, self._asked = {}, []
        self.slurm_logdir = self.slurm_logdir / self.run_uuid

    # ---- jobs -----------------------------------------------------------------------------------

    def format_job_exec(self, job: Any) -> str:
        """The command of a job: the stage itself, unless Snakemake has something to do there."""
        if not self._is_bare(job):
            return super().format_job_exec(job)
        patience = self.workflow.execution_settings.latency_wait
        return bare.command(job, Path(self.tmpdir), self.get_python_executable(), patience)

    def _is_bare(self, job: Any) -> bool:
        """Whether a job does nothing but to run scripts of stages, in the environment as it is."""
        workflow, parts = self.workflow, bare.members(job)
        stages = [bare.stage_of(part.rule) for part in parts]
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

    def additional_general_args(self) -> str:
        """Options of the Snakemake in a job: it runs the rule itself."""
        return "--executor local"

    @property
    def cores(self) -> str:
        """Cores that a job may use: those of its node, whatever the login node has."""
        return "all"

    def get_account_arg(self, job: Any) -> Iterator[str]:
        """The account that is configured; without one Slurm takes the user's own by itself."""
        return super().get_account_arg(job) if job.resources.get("slurm_account") else iter([""])

    # ---- submission -----------------------------------------------------------------------------

    def run_job(self, job: Any) -> None:
        """Submit a job, in a thread of its own, as soon as Slurm accepts it."""
        assert self._refused is not None
        pause = PAUSE
        while not self._ending():
            self._await_controller()
            try:
                self._refused[id(job)] = ""
                super().run_job(job)
            except Exception as error:
                self._refused[id(job)] = str(error)
            message = self._refused.pop(id(job))
            if not message:
                self._waits_for = ""
                return
            refusal = Refusal.read(message)
            if not refusal.passes:
                return self._give_up(job, refusal)
            if self._waits_for != refusal.words:
                self._waits_for = refusal.words
                self.logger.warning(f"Slurm takes no job now, trying again: {refusal.words}")
            self._pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        message = "not submitted: the run is being ended. "
        super()._report_job_error_threadsafe(SubmittedJobInfo(job), message)

    def _give_up(self, job: Any, refusal: Refusal) -> None:
        """Report a refusal; one that a change of the configuration must resolve ends the run."""
        message = f"Slurm refuses the job: {refusal.words}. "
        if refusal.key:
            rules = " and ".join(job.rules)
            message += (
                f"Change {refusal.key} of {rules}: `resources` in the study's configuration, or "
                "the profile (slurm/config.yaml), then type the same command again. "
            )
        super()._report_job_error_threadsafe(SubmittedJobInfo(job), message)
        if refusal.key:
            # What runs is let to end; the same refusal would meet every further job.
            self.workflow.scheduler.exit_gracefully()

    def _report_job_error_threadsafe(self, job_info: Any, msg: str) -> None:
        if self._refused is not None and id(job_info.job) in self._refused:
            self._refused[id(job_info.job)] = msg
        else:
            super()._report_job_error_threadsafe(job_info, msg)

    def _ending(self) -> bool:
        """Whether nothing new is to be submitted: Ctrl-C, SIGTERM, or a refusal that stays."""
        return self._cancelled or bool(getattr(self.workflow.scheduler, "_user_kill", None))

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._ending():
            time.sleep(0.5)

    def _await_controller(self) -> None:
        """Return once the controller answers, or after a day, or when the run is being ended."""
        deadline = time.monotonic() + OUTAGE
        while _is_down() and time.monotonic() < deadline and not self._ending():
            self._pause(PAUSE)

    def cancel_jobs(self, active_jobs: list[Any]) -> None:
        """Cancel what was submitted; what still waits for it is not submitted any more."""
        self._cancelled = True
        # While Slurm is asked about them, jobs are not among the active ones.
        found = {job.external_jobid: job for job in (*self._asked, *active_jobs)}
        super().cancel_jobs(list(found.values()))

    # ---- polling --------------------------------------------------------------------------------

    async def sleep(self) -> None:
        """Wait before Slurm is asked again: not as long once a batch has all that it waits for."""
        until = time.monotonic() + self.next_seconds_between_status_checks
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, GLANCE))
            if self._is_written():
                return

    def _is_written(self) -> bool:
        """Whether all outputs of the jobs that write to one folder are there: fit's, or a batch's.

        That is seen for a few glances only, for a job that does not end after its last output. Each costs a
        look at one file of each folder.
        """
        folders: dict[str, list[Any]] = {}
        for job in list(self.active_jobs):
            if "dngo_folder" not in job.aux:  # of no output at all where a rule is the user's own
                outputs = bare.members(job.job)[-1].output
                job.aux["dngo_folder"] = os.path.dirname(outputs[0]) if outputs else None
            if job.aux["dngo_folder"] is not None:
                folders.setdefault(job.aux["dngo_folder"], []).append(job)
        for jobs in folders.values():
            if all(map(_is_complete, jobs)):
                jobs[0].aux["dngo_glances"] = jobs[0].aux.get("dngo_glances", 0) + 1
                if jobs[0].aux["dngo_glances"] <= GLANCES:
                    return True
        return False

    async def check_active_jobs(self, active_jobs: list[Any]) -> AsyncIterator[Any]:
        """Report the jobs that have ended and yield the others."""
        if not active_jobs:  # nor need __post_init__ be done: the polling begins before it
            return
        if self._submitted_job_clusters:  # jobs on several clusters are the plugin's own business
            async for job in super().check_active_jobs(active_jobs):
                yield job
            return
        self._asked = list(active_jobs)
        states = await _states(self.run_uuid)
        if states is None and not self._silent:
            self.logger.warning("Slurm does not answer; waiting until it does.")
        self._silent = states is None
        for job in active_jobs:
            if states is None or await self._goes_on(job, *states.get(job.external_jobid, GONE)):
                yield job
            else:
                self._asked.remove(job)

    async def _goes_on(self, job: Any, state: str, reason: str) -> bool:
        """Whether a job is still to be watched; its end is reported here."""
        if state not in ENDED_PERHAPS and state != "COMPLETED":
            job.aux.pop("dngo_ended", None)
        if state == "COMPLETED":
            return self._awaits_outputs(job, "its outputs are missing", 0.0)
        if state == "GONE":
            # A controller that lost its state has forgotten it, or it ended long ago.
            if not job.aux.get("dngo_gone"):
                job.aux["dngo_gone"] = True
                self.logger.warning(f"Slurm does not know job {job.external_jobid} any more.")
            return self._awaits_outputs(job, "Slurm does not know it any more", SILENCE)
        if state == "OUT_OF_MEMORY" and _is_complete(job):
            # The kernel ended the objective, not the job: that was written down.
            return self._awaits_outputs(job, "", 0.0)
        if state in ENDED_BADLY or (state in ENDED_PERHAPS and _since(job) >= SILENCE):
            self._report_end(job, f"has ended: {state} {reason}")
            return False
        if "launch failed" in reason:
            # A node could not start it, and Slurm holds it until somebody lets it go.
            await _ask("scancel", "--quiet", job.external_jobid)
            self._report_end(job, f"could not be started: {reason}")
            return False
        if "held" in reason.lower() and not job.aux.get("dngo_held"):
            job.aux["dngo_held"] = True
            self.logger.warning(
                f"Slurm holds job {job.external_jobid} ({reason}); "
                f"`scontrol release {job.external_jobid}` lets it go."
            )
        return True

    def _awaits_outputs(self, job: Any, otherwise: str, silence: float) -> bool:
        """Whether the outputs of a job that is over may still show up; success once they are there.

        All such jobs wait at the same time.
        """
        if _is_complete(job):
            self.report_job_success(job)
            self._remove_log(job)
            return False
        if _since(job) < max(silence, self.workflow.execution_settings.latency_wait):
            return True
        self._report_end(job, f"is over: {otherwise}")
        return False

    def _report_end(self, job: Any, what: str) -> None:
        log = job.aux.get("slurm_logfile")
        message = f"Slurm job {job.external_jobid} {what.strip()}. "
        if log and _says(log, PROGRESS):
            job.job.attempt -= 1  # which Snakemake is about to add: it was no failed attempt
        if log and _says(log, STOPS):
            # What runs is let to end; every further job would say the same.
            self.workflow.scheduler.exit_gracefully()
        self.report_job_error(job, msg=message, aux_logs=[str(log)] if log else [])

    def print_job_error(self, job_info: Any, msg: str | None = None, **kwargs: Any) -> None:
        """Show an error; Snakemake drops the message where the job is a group of rules."""
        if msg and job_info.job.is_group():
            self.logger.error(f"Job of {' and '.join(job_info.job.rules)}: {msg}")
        super().print_job_error(job_info, msg, **kwargs)

    # ---- logs -----------------------------------------------------------------------------------

    def _remove_log(self, job: Any) -> None:
        log = job.aux.get("slurm_logfile")
        if log and not self.workflow.executor_settings.keep_successful_logs:
            with contextlib.suppress(OSError):
                log.unlink(missing_ok=True)

    def clean_old_logs(self) -> None:
        """Remove logs that are older than the profile says, and this run's empty folders.

        Folders of other runs stay: Slurm opens a log when the job starts.
        """
        settings = self.workflow.executor_settings
        days = settings.delete_logfiles_older_than
        with contextlib.suppress(OSError):
            if days > 0 and not settings.keep_successful_logs:
                for path in self.slurm_logdir.parent.rglob("*.log"):
                    if path.stat().st_mtime < time.time() - days * 86400:
                        path.unlink()
            if not self.active_jobs:
                delete_empty_dirs(self.slurm_logdir)


GONE = ("GONE", "")


def _since(job: Any) -> float:
    """Seconds since a job was first seen to be over."""
    now = time.monotonic()
    return now - job.aux.setdefault("dngo_ended", now)


def _is_complete(job: Any) -> bool:
    """Whether every output of a job is there."""
    parts = bare.members(job.job)
    return all(os.path.exists(f) for part in parts for f in part.products(include_logfiles=False))


def _says(log: Path, words: str) -> bool:
    """Whether a job that has ended said so: that it evaluated some points, or what stops the run."""
    try:
        with open(log, "rb") as stream:
            stream.seek(-min(log.stat().st_size, 8192), os.SEEK_END)
            return words.encode() in stream.read()
    except OSError:
        return False


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


def _is_down() -> bool:
    """Whether Slurm says of itself that no controller is up; any other trouble is not known here."""
    try:
        answer = subprocess.run(
            ["scontrol", "ping"], capture_output=True, text=True, timeout=ANSWER, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return " DOWN" in answer.stdout and " UP" not in answer.stdout
