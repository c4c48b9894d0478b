"""The plan of one run as paths, for the Snakefile.

The batch size, the chunks and the iterations are known before anything runs, so the DAG is static.
It leaves out iterations that the archive already holds, and does not name their files as inputs.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from snakemake.io import ancient, flag
from snakemake.io import local as stays
from snakemake.logging import logger
from snakemake.path_modifier import PATH_MODIFIER_FLAG
from snakemake_interface_executor_plugins.settings import SharedFSUsage

from dngo.check import check_names, check_needs
from dngo.config import load
from dngo.config.yaml_1_1 import as_meant
from dngo.errors import UserError
from dngo.evaluation.command import check_environment
from dngo.evaluation.journal import GOES_ON
from dngo.locate import find_study
from dngo.provenance import typed, user, workflow_folder
from dngo.storage.claim import BEAT, SILENCE, Claim, describe
from dngo.storage.patience import in_words
from dngo.storage.processes import end_at_once
from dngo.storage.text import fault
from dngo.study import Study
from dngo.workflow import course, module, others, resources, room, slurm, turns
from dngo.workflow.bare import job_limits


class Dag:
    """The rules' view of a study. Methods with `wildcards` are Snakemake input functions."""

    def __init__(
        self, study: Study, *, main: bool = False, remote: bool = False, folder: str | None = None
    ):
        """folder: the study's folder as the rules name it; Snakemake adds a module's prefix."""
        self.study = study
        self.remote = remote
        self.travels = False  # see `here`
        self.cores: int | None = None  # of this machine, if jobs run on it
        self.config: dict[str, Any] = json.loads(study.config.resolved())
        self.folder = str(study.folder) if folder is None else folder
        self._claim: Claim | None = None
        # Called when a run begins, to listen to signals and to hold back fits.
        self._listen: Callable[[], None] = lambda: None
        self.needs = _as_inputs(study.config.needs, modified=None)
        self._file = ""  # option that names the configuration in commands of `dngo`
        # A cluster job runs one rule for its own wildcards: it needs no plan.
        self.archived = study.merged()
        self.plan = study.plan() if main else None
        if main:
            self.study.overlap(1)  # until `of` knows the slots

    @classmethod
    def of(cls, workflow: Any, config: Any) -> Dag:
        """The DAG for the Snakefile that Snakemake is reading, which may be the main one or a
        module.

        workflow: Snakemake's.
        config: a module's; the main Snakefile reads its own from files.
        Raises UserError with one line for each mistake.
        """
        roles = {
            "main": workflow.is_main_process,
            "dry": slurm.is_asked(),
            "remote": workflow.remote_exec,
        }
        if workflow.modifier.is_main_snakefile():
            end_at_once()
            # `cores: all` means the cores of this machine. A job on a cluster may have more than
            # the login node.
            if workflow.nodes is not None:
                workflow.global_resources["_cores"] = None
            files = workflow.overwrite_configfiles
            dag = cls.build(_study(files, workflow.config_settings.config), **roles)
            dag._file = f" {os.path.relpath(files[0])}" if files else ""
        else:
            study, folder = _module_study(workflow, config)
            dag = cls.build(study, **roles, folder=folder)
            dag.needs = _as_inputs(study.config.needs, modified=workflow.modifier.path_modifier)
            if workflow.is_main_process:
                module.attach(workflow, dag)
        if workflow.nodes is None:
            dag.cores = workflow.cores
        if roles["main"]:
            dag.overlap(workflow.nodes)
        shared = workflow.storage_settings.shared_fs_usage
        dag.travels = SharedFSUsage.INPUT_OUTPUT not in shared
        if roles["main"]:
            resources.check(dag.study.config, workflow)
        if roles["main"]:
            os.environ.setdefault("LOGNAME", user())  # Snakemake needs a name for its log
            atexit.register(course.outlive_readers)
            dag._listen = lambda: turns.attend(workflow, dag.study)
        if roles["main"] and not roles["dry"]:
            course.attach(workflow.logger_manager.get_log_handlers(), dag.study)
            room.await_room(workflow, alone=workflow.modifier.is_main_snakefile())
            if dag.goes_on and not workflow.output_settings.dryrun:  # workflow.dryrun comes later
                (dag.study.folder / "done").unlink(missing_ok=True)
        return dag

    @classmethod
    def build(
        cls, study: Study, *, main: bool, dry: bool, remote: bool, folder: str | None = None
    ) -> Dag:
        """Plan the run of a study; raises UserError with one line for each mistake."""
        if (workflow_folder() / "dngo").is_dir():
            # The jobs' scripts import the package beside the Snakefile, as this process does.
            paths = [str(workflow_folder()), os.environ.get("PYTHONPATH", "")]
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        dag = cls(study, main=main, remote=remote, folder=folder)
        if main:
            dag._check_folder()
            os.environ["DNGO_PROFILE"] = _profile(sys.argv)  # the jobs record it
            if dag.study.config.objective.strict:
                dag.study.changes()
            if folder is None and dag.goes_on:
                check_needs(study.config)
            dag._announce(brief=folder is not None)
        if main and slurm.is_asked():
            slurm.register()
        if main and not dry:
            if dag.goes_on:
                check_environment(study.config.objective)
            slurm.register()
            others.register()
            dag._drop_stale()
        return dag

    def _check_folder(self) -> None:
        # Snakemake looks into this folder before the run begins.
        there = next(p for p in (self.study.folder, *self.study.folder.parents) if p.exists())
        if not there.is_dir():
            raise UserError(f"{there}: is not a folder; name another one under `results`")
        self.study.check_new()
        if fault(self.folder):
            raise UserError(
                f"{self.folder}: Snakemake needs paths in UTF-8; rename the folder, or type "
                "the command inside it"
            )

    def _announce(self, *, brief: bool) -> None:
        from dngo.report import headline, summary

        assert self.plan is not None
        if self.plan.iterations or brief:
            text = f"Study {self.study.config.study}: {headline(self.study)}"
        else:
            text = f"{summary(self.study)}\n\nNothing to evaluate: {self.plan.reason}."
        warnings = [f"Warning: {line}" for line in self.study.config.exposed]
        with contextlib.suppress(BrokenPipeError):  # nobody reads the summary, so go on
            print("\n".join([text, *warnings]), file=sys.stderr)

    @property
    def goes_on(self) -> bool:
        """Whether this run has iterations to do."""
        return self.plan is not None and bool(self.plan.iterations)

    def _drop_stale(self) -> None:
        # Somebody may have deleted the archive, or replaced it by an older copy. Then its
        # iterations must be merged again from their outcomes on disk, and old receipts must not
        # hide that.
        assert self.plan is not None
        for t in self.plan.iterations:
            self.study.clear_end(t)
            receipt = self.study.iteration(t) / "receipt.json"
            if receipt.exists():
                receipt.replace(self.study.paths.earlier_receipt(t))

    # ---- where files are ------------------------------------------------------------------------

    def here(self, path: str) -> str:
        """A file that stays on the machine of Snakemake, even if jobs share no file system with it.

        In that case, batches and outcomes travel through Snakemake's storage. Fits and proposals
        need the archive, so they run here.
        """
        return stays(path) if self.travels else path

    @property
    def model_group(self) -> str | None:
        """The group that fits and proposes in one job of a cluster."""
        return None if self.travels else "model-{iteration}"

    # ---- inputs ---------------------------------------------------------------------------------

    def targets(self, wildcards: Any) -> list[str]:
        """The last planned receipt, the report if there is something to report, and the run's end."""
        assert self.plan is not None
        # The receipt is a target as well. Otherwise, if the report existed, Snakemake would not
        # make a missing receipt again.
        receipts = [self._receipt(t) for t in self.plan.iterations[-1:]]
        if not receipts and not self.archived:
            return []
        ends = [f"{self.folder}/done"] if self.plan.is_last else []
        return [*receipts, *map(self.here, [f"{self.folder}/report/summary.txt", *ends])]

    def merged(self, wildcards: Any) -> list[str]:
        """What the report waits for: the last merge of this run, or the current archive."""
        if self.plan is not None and self.goes_on:
            return [self._receipt(self.plan.iterations[-1])]
        return [self.here(f"{self.folder}/archive.h5")]

    def shown(self, wildcards: Any) -> list[str]:
        """The refreshments during this run.

        The final report waits for them, so that it is written last.
        """
        return [self._shown(t) for t in self.plan.iterations[-2:-1]] if self.plan else []

    def previous_shown(self, wildcards: Any) -> list[str]:
        """The refreshment before this one, if it is still planned.

        So no old report replaces a newer one.
        """
        t = int(wildcards.iteration)
        return [self._shown(t - 1)] if t > self.archived else []

    def _shown(self, t: int) -> str:
        return self.here(f"{self.folder}/iterations/{t}/shown")

    def training(self, wildcards: Any) -> list[str]:
        """The merge that completes the training data of an iteration, if it is still planned."""
        last = self.study.training_iterations(int(wildcards.iteration)) - 1
        return [self._receipt(last)] if last >= self.archived else []

    def surrogate(self, wildcards: Any) -> list[str]:
        """The surrogate of an iteration; the initial design has none."""
        if int(wildcards.iteration) == 0:
            return []
        return [self.here(f"{self.folder}/iterations/{wildcards.iteration}/surrogate.h5")]

    def previous_batch(self, wildcards: Any) -> list[str]:
        """The batch before, if it may still run when this one is chosen."""
        t = int(wildcards.iteration)
        if t == 0 or t - 1 < max(self.archived, self.study.training_iterations(t)):
            return []
        return [f"{self.folder}/iterations/{t - 1}/proposals.json"]

    def outcomes(self, wildcards: Any) -> list[str]:
        """The chunks of a batch."""
        t = int(wildcards.iteration)
        folder = f"{self.folder}/iterations/{t}/outcomes"
        return [f"{folder}/{chunk}.json" for chunk in range(self.study.num_chunks(t))]

    def previous_merge(self, wildcards: Any) -> list[str]:
        """The merge before this one, if it is still planned. The archive grows in order."""
        t = int(wildcards.iteration)
        return [self._receipt(t - 1)] if t > self.archived else []

    def _receipt(self, t: int) -> str:
        return self.here(f"{self.folder}/iterations/{t}/receipt.json")

    # ---- resources ------------------------------------------------------------------------------

    def resources(self, rule: str) -> dict[str, Any]:
        """The configured resources of a rule, without its threads.

        Time and memory of an evaluation grow with each attempt where the user asks for it.
        """
        cluster = self.cores is None
        found = resources.asked(self.study.config, rule, cluster=cluster, rows=self._rows)
        if rule == "evaluate":
            for name in ("mem_mb", "gpu", "gpus"):
                if isinstance(found.get(name), int | float):
                    found[name] *= self._at_once
        if rule == "evaluate" and self.study.config.escalation > 1:
            for name in ("runtime", "mem_mb"):
                if isinstance(found.get(name), int | float):
                    found[name] = self._growing(found[name])
        return found

    @cached_property
    def _rows(self) -> int:
        """The number of evaluations in the archive at the end of this run."""
        header = self.study.header()
        planned = self.plan.iterations if self.plan else ()
        return (header.rows if header else 0) + sum(map(self.study.config.batch_size_of, planned))

    def _growing(self, base: float) -> Any:
        factor, most = self.study.config.escalation, self.study.config.retries

        def amount(wildcards: Any, attempt: int) -> int:
            return math.ceil(base * factor ** min(attempt - 1, most))

        return amount

    @property
    def retries(self) -> int:
        """Attempts at an evaluation that Snakemake makes after the first.

        One more than configured: the last one starts nothing, but records the lost points. A
        cluster job makes one attempt. The next attempt is another job with its own resources.
        """
        return 0 if self.remote else self.study.config.retries + 1

    @property
    def limits(self) -> Any:
        """The limits of an evaluation in a cluster job: a function of the job's resources, or nothing.

        On this machine Snakemake's resources limit CPUs only. There a constant is enough, and
        planning takes a quarter less time than with a function.
        """
        return job_limits if self.remote else {"cpus": self.threads("evaluate")}

    def threads(self, rule: str) -> int:
        """The configured threads of a rule, times the points that a job evaluates side by side."""
        config = self.study.config
        threads = int(getattr(config.resources, rule).get("threads", 1))
        if rule != "evaluate":
            return threads
        if config.points_at_once == "auto" and self.cores is not None:
            return max(threads, min(threads * config.points_per_job, self.cores))
        return threads * self._at_once

    @property
    def _at_once(self) -> int:
        """The number of points whose resources a job asks for. With `auto` it asks for one."""
        config = self.study.config
        at_once = 1 if config.points_at_once == "auto" else config.points_at_once
        return min(at_once, config.points_per_job)

    def overlap(self, nodes: int | None) -> None:
        """Decide how many batches are in flight. nodes: the most jobs on the cluster, if there is one."""
        slots = nodes if self.cores is None else self.cores // self.threads("evaluate")
        self.study.overlap(slots or 1)

    # ---- the run --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Called when a run starts. It claims the study: only one Snakemake at a time may work on it.

        A user's mistake, such as a second run, prints one line and ends this process. Snakemake
        would add places in its own code. A run that was killed leaves no lock behind.
        """
        self._listen()
        try:
            self._begin()
        except (UserError, OSError) as error:
            logger.error(in_words(error) or str(error))
            sys.exit(1)

    def _begin(self) -> None:
        try:
            self.study.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.study.folder):
                pass
        except OSError as error:
            raise UserError(
                f"{self.study.folder}: cannot be written to ({error.strerror}); correct "
                "that, or name another folder under `results`"
            ) from None
        claim = self.study.run_claim
        patience = 5.0
        if claim.elsewhere:
            patience = SILENCE + 2 * BEAT
            owner = describe(claim.owner())
            logger.warning(f"Last run by {owner}: waiting {patience:.0f} s for a sign of life")
        try:
            claim.wait(patience, f"the study in {self.folder}")
        except TimeoutError as error:
            raise UserError(f"{error}; wait for it, or stop it") from None
        self._claim = claim
        if not self.study.merged():
            self.study.transfer()
        changes = self.study.begin()
        if changes:
            logger.warning(
                f"The objective has changed since the earlier evaluations: {changes}. The "
                "study treats both as the same objective; if their values differ, begin "
                "another study. objective.strict: true refuses such changes."
            )

    def release(self) -> None:
        """Give the study free."""
        if self._claim is not None:
            self._claim.release()

    def end(self, *, success: bool) -> None:
        """Called when a run ends. Release the study, and print its state."""
        self.release()
        try:
            self._say_end(success=success)
        except (
            ImportError
        ) as error:  # as after `git checkout`, or an update, in the course of the run
            logger.error(
                f"The files of dngo have changed since this run began ({error}), so it cannot show its "
                f"state. No outcome is lost: {typed()} status{self._file} shows it, and the same command "
                "goes on."
            )

    def _say_end(self, *, success: bool) -> None:
        from dngo.report import headline, summary

        if success and self.study.merged():
            logger.info(f"\n{summary(self.study)}")
        elif not success:
            logger.error(
                f"Study {self.study.config.study} stopped early: {headline(self.study)}. No outcome "
                f"is lost. {self._why_stopped()}"
            )

    def _why_stopped(self) -> str:
        """A message: what stopped the run, and how to go on."""
        reason = self.study.journal.stopped
        if not reason or GOES_ON in reason:
            return reason or "See the messages above, then type the same command again."
        lines = [
            "What stopped it:",
            f"  {reason}",
            "Correct that, then type the same command again. Before:",
            f"  {typed()} check --run{self._file}     evaluates one point outside the study",
        ]
        fine = ("ok", "infeasible", "pending")
        if any(status not in fine for _, status in self.study.known().values()):
            lines += [
                f"  {typed()} retry --failed{self._file}  has failed points evaluated anew, in the next "
                "batch",
                "If such failures are normal in this space, set stop.failures: 0. Then no "
                "run stops for them.",
            ]
        return "\n".join(lines)


def _as_inputs(needs: Sequence[str], modified: Any) -> list[Any]:
    """Files as inputs of a rule. If they change, no evaluation runs again.

    modified: how a module changes the paths of its rules. These files belong to the user's
    workflow, so their paths stay.
    Raises UserError for a name that Snakemake takes for a pattern.
    """
    # Relative to here, as a folder above may have any name.
    names = [os.path.relpath(name) if {"{", "}"} & set(name) else name for name in needs]
    check_names(names)
    found = [ancient(name) for name in names]
    if modified is None:
        return found
    return [
        flag(each, PATH_MODIFIER_FLAG) if modified.replace_prefix(each) != each else each
        for each in found
    ]


def _profile(argv: Sequence[str]) -> str:
    """The profile that Snakemake was started with: from its command line, or from the environment."""
    for word, value in pairwise([*argv, ""]):
        if word == "--profile":
            return value
        if word.startswith("--profile="):
            return word.partition("=")[2]
    return os.environ.get("SNAKEMAKE_PROFILE", "")


def _study(configfiles: Sequence[str | Path], overrides: Mapping[str, Any]) -> Study:
    """The study of the named files; otherwise of ./config.yaml, or of the one beside the Snakefile."""
    own, default = Path("config.yaml"), workflow_folder() / "config.yaml"
    found = default if default.exists() and not own.exists() else own
    return find_study(configfiles or [found], overrides)


def _module_study(workflow: Any, config: Any) -> tuple[Study, str]:
    """The study of a module's `config:`, and its folder as the module's rules name it.

    `config:` is the study's configuration, or holds it in a section `dngo` next to the user's own
    keys.
    """
    given = config.get("dngo", config) if isinstance(config, Mapping) else None
    if not isinstance(given, Mapping) or not given:
        raise UserError(
            'module: `config:` has no study in it; give it one, for example `config: config["dngo"]`'
        )
    found = load([], as_meant(given, workflow.configfiles), place="module: config")
    folder = str(Path(found.results) / found.study)
    prefixed = workflow.modifier.path_modifier.replace_prefix
    place = prefixed(f"{folder}/archive.h5")
    # The rules' paths begin with <study>. Snakemake adds the prefix before it knows that <study> is
    # absolute.
    if place != prefixed("<study>/archive.h5").replace("<study>", folder):
        raise UserError(
            f"module: its prefix cannot be put before `results: {found.results}`; give a relative "
            "`results`, and `prefix:` rather than `replace_prefix:`"
        )
    results = str(Path(place).parents[1])
    return Study(found.model_copy(update={"results": results})), folder
