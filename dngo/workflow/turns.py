"""Fits that Snakemake could start, and whose turn has not come: see `dngo.study.overlapping`."""

from __future__ import annotations

from typing import Any

from dngo.errors import UserError
from dngo.study import Study
from dngo.workflow import slurm
from dngo.workflow.bare import members


def attend(workflow: Any, study: Study) -> None:
    """Called when a run begins: listen to signals, and hold back each fit of a study until its turn."""
    slurm.listen(workflow)
    scheduler, select = workflow.scheduler, workflow.scheduler.job_selector

    def in_turn(jobs: Any) -> Any:
        now = {job for job in jobs if not _waits(job, study)}
        if not now and not scheduler.running:
            now = jobs  # nothing else would end the wait
        return select(now) if now else []

    scheduler.job_selector = in_turn


def _waits(job: Any, study: Study) -> bool:
    """Whether a job of Snakemake fits a model of this study whose turn has not come."""
    for part in members(job):
        dag = part.rule.module_globals.get("dag")
        if not hasattr(part.output, "surrogate") or getattr(dag, "study", None) is not study:
            continue
        try:
            return not study.has_turn(int(part.wildcards.iteration))
        except (OSError, UserError):  # the archive cannot be read now
            return True
    return False
