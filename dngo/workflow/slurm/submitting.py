"""Submits the jobs of a run: patiently, each one once, and not to bad nodes."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from dngo.workflow import bare
from dngo.workflow.slurm import checking, jobs
from dngo.workflow.slurm.calls import AGAIN, Calls
from dngo.workflow.slurm.nodes import Nodes
from dngo.workflow.slurm.refusals import Refusal
from dngo.workflow.slurm.submission import Sample, Submission, Submitter
from dngo.workflow.words import CHECK

OUTAGE = 24 * 3600.0  # seconds for which a submission waits for the controller
PAUSE, LONGEST_PAUSE = 5.0, 120.0  # seconds between attempts at a submission, at first and later on
CLUSTER = ("SLURM_CONF", "SLURM_CONF_SERVER")
STRANGE = 600.0  # seconds for which a refusal may pass whose words say nothing to us
LOOKS = 3  # looks for the job of a submission without an answer, one pause between two


class Submitting(plugin.Executor):
    """The part of the executor that submits jobs."""

    slurm_logdir: Path
    _cancelled = False  # the run and its jobs are being ended
    _waits_for = ("", 0.0)  # the last refusal that the user has read, and when
    _tests: list[Sample] | None = None  # a job of each rule, for Slurm to test

    def __init__(self, workflow: Any, logger: Any):
        # In a job of Slurm the plugin drops its variables, and with them where the cluster is.
        self._cluster = {name: os.environ[name] for name in CLUSTER if name in os.environ}
        super().__init__(workflow, logger)

    def __post_init__(self, test_mode: bool = False) -> None:
        os.environ |= self._cluster
        super().__post_init__(test_mode)
        self.slurm_logdir = self.slurm_logdir / self.run_uuid
        self.calls = Calls(self.logger.warning)
        self._submitter, self._nodes = Submitter(self.calls, self), Nodes()
        self._numbers: dict[str, str] = {}  # numbers of jobs whose submission was in doubt, by tag
        self._said: set[str] = set()
        self._testing = threading.Lock()
        self._submitted = False
        if CHECK in os.environ:
            checking.check(self, self._of_each_rule())

    def run_jobs(self, ready: list[Any]) -> None:
        """Submit jobs. Before a run's first job, Slurm tests one job of each rule."""
        if self._tests is None:
            self._tests = self._of_each_rule()
        super().run_jobs(ready)

    def _of_each_rule(self) -> list[Sample]:
        found: dict[str, Any] = {}
        for job in self.workflow.dag.needrun_jobs():
            whole = self.workflow.dag.get_job_group(job) or job
            if bare.stage_of(job.rule) and not job.is_local:
                found.setdefault(jobs.rules(whole), whole)
        samples = []
        for job in found.values():
            with contextlib.suppress(WorkflowError):  # its submission will say why
                samples.append(self._submitter.sample(job))
        return samples

    def run_job(self, job: Any) -> None:
        """Submit a job in its own thread, as soon as Slurm accepts it."""
        try:
            self._test()
            number, submission = "", None
            if not self._ending():
                command = self.format_job_exec(job)
                submission = self._submitter.prepare(job, command, self.slurm_logdir)
                number = self._number(job, submission)
        except Exception as error:
            return self.report_job_error(SubmittedJobInfo(job), msg=f"not submitted: {error} ")
        if not number or submission is None:
            return self._drop(job)
        log = submission.log.with_name(f"{number}.log")
        self.logger.info(
            f"Job {job.jobid} has been submitted with SLURM jobid {number} (log: {log})."
        )
        cluster = jobs.cluster(job)
        if cluster:
            self._submitted_job_clusters.add(cluster)
        aux = {"slurm_logfile": log, "dngo_excluded": submission.excluded}
        info = SubmittedJobInfo(job, external_jobid=number, aux=aux)
        self._report_job_submission_threadsafe(info)

    def _test(self) -> None:
        """Find out once, before the first submission, whether Slurm would take a job of each rule."""
        with self._testing:
            tests, self._tests = self._tests or [], []
            if tests:
                self._await_controller()
            for sample in tests:
                job, rules = sample.job, jobs.rules(sample.job)
                answer = self._submitter.test(sample)
                if (
                    answer.status is None or self._cancelled
                ):  # Slurm would not answer about the others either
                    return
                refusal = Refusal.read(answer.said)
                if refusal.for_want_of_nodes and not self._submitter.all_nodes_work():
                    continue  # Slurm would accept it, and it would wait for jobs that Slurm refuses
                if answer.status and refusal.key and not refusal.passes:
                    words = f"Slurm refuses jobs of {rules}: {refusal.words}"
                    self._give_up(f"{words}. {jobs.cure(job, refusal.key)}")
                limit = 0.0 if answer.status else self._submitter.beyond_partition(sample)
                if limit:
                    words = f"Slurm would not start jobs of {rules}: the partition allows {limit:g} minutes"
                    self._give_up(f"{words}. {jobs.cure(job, 'runtime')}")

    def _number(self, job: Any, submission: Submission) -> str:
        """The number of a job once Slurm has taken it; "" if Slurm refuses it, or if the run is
        being ended.
        """
        pause, doubtful, twice, deadline = PAUSE, False, False, math.inf
        while not self._ending():
            if doubtful and (found := self._find(submission.tag, jobs.cluster(job))):
                self.calls.answers("sbatch")
                return found
            self._await_controller()
            if self._ending():
                break
            self._submitted = True
            excluded = self._nodes.excluded(job, time.monotonic())
            answer = self._submitter.submit(submission, excluded, self._ending)
            number = self._submitter.number(answer) if answer.status == 0 else ""
            if number:
                self._waits_for = ("", 0.0)
                if twice:
                    self._numbers[submission.tag] = number
                return number
            refusal = Refusal.read(answer.said)
            doubtful = (
                not answer.status or refusal.uncertain
            )  # 0: taken, but its number is not there
            twice |= doubtful
            if not answer.status:
                continue
            if refusal.for_want_of_nodes and excluded:
                if self._without_excluded(job, excluded):
                    continue
                return ""
            if not refusal.passes:
                deadline = min(deadline, time.monotonic() + STRANGE)
                if refusal.key or time.monotonic() >= deadline:
                    return self._refused(job, refusal)
            if self._is_news(refusal.words):
                self.logger.warning(f"Slurm takes no job now, trying again: {refusal.words}")
            self._pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return ""

    def _is_news(self, words: str) -> bool:
        """Whether the user has not read a refusal for two minutes."""
        last, when = self._waits_for
        now = time.monotonic()
        if words == last and now < when + AGAIN:
            return False
        self._waits_for = (words, now)
        return True

    def _find(self, tag: str, cluster: str) -> str:
        """The number of the job with this tag, whose submission got no answer; "" if there is none.

        Returns "" only if Slurm says that there is no such job, or if the run is being ended.
        """
        looks = LOOKS
        while looks and not self._ending():
            rows = self._submitter.rows(cluster)
            if rows is None:
                self.calls.silent("squeue")
            else:
                looks -= 1
                number = next((n for n, row in rows.items() if row.tag == tag), "")
                if number:
                    return number
            self._pause(PAUSE)
        return ""

    def _without_excluded(self, job: Any, excluded: Iterable[str]) -> bool:
        """If no node is left for a job, whether to try it again with fewer excluded nodes."""
        if set(excluded) > self._nodes.left_out.keys():
            self._nodes.forget(job)
            return True
        self._give_up(
            f"No node is left for jobs of {jobs.rules(job)}; left out: {self._nodes.none_left}. "
            "Correct that, or name other nodes or another partition. Then type the same "
            "command again."
        )
        return False

    def _refused(self, job: Any, refusal: Refusal) -> str:
        message = f"Slurm refuses the job: {refusal.words}. "
        if refusal.key:
            self._give_up(message + jobs.cure(job, refusal.key))
        else:
            self.logger.error(f"Job of {jobs.rules(job)}: {message}")
        return ""

    def _give_up(self, message: str) -> None:
        """Tell the user once what must change. The run ends when its running jobs have ended."""
        if message not in self._said:
            self._said.add(message)
            self.logger.error(message)
        self.workflow.scheduler.exit_gracefully()

    def _drop(self, job: Any) -> None:
        """Count a job as failed without a message, since the user has read the reason already."""
        if self._ending():
            job.attempt = max(job.attempt, job.restart_times + 1)  # and do not try it again
        self.workflow.scheduler.error_callback(job)

    def _ending(self) -> bool:
        """Whether to submit no more jobs: after Ctrl-C, SIGTERM, or a refusal that stays."""
        return self._cancelled or bool(getattr(self.workflow.scheduler, "_user_kill", None))

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._ending():
            time.sleep(0.25)

    def _await_controller(self) -> None:
        """Wait until the controller answers, a day has passed, or the run is being ended."""
        deadline = time.monotonic() + OUTAGE
        while not self._ending() and self._submitter.is_down() and time.monotonic() < deadline:
            self.calls.silent("scontrol ping")
            self._pause(PAUSE)
        self.calls.answers("scontrol ping")
