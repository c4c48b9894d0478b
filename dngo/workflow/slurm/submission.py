"""How a job is submitted: exactly once, even if the answer is lost.

Slurm may have accepted a submission although its answer was lost or unclear. So each submission has
a tag in its comment. Before trying again, the executor looks for a job with that tag.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.utils import get_job_wildcards, set_gres_string
from snakemake_executor_plugin_slurm.validation import validate_slurm_extra

from dngo.workflow.slurm.calls import Answer, Calls
from dngo.workflow.slurm.reasons import Row, minutes
from dngo.workflow.words import CLUSTER_JOB

# States of a job that nobody has cancelled.
ALIVE = ("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "STOPPED")
DENIED = "DENIED"
_FORMAT = "--format=%i|%T|%r|%B|%k"


@dataclass(frozen=True)
class Submission:
    """One job for Slurm.

    words: sbatch's command line. script: its standard input. tag: names the job.
    """

    words: tuple[str, ...]
    tag: str
    log: Path  # with %j for the job's number
    script: str | None = None

    @property
    def excluded(self) -> set[str]:
        """The nodes that the user excludes."""
        found: set[str] = set()
        for word, following in itertools.pairwise((*self.words, "")):
            option, _, value = word.partition("=")
            if option in ("--exclude", "-x"):
                found |= set((value or following).split(","))
        return found

    def excluding(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """The words with more nodes excluded. If an option stands twice, sbatch uses the last."""
        if not set(nodes):
            return self.words
        excluded = ",".join(sorted(self.excluded | set(nodes)))
        return (*self.words[:-1], f"--exclude={excluded}", self.words[-1])


@dataclass(frozen=True)
class Sample:
    """What one job of a rule asks for. job: Snakemake's. words: sbatch's, without the command to run."""

    job: Any
    words: tuple[str, ...]
    partition: str
    minutes: float


class Submitter:
    """Submits the jobs of one run, and asks Slurm for their state. run: the name of the run."""

    def __init__(self, calls: Calls, executor: Any):
        """executor: Snakemake's, for the options of its profile."""
        self.calls, self.run = calls, executor.run_uuid
        self._executor, self._settings = executor, executor.workflow.executor_settings
        self._numbers = itertools.count(1)
        # The environment of a job. A variable in it says that it is one.
        self._environment = {**os.environ, CLUSTER_JOB: "1"}

    def prepare(self, job: Any, command: str, logs: Path) -> Submission:
        """How a job is submitted.

        job: Snakemake's.  command: what it runs, for a shell.  logs: the folder of the run's logs.
        Raises WorkflowError for resources that the plugin does not allow.
        """
        validate_slurm_extra(job)
        name = f"group_{job.name}" if job.is_group() else f"rule_{job.name}"
        wildcards = get_job_wildcards(job)
        log = logs / name / wildcards / "%j.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        comment = f"{name}_wildcards_{wildcards}" if wildcards else name
        tag = f"{comment} #{next(self._numbers)}"
        return self.submission(job, command, log, tag)

    def submission(self, job: Any, command: str, log: Path, tag: str) -> Submission:
        """How a command is submitted with what a job of Snakemake asks for. log: with %j, or not."""
        words = self._words(job, log, tag)
        if self._settings.pass_command_as_script:
            return Submission((*words, "/dev/stdin"), tag, log, f"#!/bin/sh\n{command}\n")
        return Submission((*words, f"--wrap={command}"), tag, log)

    def _words(self, job: Any, log: Path, tag: str) -> tuple[str, ...]:
        executor, excluded = self._executor, self._settings.exclude_failed_nodes or ""
        call = get_submit_command(
            job,
            {
                "run_uuid": self.run,
                # A percent sign in the folder's name would be one of Slurm's patterns.
                "slurm_logfile": Path(str(log.parent).replace("%", "%%"), log.name),
                "comment_str": tag,
                "account": next(executor.get_account_arg(job)),
                "partition": executor.get_partition_arg(job),
                "workdir": executor.workflow.workdir_init,
            },
            settings=self._settings,
            failed_nodes={name.strip() for name in excluded.split(",") if name.strip()},
        )
        extra = set(shlex.split(str(job.resources.get("slurm_extra") or "")))
        words = shlex.split(call + set_gres_string(job))
        return tuple(os.path.expandvars(word) if word in extra else word for word in words)

    def submit(self, submission: Submission, excluded: Iterable[str], stop: Any) -> Answer:
        """Submit a job. `stop` says whether to stop waiting for the answer."""
        return self.calls.ask(
            *submission.excluding(excluded),
            stdin=submission.script,
            environment=self._environment,
            stop=stop,
        )

    def sample(self, job: Any) -> Sample:
        """A sample of a rule's jobs, for Slurm to test. Raises WorkflowError as `prepare` does."""
        partition = str(job.resources.get("slurm_partition") or "")
        words = self._words(job, Path(os.devnull), "test")
        return Sample(job, words, partition, float(job.resources.get("runtime") or 0))

    def test(self, sample: Sample) -> Answer:
        """Slurm's answer to `sbatch --test-only` for such a job."""
        return self.calls.ask(*sample.words, "--test-only", "--wrap=true")

    def all_nodes_work(self) -> bool:
        """Whether all nodes work: none is down or drained."""
        answer = self.calls.ask("sinfo", "--noheader", "--format=%T")
        working = re.compile(r"(idle|mixed|allocated|completing|planned)[-+]?")
        return answer.status == 0 and all(map(working.fullmatch, answer.out.split()))

    def beyond_partition(self, sample: Sample) -> float:
        """The partition's limit in minutes if such a job asks for more; 0 if it does not.

        Without EnforcePartLimits, Slurm takes a job beyond the limit and never starts it. A QOS may
        lift the limit.
        """
        answer = self.calls.ask("sinfo", "--noheader", "--format=%P|%l")
        rows = (line.strip().split("|") for line in answer.out.splitlines())
        limits = {row[0]: minutes(row[1]) for row in rows if len(row) == 2}
        default = next((limit for name, limit in limits.items() if name.endswith("*")), math.inf)
        found = [
            limits.get(name, limits.get(f"{name}*", math.inf))
            for name in sample.partition.split(",")
            if name
        ]
        limit = max(found, default=default)
        if sample.minutes <= limit:
            return 0.0
        flags = self.calls.ask(
            "sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=flags"
        )
        return 0.0 if flags.status is None or "PartitionTimeLimit" in flags.out else limit

    def exclude(self, numbers: Iterable[str], nodes: Iterable[str]) -> None:
        """Keep queued jobs off these nodes."""
        jobs, excluded = ",".join(sorted(numbers)), ",".join(sorted(nodes))
        self.calls.ask("scontrol", "update", f"jobid={jobs}", f"excnodelist={excluded}")

    def number(self, answer: Answer) -> str:
        """The number of a job that Slurm has taken, without its cluster; "" if the answer has none.

        A site's wrapper of `sbatch` may print more lines.
        """
        found = re.findall(r"^\s*(\d+)\s*(?:;.*)?$", answer.out, re.M)
        return found[-1] if found else ""

    def rows(self, cluster: str = "") -> dict[str, Row] | None:
        """Slurm's row for each job of this run, by number; None if Slurm does not answer."""
        words = ["squeue", "--noheader", "--states=all", f"--name={self.run}", _FORMAT]
        answer = self.calls.ask(*words, *([f"--clusters={cluster}"] if cluster else []))
        if answer.status != 0:
            return None
        rows = (line.strip().split("|", 4) for line in answer.out.splitlines())
        return {
            row[0]: Row(row[1], row[2], "" if row[3] == "n/a" else row[3], row[4])
            for row in rows
            if len(row) == 5
        }

    def left(self, jobs: list[str], pending: bool, until: float) -> list[str]:
        """Which of these jobs still wait or run after they were cancelled; none if Slurm does not say.

        pending: only those that wait. Slurm gets a moment until then.
        """
        while True:
            words = ["squeue", "--noheader", f"--jobs={','.join(jobs)}", "--format=%i|%T"]
            answer = self.calls.last_look(*words, until=until)
            if answer.status != 0:  # it knows none of them any more, or does not answer
                return []
            rows = [line.strip().split("|") for line in answer.out.splitlines()]
            alive = ("PENDING",) if pending else ALIVE
            left = [row[0] for row in rows if len(row) == 2 and row[1] in alive]
            if not left or time.monotonic() + 1.0 > until:
                return left
            time.sleep(0.5)

    def state(self, job: str) -> str | None:
        """A job's state by the controller; "" if it does not know the job, None without an answer.

        DENIED: it answers, but not to this user.
        """
        answer = self._shown(job)
        found = re.search(r"\bJobState=(\w+)", answer.out)
        if answer.status == 0 and found:
            return found[1]
        if "invalid job id" in answer.words.lower():
            return ""
        denied = "denied" in answer.words.lower() or "permission" in answer.words.lower()
        return DENIED if answer.status and denied else None

    def _shown(self, job: str) -> Answer:
        return self.calls.ask("scontrol", "show", "job", "--oneliner", job)

    def ending(self, job: str) -> str:
        """How a job ended, in words: `exit status 127`, `signal 9`; "" if Slurm does not say."""
        answer = self._shown(job)
        found = re.search(r"\bExitCode=(\d+):(\d+)", answer.out)
        if answer.status != 0 or found is None:
            return ""
        status, number = map(int, found.groups())
        return f"signal {number}" if number else f"exit status {status}"

    def is_down(self) -> bool:
        """Whether Slurm itself says that no controller is up. Other trouble does not count."""
        answer = self.calls.ask("scontrol", "ping")
        return " DOWN" in answer.out and " UP" not in answer.out
