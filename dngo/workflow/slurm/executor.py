"""Snakemake's Slurm executor, made patient: a long study survives a cluster's bad days.

It differs from the plugin's executor in these points. Each of them ended, stalled or slowed a long run:

polling      One `squeue` asks for all jobs, as often as the profile says. Slurm is asked at once when
             all outputs of a batch are there. The plugin forgets every job if the controller is away
             for a number of attempts. It waits for ever for a job that Slurm has forgotten. It asks
             less and less often, so that a cluster stands idle.
outputs      This module waits for the outputs of all jobs at once; Snakemake waits for one job after
             another. A job is done when all its outputs are there, however long the cluster tidies up.
submission   A submission waits while the controller is away, and while Slurm refuses for a reason that
             passes. A lasting refusal ends the run with Slurm's words (`reasons`); it is looked for at
             the start. The plugin counts each refusal as an attempt. A job is never submitted twice
             (`submission`).
the queue    If Slurm takes a job that will never start, the run ends as after a refusal. The user reads
             what other jobs wait for.
calls        All have a time limit (`calls`). The end of a run waits for none of them.
nodes        If jobs die on a node before they begin, the node is named and avoided, and left out after
             several deaths (`nodes`).
a job        It runs without a Snakemake (`dngo.workflow.bare`), or with one but not a second one below
             `srun`. That starts faster and needs less memory, and an objective may call `srun` itself.
logs         They are in a folder of this run. Empty folders are removed at its end, but pending jobs of
             another run need theirs.
messages     Messages of jobs that are a group of rules are shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
from snakemake_executor_plugin_slurm.utils import delete_empty_dirs

from dngo.evaluation.chunk import PROGRESS
from dngo.evaluation.journal import Journal
from dngo.study import load_study
from dngo.workflow import bare
from dngo.workflow.slurm import jobs
from dngo.workflow.slurm.calls import GOODBYE
from dngo.workflow.slurm.nodes import FREE
from dngo.workflow.slurm.reasons import MUTE, Queue, Row
from dngo.workflow.slurm.submission import DENIED
from dngo.workflow.slurm.submitting import Submitting
from dngo.workflow.words import STOPS

SILENCE = 30.0  # seconds after which a job counts as over if Slurm does not know it
# Seconds between looks at outputs, and the most looks that have us ask Slurm at once.
GLANCE, GLANCES = 1.0, 5
UNSEEN = 600.0  # the same if Slurm does not let users ask about it
LOCAL = 3.0  # seconds for a job on this machine to end by itself when the run is ended

ENDED_BADLY = {"BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
# Over, unless Slurm queues the job again a moment later.
ENDED_PERHAPS = {"NODE_FAIL", "PREEMPTED", "REVOKED", "UNKNOWN", "GONE"}
OVER = {*ENDED_BADLY, *ENDED_PERHAPS, "COMPLETED"}
GONE = Row("GONE")
# A node is blamed for these ends of a job: before it began, and after.
BLAMED = {"BOOT_FAIL", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "PENDING"}
AVOIDED = {"BOOT_FAIL", "FAILED", "NODE_FAIL"}


class Executor(Submitting):
    """The executor of `--profile slurm`; see the module's text."""

    slurm_logdir: Path
    _terminated = False  # by SIGTERM; jobs that run on the cluster may end by themselves
    _over = False

    def __post_init__(self, test_mode: bool = False) -> None:
        super().__post_init__(test_mode)
        self._queue = Queue(self.run_uuid)
        self._asked: list[Any] = []  # jobs that Slurm was last asked about and that are not over
        self._free: dict[Any, int] = {}  # deaths of a job that did not count as attempts

    # ---- jobs -----------------------------------------------------------------------------------

    def format_job_exec(self, job: Any) -> str:
        """The command of a job. It runs the stage itself, unless the job needs a Snakemake."""
        if not bare.is_bare(self.workflow, job):
            return f"{bare.DEAF}; {super().format_job_exec(job)}"
        patience = self.workflow.execution_settings.latency_wait
        python = self.get_python_executable()
        return bare.holding(bare.command(job, Path(self.tmpdir), python, patience))

    def additional_general_args(self) -> str:
        """Options of the Snakemake in a job: it runs the rule itself."""
        return "--executor local"

    @property
    def cores(self) -> str:
        """Cores that a job may use: all of its node's, even if the login node has fewer."""
        return "all"

    def get_account_arg(self, job: Any) -> Iterator[str]:
        """The configured account.

        Slurm itself knows whether it is valid, and which is the user's default.
        """
        account = str(job.resources.get("slurm_account") or "").replace(",", " ").split()
        return iter([f" -A {shlex.quote(account[0])}" if account else ""])

    def get_partition_arg(self, job: Any) -> str:
        """The configured partition. Without one, Slurm itself takes its default."""
        known = job.resources.get("slurm_partition") or self._partitions
        return super().get_partition_arg(job) if known else ""

    # ---- the end of a run -------------------------------------------------------------------------

    def terminate(self, *_: Any) -> None:
        """What SIGTERM does: Snakemake ends now. Jobs that run on the cluster end by themselves."""
        if not (self._cancelled or self._over):
            self._terminated = True
            raise SystemExit

    def cancel_jobs(self, active_jobs: list[Any]) -> None:
        """Cancel all submitted jobs, or only those that still wait. No call of Slurm delays the end."""
        self._cancelled = True
        self.calls.end()
        local = psutil.Process().children(recursive=True)
        ended = threading.Thread(target=_end_processes, args=(local,))
        ended.start()
        if self._submitted:
            # Those that Slurm is being asked about are not among the active ones.
            numbers = {str(job.external_jobid) for job in (*active_jobs, *self._asked)}
            self._cancel(sorted(numbers))
        ended.join()

    def _cancel(self, numbers: list[str]) -> None:
        """Cancel jobs by their numbers, and by name one whose number is not known. Say what is left.

        A plugin of the site may have given them other names.
        """
        until = time.monotonic() + GOODBYE
        options = ["--state=PENDING"] if self._terminated else []
        clusters = [f"--clusters={name}" for name in self._submitted_job_clusters]
        options += clusters
        words = ["scancel", "--quiet", *options, *numbers]
        done = not numbers or self.calls.last(*words, until=until)
        named = ["scancel", "--quiet", *options, f"--name={self.run_uuid}"]
        done = self.calls.last(*named, until=until) and done
        left = (
            self._submitter.left(numbers, self._terminated, until)
            if numbers and not clusters
            else []
        )
        again = " ".join(["scancel", *left] if left else words if numbers else named)
        if not done:
            going = f", and {len(left)} of {len(numbers)} go on" if left else ""
            self.logger.warning(
                f"Slurm did not confirm within {GOODBYE:.0f} s that the jobs are cancelled{going}. If some "
                f"are left, they do no harm; `{again}` cancels them."
            )
        elif left:
            self.logger.warning(
                f"Slurm did not cancel {len(left)} of {len(numbers)} jobs, and they go on: `{again}`"
            )
        elif self._terminated:
            self.logger.info("Jobs that run go on. The same command will collect their outcomes.")

    def shutdown(self) -> None:
        """Called when all jobs are done or no longer wanted."""
        self._over = True
        self.calls.end()
        super().shutdown()

    # ---- polling --------------------------------------------------------------------------------

    async def sleep(self) -> None:
        """Wait before asking Slurm again. Once all outputs of a batch are there, wait less."""
        until = time.monotonic() + self.next_seconds_between_status_checks
        while (left := until - time.monotonic()) > 0 and self.wait:
            await asyncio.sleep(min(left, GLANCE))
            if self._is_written():
                return

    def _is_written(self) -> bool:
        """Whether one folder (a fit's or a batch's) has all outputs of the jobs that write to it.

        Only the first few looks count, in case a job does not end after its last output. Each look
        reads one file of each folder, and none in a storage, which may be far away.
        """
        folders: dict[str, list[Any]] = {}
        for job in list(self.active_jobs):
            if "dngo_folder" not in job.aux:  # a user's own rule may have no output
                outputs = [f for f in bare.members(job.job)[-1].output if not jobs.is_stored(f)]
                job.aux["dngo_folder"] = os.path.dirname(outputs[0]) if outputs else None
            if job.aux["dngo_folder"] is not None:
                folders.setdefault(job.aux["dngo_folder"], []).append(job)
        for batch in folders.values():
            if all(map(jobs.is_complete, batch)):
                batch[0].aux["dngo_glances"] = batch[0].aux.get("dngo_glances", 0) + 1
                if batch[0].aux["dngo_glances"] <= GLANCES:
                    return True
        return False

    async def check_active_jobs(self, active_jobs: list[Any]) -> AsyncIterator[Any]:
        """Report the jobs that have ended and yield the others."""
        if not active_jobs:  # polling begins before __post_init__ ends
            return
        if self._submitted_job_clusters:  # the plugin's own code handles jobs on several clusters
            async for job in super().check_active_jobs(active_jobs):
                yield job
            return
        self._asked = list(active_jobs)
        rows = await asyncio.to_thread(self._submitter.rows)
        if rows is None:
            if not self._over and not self._cancelled:
                self.calls.silent("squeue")
            for job in active_jobs:
                yield job
            return
        over = await self._hear(rows, active_jobs)
        over |= await self._bury(rows, active_jobs)
        for job in active_jobs:
            row = rows.get(job.external_jobid, GONE)
            if job.external_jobid not in over and await self._goes_on(job, row):
                yield job
            else:
                self._asked.remove(job)

    async def _hear(self, rows: dict[str, Row], active_jobs: Sequence[Any]) -> set[str]:
        """Tell the user about jobs that do not run. Returns the numbers of those that were cancelled."""
        mine = {job.external_jobid: job for job in active_jobs}
        known = {number: rows[number] for number in mine if number in rows}
        alive = {
            n: r
            for n, r in known.items()
            if r.state not in OVER and "launch failed" not in r.reason
        }
        alive |= {n: r._replace(state=MUTE) for n, r in alive.items() if jobs.is_mute(mine[n], r)}
        now = time.monotonic()
        ended = {n for n in alive if alive[n].state == "COMPLETING" and jobs.is_complete(mine[n])}
        for message in self._queue.hear({n: alive[n] for n in alive if n not in ended}, now):
            self.logger.warning(message)
        never = self._queue.never(alive, now)
        for number, key in never.items():
            job, row = mine[number].job, alive[number]
            words = f"Slurm takes jobs of {jobs.rules(job)} but does not start them: {row.reason}"
            self._give_up(f"{words}. {jobs.cure(job, key)}")
        stuck = set(never)
        if self._ending():
            stuck |= {number for number, row in alive.items() if row.state == "PENDING"}
        twice = {
            number
            for number, row in rows.items()
            if number not in mine and self._numbers.get(row.tag, number) != number
        }
        if stuck | twice:
            await asyncio.to_thread(
                self.calls.ask, "scancel", "--quiet", "--state=PENDING", *sorted(stuck | twice)
            )
        for number in stuck:
            self._drop(mine[number].job)
        return stuck

    async def _bury(self, rows: dict[str, Row], active_jobs: Sequence[Any]) -> set[str]:
        """End the jobs that cannot begin, once other jobs are kept off their node."""
        dead, waiting = [], []
        for job in active_jobs:
            row = rows.get(job.external_jobid, GONE)
            if row.state == "RUNNING" and not job.aux.get("dngo_begun"):
                if jobs.begins(job):
                    self._nodes.began(jobs.rules(job.job), row.node)
                elif how := jobs.cannot_begin(job):
                    dead.append((job, row._replace(state="FAILED"), how))
            elif row.state == "PENDING":
                waiting.append(job)
        for job, row, how in dead:
            await self._report_end(job, row, "cannot begin", how)
        bad = self._nodes.bad(time.monotonic())
        kept: dict[frozenset[str], list[str]] = {}
        for job in waiting:
            excluded = job.aux["dngo_excluded"]
            if not bad <= excluded and self._nodes.others(jobs.rules(job.job), time.monotonic()):
                job.aux["dngo_excluded"] = excluded | bad
                kept.setdefault(frozenset(excluded | bad), []).append(job.external_jobid)
        for nodes, numbers in kept.items():
            await asyncio.to_thread(self._submitter.exclude, numbers, nodes)
        numbers = [job.external_jobid for job, _, _ in dead]
        if numbers:
            await asyncio.to_thread(self.calls.ask, "scancel", "--quiet", *numbers)
        return set(numbers)

    async def _goes_on(self, job: Any, row: Row) -> bool:
        """Whether to go on watching a job. If it has ended, this reports it."""
        state, reason = row.state, row.reason
        if state not in OVER:
            job.aux.pop("dngo_ended", None)
        if state == "COMPLETED" or (state == "COMPLETING" and jobs.is_complete(job)):
            return await self._awaits_outputs(job, row, "its outputs are missing", 0.0)
        if state == "GONE":
            return await self._is_missing(job, row)
        if state == "OUT_OF_MEMORY" and jobs.is_complete(job):
            # The kernel ended the objective and not the job. The job recorded that.
            return await self._awaits_outputs(job, row, "", 0.0)
        if state in ENDED_BADLY or (state in ENDED_PERHAPS and jobs.since(job) >= SILENCE):
            if state in BLAMED and not jobs.begins(job) and not self._is_late(job):
                return True  # until its log is visible here
            await self._report_end(job, row, f"has ended: {state} {reason}")
            return False
        if "launch failed" in reason:
            # A node could not start the job. Slurm holds it until somebody releases it.
            await asyncio.to_thread(self.calls.ask, "scancel", "--quiet", job.external_jobid)
            await self._report_end(job, row, f"could not be started: {reason}")
            return False
        return True

    async def _is_missing(self, job: Any, row: Row) -> bool:
        """Whether to go on watching a job that `squeue` does not list.

        It ended long ago, or the controller lost its state. Or `squeue` is wrong: a site's wrapper may
        be late, or list nothing. So before the job counts as over, its log must say that it has ended,
        or the controller. Where users may not ask the controller, a job that is not listed for ten
        minutes is over. If it does run, the next job waits for its points: it has their claims.
        """
        number, patience = job.external_jobid, self.workflow.execution_settings.latency_wait
        state: str | None = ""
        if jobs.since(job) >= max(SILENCE, patience) and not jobs.is_complete(job):
            if how := jobs.ending(job):
                await self._report_end(job, row, "is over", how)
                return False
            state = await asyncio.to_thread(self._submitter.state, number)
            if state == DENIED:
                if jobs.since(job) < UNSEEN:
                    return True
                state = ""
            if state is None or (state and state not in OVER):
                del job.aux["dngo_ended"]  # ask again after as long
                if state is None:
                    self.calls.silent("scontrol show job")
                else:
                    self.calls.answers("scontrol show job")
                if state and "squeue" not in self._said:
                    self._said.add("squeue")
                    self.logger.warning(
                        f"`squeue` does not list job {number}, but `scontrol show job {number}` says "
                        f"that it is {state}; waiting. Is `squeue` here a wrapper, or late?"
                    )
                return True
            if not state:
                self.logger.warning(f"Slurm does not know job {number} any more.")
        words = f"it is {state}" if state else "Slurm does not know it any more"
        return await self._awaits_outputs(job, row, words, SILENCE)

    async def _awaits_outputs(self, job: Any, row: Row, otherwise: str, silence: float) -> bool:
        """Whether the outputs of a finished job may still appear. Reports success once they are there.

        All such jobs wait side by side.
        """
        if jobs.is_complete(job):
            self._nodes.began(jobs.rules(job.job), row.node)
            self.report_job_success(job)
            self._remove_log(job)
            return False
        if jobs.since(job) < max(silence, self.workflow.execution_settings.latency_wait):
            return True
        await self._report_end(job, row, f"is over: {otherwise}")
        return False

    def _is_late(self, job: Any) -> bool:
        """Whether a job's files should be visible here by now."""
        log = job.aux.get("slurm_logfile")
        with contextlib.suppress(OSError):
            if log is None or log.stat().st_size:
                return True
        return jobs.since(job) >= self.workflow.execution_settings.latency_wait

    async def _report_end(self, job: Any, row: Row, what: str, how: str = "") -> None:
        """Report a job that failed, and note what the next attempt should avoid.

        how: its exit status in words, if it is known without asking Slurm.
        """
        log, node = job.aux.get("slurm_logfile"), row.node
        begun, progress = jobs.begins(job), bool(log and jobs.says(log, PROGRESS))
        if begun:
            self._nodes.began(jobs.rules(job.job), node)
        how = how or await asyncio.to_thread(self._submitter.ending, job.external_jobid)
        if log and jobs.says(log, STOPS):
            # Running jobs may end. Every further job would say the same.
            self.workflow.scheduler.exit_gracefully()
        elif not progress and (row.state in AVOIDED or (row.state in BLAMED and not begun)):
            self._nodes.failed(job.job, node)
        unable = jobs.cannot_start(job)
        if unable or (not begun and row.state not in ("CANCELLED", "COMPLETED")):
            if unable and not self._blames(job, node):
                self._stop(job, unable)
            elif row.state in BLAMED:
                self._tell_death(job, node, unable or how or row.reason or row.state)
            if self._is_free(job):
                return
        if progress:
            job.job.attempt -= 1  # Snakemake is about to add one; this was no failed attempt
        name = f"Slurm job {job.external_jobid}{f' on node {node}' if node else ''}"
        why = jobs.hands_over(job) if row.state in OVER else ""
        if why and job.job.attempt <= job.job.restart_times:  # nothing is wrong
            self.logger.info(f"{name} leaves the rest of its work to another job: {why}.")
            return self._drop(job.job)
        message = f"{name} {what.strip()}{f' ({how})' if how else ''}. "
        self.report_job_error(job, msg=message, aux_logs=[str(log)] if log else [])

    def _is_free(self, job: Any) -> bool:
        """Whether a job died before it began, which is no failed attempt. If so, this reports it."""
        if self._ending():
            self._drop(job.job)
            return True
        self._free[job.job] = self._free.get(job.job, 0) + 1
        if self._free[job.job] > FREE:
            return False
        job.job.attempt -= 1
        self._drop(job.job)
        return True

    def _blames(self, job: Any, node: str) -> bool:
        """Whether the node, and not the command, is the cause if the objective could not be started."""
        looks_wrong = self._nodes.unable(node)
        journal = self._journal(job)
        return not looks_wrong or (journal is not None and journal.ran)

    def _stop(self, job: Any, why: str) -> None:
        """End the run because of a mistake that every further job would meet."""
        journal = self._journal(job)
        if journal is not None and not self._ending():
            journal.note_stop(why)
        self._give_up(why)

    def _journal(self, job: Any) -> Journal | None:
        """The journal of a job's study; None for a job of the user's own rule."""
        with contextlib.suppress(Exception):
            return load_study(bare.members(job.job)[0].rule.module_globals["config"]).journal
        return None

    def _tell_death(self, job: Any, node: str, how: str) -> None:
        log, known = job.aux.get("slurm_logfile"), set(self._nodes.left_out)
        for message in self._nodes.died(node, how, time.monotonic()):
            self.logger.warning(f"{message} Its log: {log}")
        journal = self._journal(job) if node in self._nodes.left_out.keys() - known else None
        if journal is not None:
            journal.note_left_out(node, self._nodes.left_out[node])
        for other in filter(jobs.begins, [*self._asked, *self.active_jobs]):
            self._nodes.began(jobs.rules(other.job), "")
        if self._nodes.hopeless:
            self._give_up(
                f"{self._nodes.hopeless}. See {log}; can the nodes read "
                f"{self.get_python_executable()} and this folder? Correct that, then type "
                "the same command again."
            )

    def print_job_error(self, job_info: Any, msg: str | None = None, **kwargs: Any) -> None:
        """Show an error. Snakemake itself drops the message of a job that is a group of rules."""
        if msg and job_info.job.is_group():
            self.logger.error(f"Job of {jobs.rules(job_info.job)}: {msg}")
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


def _end_processes(processes: list[psutil.Process]) -> None:
    """End processes on this machine. First they get a moment to end by themselves."""
    _, alive = psutil.wait_procs(processes, timeout=LOCAL)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(alive, timeout=1.0)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
